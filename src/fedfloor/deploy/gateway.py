"""The gateway of a floor: serves its devices, trains tops, averages the floor, and answers the base station."""

__all__ = ["Gateway", "serve_gateway"]

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from fedfloor import __version__
from fedfloor.arrays import Vector
from fedfloor.characters import safe_line
from fedfloor.deploy.actuators.contract import Actuator
from fedfloor.deploy.energy import EnergyBudget, EnergyMeter
from fedfloor.deploy.feedback import Feedback
from fedfloor.deploy.fields import LinkError
from fedfloor.deploy.guarding import guard_for, papers_of
from fedfloor.deploy.identity import Credentials
from fedfloor.deploy.joining import joining_text, this_machine
from fedfloor.deploy.link import Joined, Listener, sessions
from fedfloor.deploy.measuring import CostMeter
from fedfloor.deploy.member import Member, MemberRound, Part
from fedfloor.deploy.messages import (
    Abandon,
    Compare,
    Compared,
    Failed,
    Hello,
    Inputs,
    Order,
    Present,
    Profile,
    Ready,
    Received,
    Settled,
    Share,
    Sums,
    Survey,
    Surveyed,
    Trained,
    Turn,
    Welcome,
)
from fedfloor.deploy.orders import expected_orders, floor_model, refuse_incomplete_order, start_of
from fedfloor.deploy.scaling import added, checked_inputs
from fedfloor.deploy.session import PARTING_S, Session
from fedfloor.deploy.surveying import mean_survey
from fedfloor.deploy.tasks import FloorTask, parse_task, task_text
from fedfloor.deploy.together import until_one_ends
from fedfloor.deploy.tops import TopPool
from fedfloor.errors import DeploymentError, FailedRunError, FedfloorError, shown
from fedfloor.training.floors import DeviceResult, floor_result
from fedfloor.training.network import built

_LOG = logging.getLogger(__name__)
_TRIAL = Turn(0, 1)  #: of the step that warms a new device up; a base station's attempts begin at 2
_TRIAL_S = 60.0  #: that it may take
_SURVEY_SHARE = 0.75  #: of the time for an estimate that devices get; the rest is for the way to the base station
_TASK_S = 8.0  #: how long a device that joins waits for the gateway's task; less than it waits for a Welcome


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
    meter_of_costs: CostMeter = field(default_factory=CostMeter)  #: measures layers if the plant asks for it
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
        gateway.pool, gateway.door = pool, door
        async for joined in sessions(options.station, hello, papers):
            try:
                await gateway.follow(joined)
            except LinkError as error:
                _LOG.warning("%s", error)
                if joined.session.is_open:  # what the base station sent fits a message, but not this floor
                    await joined.session.close(str(error))
            except FedfloorError as error:
                _LOG.error("%s", error)  # a sentence for people, not a traceback
                await joined.session.close(str(error))


