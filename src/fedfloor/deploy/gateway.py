"""The gateway of a floor: serves its devices, trains tops, averages the floor, and answers the base station."""

__all__ = ["Gateway", "serve_gateway"]

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fedfloor import __version__
from fedfloor.arrays import Vector
from fedfloor.deploy.actuators.contract import Actuator
from fedfloor.deploy.energy import EnergyBudget, EnergyMeter
from fedfloor.deploy.feedback import Feedback
from fedfloor.deploy.fields import Layout, LinkError
from fedfloor.deploy.guarding import guard_for, papers_of
from fedfloor.deploy.identity import Credentials
from fedfloor.deploy.joining import joining_text, this_machine
from fedfloor.deploy.link import Joined, Listener, sessions
from fedfloor.deploy.member import Member, MemberRound, Part
from fedfloor.deploy.messages import (
    Abandon,
    Expected,
    Failed,
    Hello,
    Inputs,
    Model,
    Order,
    Present,
    Ready,
    Received,
    Settled,
    Share,
    Sums,
    Trained,
    Turn,
    Welcome,
)
from fedfloor.deploy.session import Session
from fedfloor.deploy.tasks import FloorTask, parse_task, task_text
from fedfloor.deploy.tops import TopPool
from fedfloor.errors import DeploymentError, FailedRunError, FedfloorError
from fedfloor.training.network import built
from fedfloor.training.network.quantised import cast_size, uncast
from fedfloor.training.network.weights import average

_LOG = logging.getLogger(__name__)
_TRIAL = Turn(0, 1)  #: of the step that warms a new device up; a base station's attempts begin at 2
_TRIAL_S = 60.0  #: that it may take


@dataclass(frozen=True, slots=True, eq=False)
class Gateway:
    """What a gateway's owner decides."""

    name: str
    station: str  #: HOST:PORT of the base station
    listen: str  #: HOST:PORT for devices
    actuator: Callable[[], Actuator]  #: one for each device that the gateway computes for
    credentials: Credentials | None  #: None: without TLS, on this machine only
    processes: int | None = None  #: that train tops; None: one per core
    energy: EnergyBudget | None = None  #: what it may spend in a round; None: as the scenario says
    meter: EnergyMeter | None = None  #: what it has spent; None: computed from the model
    state: Path | None = None  #: folder for what must outlast a restart
    own: bool = False  #: import a model that the plant names as `package.module:callable`
    on_listening: Callable[[int], None] = lambda _: None  #: told the port for devices


async def serve_gateway(options: Gateway) -> None:
    """Serve the floor until cancelled; a base station that is lost is dialled again."""
    profile = joining_text(this_machine(options.name, has_energy_source=options.energy is not None))
    hello = Hello(role="gateway", name=options.name, software=__version__, profile=profile)
    gateway, papers = _Gateway(options), papers_of(options.credentials)
    async with (
        TopPool(options.processes) as pool,
        Listener(options.listen, gateway.attend, guard_for(options.credentials, "device"), papers) as door,
    ):
        options.on_listening(door.port)
        gateway.pool = pool
        async for joined in sessions(options.station, hello, papers):
            try:
                await gateway.follow(joined)
            except LinkError as error:
                _LOG.warning("%s", error)
            except FedfloorError as error:
                _LOG.error("%s", error)  # a sentence for people, not a traceback
                await joined.session.close(str(error))