@dataclass(slots=True, eq=False)
class _Gateway:
    """A floor, as its gateway keeps it."""

    options: Gateway
    pool: TopPool = field(init=False)
    door: Listener = field(init=False)  #: through which devices come
    task: FloorTask | None = field(init=False, default=None)
    network: built.BuiltNetwork = field(init=False)  #: tells sizes and shapes; nothing is trained in it
    inputs: built.Inputs | None = field(init=False, default=None)
    is_agreed: bool = field(init=False, default=False)  #: the base station that is connected has sent these inputs
    members: dict[str, Member] = field(init=False, default_factory=dict)  #: devices that are connected, by name
    feedback: Feedback | None = field(init=False, default=None)
    _has_task: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _has_news: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _round: asyncio.Task[None] | None = field(init=False, default=None)

    # Devices

    async def attend(self, session: Session, hello: Hello) -> None:
        """Serve a device that the guard has let in, until its connection ends."""
        try:
            async with asyncio.timeout(_TASK_S):
                await self._has_task.wait()
        except TimeoutError:
            await session.close("This gateway has no task yet, because it has not reached the base station.")
            return
        floor = self.task
        assert floor is not None
        task = next((device for device in floor.devices if device.name == hello.name), None)
        if task is None:
            reason = f"The floor {shown(floor.floor)} has no device {shown(hello.name)}."
            _LOG.warning("Refused %s at %s: %s", safe_line(hello.name), session.peer, reason)
            await session.close(reason)
            return
        await session.send(Welcome(task_text(task)))
        if self.task is not floor:
            await session.close("The base station has another task by now.")
            return
        member = Member(task, session, self.network)
        before, self.members[task.name] = self.members.get(task.name), member
        if self.inputs is not None:
            member.is_called.set()
        _LOG.info("%s has joined.", task.name)
        try:
            if before is not None:
                await before.session.close("Another connection of this device has taken its place.")
            await until_one_ends(member.listen(self._has_news.set), self._admit_when_called(member))
        finally:
            if self.members.get(task.name) is member:
                del self.members[task.name]
                _LOG.info("%s is gone.", task.name)
            self._has_news.set()

    async def _admit_when_called(self, member: Member) -> None:
        while True:
            await member.is_called.wait()
            member.is_called.clear()
            if self.inputs is not None:
                await self._admit(member, self.inputs)

    async def _admit(self, member: Member, inputs: built.Inputs) -> None:
        """Tell a device the scale of the inputs, and do one split step with it, which warms both sides up."""
        await member.session.send(Inputs(inputs.mean, inputs.deviation))
        await asyncio.to_thread(lambda: self.network.crossing)  # torch loads much for it, once, while others are served
        task, weights = member.task, np.zeros(self.network.layout.size, np.float32)
        self.network.layout.save(weights)
        cut = min(max(task.min_cut, 1), self.network.depth)
        assert self.task is not None
        share = 1.0 / len(self.task.devices)
        frequency = share * self.task.max_frequency_hz
        trial = MemberRound(_TRIAL, cut, frequency, share, 0.0, 1, _TRIAL_S, weights)
        try:
            await member.train(trial, self.pool, inputs, self.options.actuator())
        except (FailedRunError, FedfloorError, ValueError) as error:
            _LOG.warning("%s cannot take part, because its first step failed: %s", task.name, error)
            await member.session.close(f"The first step failed: {error}")
            return
        member.is_tried = self.inputs is inputs  # otherwise it is called again
        self._has_news.set()

    # Base station

    async def follow(self, joined: Joined) -> None:
        """Do what the base station asks for until the connection ends."""
        self._adopt(parse_task(joined.welcome.task, FloorTask, self.options.station))
        self.is_agreed = False  # it may be another run, with another scale
        self._has_news.set()
        try:
            await until_one_ends(self._answer(joined.session), self._report(joined.session))
        finally:
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
        network, feedback = built.BuiltNetwork(model, seed), None
        if task.upload < 32:
            run = f"{task.devices[0].plant} {seed}"
            feedback = Feedback(network.layout.pieces, task.upload, folder=self.options.state, run=run)
        self.network, self.inputs, self.feedback, self.task = network, None, feedback, task
        before, self.members = self.members, {}
        for member in before.values():
            member.session.end("The base station has another task.")
        self._has_task.set()

    async def _report(self, session: Session) -> None:
        """Tell the base station who is there, whenever that changes."""
        task = self.task
        assert task is not None
        if task.measure:
            model, batches = task.devices[0].model, [device.batch for device in task.devices]
            costs = await self.options.meter_of_costs.costs(model, batches)
            await session.send(Profile(joining_text(this_machine(self.options.name, role="gateway", costs=costs))))
        told: list[Sums] = []
        profiles: dict[str, str] = {}
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            for name, member in list(self.members.items()):
                if member.profile is not None and member.profile != profiles.get(name):
                    profiles[name] = member.profile
                    await session.send(Profile(member.profile))
            sums = [member.sums for member in self.members.values() if member.sums is not None]
            if sums and sums != told:  # the same objects: nobody has joined or left
                told = sums
                await session.send(added(sums))
            energy = None if self.options.energy is None else await asyncio.to_thread(self.options.energy.read)
            ready = [(name, member) for name, member in sorted(self.members.items()) if member.is_tried]
            devices = tuple(Present(name, member.energy) for name, member in ready) if self.is_agreed else ()
            await session.send(Ready(energy, devices))

    async def _answer(self, session: Session) -> None:
        """Hear what the base station asks for; nothing here waits for a device for long."""
        assert self.task is not None
        expected = expected_orders(self.task, self.network.layout)
        while True:
            envelope = await session.receive(Inputs, Settled, Abandon, *expected)
            message = envelope.message
            if isinstance(message, Inputs):
                self._take_scale(checked_inputs(message, self.task.devices[0].model.input[0]))
            elif isinstance(message, Order | Survey | Compare):
                self._stop_round()
                self._round = asyncio.create_task(self._carry_out(session, message, envelope.turn))
            elif isinstance(message, Abandon):
                self._stop_round()
            elif isinstance(message, Settled):
                await self._settle(message, envelope.turn)

    def _take_scale(self, inputs: built.Inputs) -> None:
        """Call all devices to a trial with the scale of the inputs, unless they know it."""
        known, self.is_agreed = self.inputs, True
        self._has_news.set()
        if (
            known is not None
            and np.array_equal(known.mean, inputs.mean)
            and np.array_equal(known.deviation, inputs.deviation)
        ):
            return
        self.inputs = inputs
        for member in self.members.values():
            member.is_tried = False
            member.is_called.set()

    async def _settle(self, message: Settled, turn: Turn) -> None:
        """End a round: tell the devices, and look again whether they may be here."""
        if self.feedback is not None:
            self.feedback.settle(turn.round, completed=message.completed)
        await self.door.recheck()

        async def tell(member: Member) -> None:
            with contextlib.suppress(LinkError):
                await member.session.send(message, turn, timeout=PARTING_S)

        await asyncio.gather(*map(tell, list(self.members.values())))
        self._has_news.set()

    def _stop_round(self) -> None:
        if self._round is not None:
            self._round.cancel()
            self._round = None

    # A round

    async def _carry_out(self, session: Session, message: Order | Survey | Compare, turn: Turn) -> None:
        """Do what the base station asks for; what keeps the floor from it is told to the base station."""
        try:
            if isinstance(message, Order):
                await self._carry_out_order(session, message, turn)
            else:
                await self._survey(session, message, turn)
        except (FailedRunError, FedfloorError, ValueError) as error:
            _LOG.warning("Round %d: %s", turn.round, error)
            reason = str(error)
        except Exception:  # whatever it is, the base station need not wait until the deadline
            _LOG.exception("Round %d ends because of a mistake in this program.", turn.round)
            reason = "an error occurred in the gateway"
        else:
            return
        with contextlib.suppress(LinkError):
            await session.send(Failed(reason), turn)

    async def _survey(self, session: Session, message: Survey | Compare, turn: Turn) -> None:
        """Have the devices that are there compute gradients, and send what the floor found.

        Of the gradients, only the mean of the floor goes on to the base station.
        """
        asked = replace(message, deadline_s=_SURVEY_SHARE * message.deadline_s)
        members = [member for _, member in sorted(self.members.items()) if member.is_tried]
        if isinstance(message, Compare):  # a device that is late would not read it in time
            before = Turn(turn.round, turn.attempt - 1)
            members = [member for member in members if member.surveyed == before]
        answers = await asyncio.gather(*(self._surveyed(member, asked, turn) for member in members))
        surveyed = [answer for answer in answers if isinstance(answer, Surveyed)]
        compared = [answer for answer in answers if isinstance(answer, Compared)]
        if len(surveyed) == 1 and self.task is not None and len(self.task.devices) > 1:
            raise DeploymentError("one device alone has answered, whose gradient is not to leave the floor")
        if surveyed:
            await session.send(mean_survey(surveyed), turn)
        elif compared:
            await session.send(Compared(tuple(entry for answer in compared for entry in answer.devices)), turn)
        else:
            raise DeploymentError("; ".join(map(str, answers)) or "no device is there")

    async def _surveyed(
        self, member: Member, message: Survey | Compare, turn: Turn
    ) -> "Surveyed | Compared | FailedRunError | FedfloorError":
        try:
            return await member.survey(message, turn)
        except (FailedRunError, FedfloorError) as error:
            _LOG.warning("Round %d: rates are estimated without %s: %s", turn.round, member.task.name, error)
            return error

    async def _carry_out_order(self, session: Session, order: Order, turn: Turn) -> None:
        await session.send(Received(), turn)
        await self._train(session, order, turn)

    async def _train(self, session: Session, order: Order, turn: Turn) -> None:
        task, layout = self.task, self.network.layout
        assert task is not None
        weights = start_of(order, task, layout)
        refuse_incomplete_order(order, task)
        if self.inputs is None or not self.is_agreed:
            raise DeploymentError("the scale of the inputs is not agreed yet")
        spent = None if self.options.meter is None else self.options.meter.start()
        there = [(place, self.members.get(device.name)) for place, device in enumerate(task.devices)]
        members = [(place, member) for place, member in there if member is not None and member.is_tried]
        asked = [(member, self._asked(place, order, turn, weights)) for place, member in members]
        results = await asyncio.gather(*(self._part(member, each, self.inputs) for member, each in asked))
        parts = [
            (member.task.name, part)
            for (_, member), part in zip(members, results, strict=True)
            if isinstance(part, Part)
        ]
        if not parts:
            reasons = "; ".join(str(result) for result in results) or "no device is there"
            raise DeploymentError(reasons)
        result = floor_result((DeviceResult(part.points, part.loss, part.weights) for _, part in parts), layout.size)
        energy = None if spent is None else spent()
        shares = tuple(Share(name, part.device_s, part.link_s, part.energy) for name, part in parts)
        await session.send(Trained(result.loss, result.points, energy, shares), turn)
        await session.send(floor_model(result.model, weights, task, self.feedback, turn.round), turn)

    def _asked(self, place: int, order: Order, turn: Turn, weights: Vector) -> MemberRound:
        """What an order means for the device at a place of the floor."""
        assert self.task is not None
        frequency, total = float(order.frequencies_hz[place]), order.download_s + order.train_s + order.upload_s
        share = order.train_s / total if total > 0.0 else 1.0  # the margin is for training, transfers may take twice
        return MemberRound(
            turn=turn,
            cut=int(order.cuts[place]),
            frequency=frequency,
            share=min(frequency / self.task.max_frequency_hz, 1.0),
            power=order.power_w,
            iterations=order.iterations or self.task.devices[place].local_iterations,
            deadline=max(share * order.deadline_s, order.deadline_s - 2.0 * (order.download_s + order.upload_s)),
            weights=weights,
        )

    async def _part(self, member: Member, asked: MemberRound, inputs: built.Inputs) -> Part | Exception:
        """What a device contributes, or why it contributes nothing."""
        index, name = asked.turn.round, member.task.name
        try:
            return await member.train(asked, self.pool, inputs, self.options.actuator())
        except (FailedRunError, FedfloorError, ValueError) as error:
            _LOG.warning("Round %d: %s is left out: %s", index, name, error)
            return error
        except Exception as error:  # whatever it is, the other devices of the floor go on
            _LOG.exception("Round %d: %s is left out because of a mistake in this program.", index, name)
            return error