@dataclass(slots=True, eq=False)
class _Gateway:
    """A floor, as its gateway keeps it."""

    options: Gateway
    pool: TopPool = field(init=False)
    task: FloorTask | None = field(init=False, default=None)
    network: built.BuiltNetwork = field(init=False)  #: tells sizes and shapes; nothing is trained in it
    inputs: built.Inputs | None = field(init=False, default=None)
    members: dict[str, Member] = field(init=False, default_factory=dict)  #: devices that are connected, by name
    tried: set[str] = field(init=False, default_factory=set)  #: members that have done their trial
    feedback: Feedback | None = field(init=False, default=None)
    base: Session | None = field(init=False, default=None)
    _has_task: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _has_news: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _round: asyncio.Task[None] | None = field(init=False, default=None)

    # Devices

    async def attend(self, session: Session, hello: Hello) -> None:
        """Serve a device that the guard has let in, until its connection ends."""
        await self._has_task.wait()
        assert self.task is not None
        task = next((device for device in self.task.devices if device.name == hello.name), None)
        if task is None:
            await session.close(f"The floor '{self.task.floor}' has no device '{hello.name}'.")
            return
        before = self.members.pop(task.name, None)
        if before is not None:
            await before.session.close("Another connection of this device has taken its place.")
        await session.send(Welcome(task_text(task)))
        member = self.members[task.name] = Member(task, session, self.network)
        _LOG.info("%s has joined.", task.name)
        listening = asyncio.create_task(member.listen(self._has_news.set))
        try:
            if self.inputs is not None:
                await self._admit(member, self.inputs)
            await listening
        finally:
            listening.cancel()
            if self.members.get(task.name) is member:
                del self.members[task.name]
                self.tried.discard(task.name)
                _LOG.info("%s is gone.", task.name)
            self._has_news.set()

    async def _admit(self, member: Member, inputs: built.Inputs) -> None:
        """Tell a device the scale of the inputs, and do one split step with it, which warms both sides up."""
        await member.session.send(Inputs(inputs.mean, inputs.deviation))
        task, weights = member.task, np.zeros(self.network.layout.size, np.float32)
        self.network.layout.save(weights)
        cut = min(max(task.min_cut, 1), self.network.depth)
        assert self.task is not None
        share = 1.0 / len(self.task.devices)
        frequency = share * self.task.max_frequency_hz
        trial = MemberRound(_TRIAL, cut, frequency, share, 0.0, 1, _TRIAL_S, weights)
        try:
            await member.train(trial, self.pool, inputs, self.options.actuator())
        except (FailedRunError, DeploymentError, ValueError) as error:
            await member.session.close(f"The first step failed: {error}")
            return
        self.tried.add(task.name)
        self._has_news.set()

    # Base station

    async def follow(self, joined: Joined) -> None:
        """Do what the base station asks for until the connection ends."""
        self._adopt(parse_task(joined.welcome.task, FloorTask, self.options.station))
        self.base = joined.session
        reporting = asyncio.create_task(self._report(joined.session))
        self._has_news.set()
        try:
            while True:
                await self._answer(joined.session)
        finally:
            self.base = None
            reporting.cancel()
            self._stop_round()

    def _adopt(self, task: FloorTask) -> None:
        """Take on a task; if it is another one than before, devices have to join again."""
        if task.floor != self.options.name:
            raise DeploymentError(f"{self.options.station}: sent the task of '{task.floor}' to '{self.options.name}'")
        model, seed = task.devices[0].model, task.devices[0].seed
        if ":" in model.name and not self.options.own:
            problem = f"model.name: names code that would run, '{model.name}'"
            raise DeploymentError(f"{self.options.station}: {problem}. If you trust that code, start with --own")
        if task == self.task:
            return
        self.network, self.inputs, self.task = built.BuiltNetwork(model, seed), None, task
        self.feedback = None
        if task.upload < 32:
            run = f"{task.devices[0].plant} {seed}"
            self.feedback = Feedback(self.network.layout.pieces, task.upload, folder=self.options.state, run=run)
        for member in self.members.values():
            member.session.end("The base station has another task.")
        self._has_task.set()

    async def _report(self, session: Session) -> None:
        """Tell the base station who is there, whenever that changes."""
        told: Sums | None = None
        assert self.task is not None
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            sums = [member.sums for member in self.members.values() if member.sums is not None]
            if self.inputs is None and len(sums) == len(self.task.devices) and told is None:
                told = _added(sums)
                await session.send(told)
            energy = None if self.options.energy is None else await asyncio.to_thread(self.options.energy.read)
            devices = tuple(Present(name, self.members[name].energy) for name in sorted(self.tried))
            await session.send(Ready(energy, devices))

    async def _answer(self, session: Session) -> None:
        assert self.task is not None
        size, pieces = self.network.layout.size, self.network.layout.pieces
        weights = Layout("float32", (size,)) if self.task.download == 32 else Layout("uint8", (cast_size(pieces),))
        envelope = await session.receive(Inputs, Settled, Abandon, Expected(Order, {"weights": weights}))
        message = envelope.message
        if isinstance(message, Inputs):
            self.inputs = built.Inputs(message.mean, message.deviation)
            await asyncio.gather(*(self._admit(member, self.inputs) for member in list(self.members.values())))
        elif isinstance(message, Order):
            self._stop_round()
            self._round = asyncio.create_task(self._carry_out(session, message, envelope.turn))
        elif isinstance(message, Abandon):
            self._stop_round()
        elif isinstance(message, Settled):
            if self.feedback is not None:
                self.feedback.settle(envelope.turn.round, completed=message.completed)
            for member in self.members.values():
                with contextlib.suppress(LinkError):
                    await member.session.send(message, envelope.turn)
            self._has_news.set()

    def _stop_round(self) -> None:
        if self._round is not None:
            self._round.cancel()
            self._round = None

    # A round

    async def _carry_out(self, session: Session, order: Order, turn: Turn) -> None:
        try:
            await session.send(Received(), turn)
            await self._train(session, order, turn)
        except (LinkError, DeploymentError, ValueError) as error:
            _LOG.warning("Round %d: %s", turn.round, error)
            with contextlib.suppress(LinkError):
                await session.send(Failed(str(error)), turn)

    async def _train(self, session: Session, order: Order, turn: Turn) -> None:
        task, layout = self.task, self.network.layout
        assert task is not None
        weights: Vector = order.weights if task.download == 32 else uncast(order.weights.tobytes(), layout.pieces)
        if order.cuts.size != len(task.devices) or order.frequencies_hz.size != len(task.devices):
            raise DeploymentError(f"the order must have {len(task.devices)} cuts and frequencies")
        spent = None if self.options.meter is None else self.options.meter.start()
        names = [device.name for device in task.devices if device.name in self.tried and device.name in self.members]
        results = await asyncio.gather(*(self._part(name, order, turn, weights) for name in names))
        parts = [(name, part) for name, part in zip(names, results, strict=True) if isinstance(part, Part)]
        if not parts:
            reasons = "; ".join(str(result) for result in results) or "no device is there"
            raise DeploymentError(reasons)
        points = math.fsum(part.points for _, part in parts)
        loss = math.fsum(part.points * part.loss for _, part in parts) / points
        model = average(((part.points, part.weights) for _, part in parts), layout.size)
        energy = None if spent is None else spent()
        shares = tuple(Share(name, part.device_s, part.link_s, part.energy) for name, part in parts)
        await session.send(Trained(loss, points, energy, shares), turn)
        await session.send(Model(self._upload(model, weights, turn)), turn)

    async def _part(self, name: str, order: Order, turn: Turn, weights: Vector) -> Part | Exception:
        """What a device contributes, or why it contributes nothing."""
        assert self.task is not None
        assert self.inputs is not None
        place = [device.name for device in self.task.devices].index(name)
        frequency, total = float(order.frequencies_hz[place]), order.download_s + order.train_s + order.upload_s
        asked = MemberRound(
            turn=turn,
            cut=int(order.cuts[place]),
            frequency=frequency,
            share=min(frequency / self.task.max_frequency_hz, 1.0),
            power=order.power_w,
            iterations=self.task.devices[place].local_iterations,
            deadline=order.deadline_s * (order.train_s / total if total > 0.0 else 1.0),
            weights=weights,
        )
        try:
            return await self.members[name].train(asked, self.pool, self.inputs, self.options.actuator())
        except (FailedRunError, DeploymentError, ValueError) as error:
            _LOG.warning("Round %d: %s is left out: %s", turn.round, name, error)
            return error

    def _upload(self, model: Vector, weights: Vector, turn: Turn) -> "np.ndarray[tuple[int], np.dtype[np.generic]]":
        """The floor's model as it is sent: itself, what changed, or what changed with fewer bits."""
        task = self.task
        assert task is not None
        if task.upload == task.download == 32:
            return model
        update = model - weights
        if self.feedback is None:
            return update
        message = self.feedback.message(update, seed=task.devices[0].seed, index=turn.round, floor=task.number)
        return np.frombuffer(message, np.uint8)


def _added(sums: list[Sums]) -> Sums:
    """The sums of several devices together."""
    return Sums(
        sum(entry.count for entry in sums),
        np.sum([entry.sum for entry in sums], axis=0),
        np.sum([entry.square_sum for entry in sums], axis=0),
    )
