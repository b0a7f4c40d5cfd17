"""The base station's end of the network: the way to the floors that `DeployedPlant` asks for."""

__all__ = ["Station", "StationOptions"]

import asyncio
import contextlib
import logging
import math
import queue
import secrets
import threading
import time
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self, TypeVar

import numpy as np

from fedfloor.arrays import Bools, Floats, Vector
from fedfloor.deploy.coding import Envelope
from fedfloor.deploy.fields import Layout, LinkError
from fedfloor.deploy.guarding import guard_for, papers_of
from fedfloor.deploy.identity import Credentials
from fedfloor.deploy.link import Listener
from fedfloor.deploy.messages import (
    Abandon,
    Expected,
    Failed,
    Hello,
    Inputs,
    Model,
    Order,
    Ready,
    Received,
    Settled,
    Sums,
    Trained,
    Turn,
    Welcome,
)
from fedfloor.deploy.session import PARTING_S, Session, quoted
from fedfloor.deploy.tasks import FloorTask, task_text
from fedfloor.errors import DeploymentError
from fedfloor.rounds.plants.deployed import FloorOrder, FloorReply, Parts, Presence
from fedfloor.training.network import built
from fedfloor.training.network.built import BuiltNetwork
from fedfloor.training.network.quantised import cast, packed_size, unpack

_LOG = logging.getLogger(__name__)
_REPORT_S = 2.0  #: how long a new round waits for floors to report after the last one
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, eq=False)
class StationOptions:
    """What the owner of the base station decides."""

    listen: str  #: HOST:PORT for gateways
    credentials: Credentials | None  #: None: without TLS, on this machine only


@dataclass(slots=True, eq=False)
class _Floor:
    """A floor as the base station sees it; used in the event loop only."""

    task: FloorTask
    session: Session | None = None
    sums: Sums | None = None
    energy: float | None = None  #: [J] that its gateway reported; None: it reports none
    devices: dict[str, float | None] = field(default_factory=dict)  #: that are there, with the energy they reported
    has_reported: bool = False  #: since the last round was settled
    turn: Turn | None = None  #: of the order under way
    replies: asyncio.Queue[Envelope | LinkError] = field(default_factory=asyncio.Queue)

    def hear(self, envelope: Envelope) -> None:
        """Keep what the gateway reports, and hand on what belongs to the order under way."""
        message = envelope.message
        if isinstance(message, Sums):
            self.sums = message
        elif isinstance(message, Ready):
            known = {device.name for device in self.task.devices}
            self.energy, self.has_reported = message.energy_j, True
            self.devices = {entry.name: entry.energy_j for entry in message.devices if entry.name in known}
        elif envelope.turn == self.turn:
            self.replies.put_nowait(envelope)

    def lose(self, error: LinkError) -> None:
        """Note that the gateway is gone."""
        self.session, self.devices, self.has_reported = None, {}, False
        self.replies.put_nowait(error)

    async def next(self, kind: type[_Result]) -> _Result:
        """The next message of the order under way, which must be of this kind."""
        entry = await self.replies.get()
        if isinstance(entry, LinkError):
            raise entry
        if isinstance(entry.message, Failed):
            raise LinkError(quoted(entry.message.reason))
        if not isinstance(entry.message, kind):
            raise LinkError(f"{type(entry.message).__name__} came instead of {kind.__name__}.")
        return entry.message


class Station:
    """Listens for gateways in a thread of its own, and carries out orders; `with` starts and ends it."""

    def __init__(self, tasks: Sequence[FloorTask], options: StationOptions) -> None:
        self.port = 0  #: that is listened on
        self._options = options
        self._floors = [_Floor(task) for task in tasks]
        self._names = {task.floor: m for m, task in enumerate(tasks)}
        self._network = BuiltNetwork(tasks[0].devices[0].model, tasks[0].devices[0].seed)
        self._inputs: Inputs | None = None
        self._attempt = 2 + secrets.randbelow(2**31 - 3)  # so that replies to an earlier process are told apart
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fedfloor-station", daemon=True)
        self._ending = asyncio.Event()
        self._serving: Any = None

    def __enter__(self) -> Self:
        self._thread.start()
        ready: queue.SimpleQueue[int | BaseException] = queue.SimpleQueue()
        self._serving = asyncio.run_coroutine_threadsafe(self._serve(ready), self._loop)
        answer = ready.get()
        if isinstance(answer, BaseException):
            self._stop()
            raise answer
        self.port = answer
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        with contextlib.suppress(Exception):
            self._serving.result(10.0)
        self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _serve(self, ready: "queue.SimpleQueue[int | BaseException]") -> None:
        credentials = self._options.credentials
        guard = guard_for(credentials, "gateway", self._names)
        try:
            async with Listener(self._options.listen, self._attend, guard, papers_of(credentials)) as door:
                ready.put(door.port)
                await self._ending.wait()
        except BaseException as error:
            ready.put(error)
            raise

    async def _attend(self, session: Session, hello: Hello) -> None:
        """Serve a gateway until its connection ends."""
        floor, size = self._floors[self._names[hello.name]], self._network.layout.size
        if floor.session is not None:
            await floor.session.close("Another connection of this gateway has taken its place.")
        task = floor.task
        model = (
            Layout("uint8", (packed_size(self._network.layout.pieces, task.upload),))
            if task.upload < 32
            else (Layout("float32", (size,)))
        )
        await session.send(Welcome(task_text(task)))
        if self._inputs is not None:
            await session.send(self._inputs)
        floor.session = session
        _LOG.info("%s has joined.", hello.name)
        try:
            while True:
                floor.hear(
                    await session.receive(Sums, Ready, Received, Trained, Failed, Expected(Model, {"weights": model}))
                )
        except LinkError as error:
            if floor.session is session:
                _LOG.warning("%s is gone: %s", hello.name, error)
                floor.lose(error)

    # What the plant asks for

    def agree(self, wait: float) -> built.Inputs:
        """Wait for the floors [s], and agree on the scale of the inputs from the sums of those that are there."""
        end = time.monotonic() + wait
        while any(floor.sums is None for floor in self._floors) and time.monotonic() < end:
            time.sleep(0.05)
        sums = [floor.sums for floor in self._floors if floor.sums is not None]
        if not sums:
            raise DeploymentError(
                f"no floor has joined with all of its devices within {wait:g} s. Start the gateways and devices"
            )
        count = sum(entry.count for entry in sums)
        mean = np.sum([entry.sum for entry in sums], axis=0) / count
        variance = np.sum([entry.square_sum for entry in sums], axis=0) / count - mean**2
        deviation = np.sqrt(np.maximum(variance, 0.0))
        return built.Inputs(mean, np.where(deviation > 0.0, deviation, 1.0))

    def announce(self, inputs: built.Inputs, wait: float) -> None:
        """Tell all floors the scale of the inputs, and wait [s] until their devices are ready."""
        self._inputs = Inputs(inputs.mean, inputs.deviation)
        self._run(self._broadcast(self._inputs, Turn()))
        end = time.monotonic() + wait
        while time.monotonic() < end and not all(
            len(floor.devices) == len(floor.task.devices) for floor in self._floors
        ):
            time.sleep(0.05)

    def observe(self) -> Presence:
        """Who is there, once the floors have reported after the last round."""
        end = time.monotonic() + _REPORT_S
        while time.monotonic() < end and not all(
            floor.has_reported for floor in self._floors if floor.session is not None
        ):
            time.sleep(0.005)
        devices = [(floor.devices, device.name) for floor in self._floors for device in floor.task.devices]
        return Presence(
            floors=np.array([floor.session is not None for floor in self._floors]),
            devices=np.array([name in there for there, name in devices]),
            gateway_energy=_numbers([floor.energy for floor in self._floors]),
            device_energy=_numbers([there.get(name) for there, name in devices]),
        )

    def carry_out(self, index: int, orders: Sequence[FloorOrder], weights: Vector) -> Iterator[FloorReply]:
        """Give orders to the floors and yield what comes of each, as they end."""
        replies: queue.SimpleQueue[FloorReply] = queue.SimpleQueue()

        async def one(order: FloorOrder) -> None:
            replies.put(await self._ordered(index, order, weights))

        for order in orders:
            asyncio.run_coroutine_threadsafe(one(order), self._loop)
        for _ in orders:
            yield replies.get()

    def settle(self, index: int, completed: Bools) -> None:
        """Tell the floors that the round is over."""

        async def tell() -> None:
            for floor, used in zip(self._floors, completed.tolist(), strict=True):
                floor.has_reported = False
                if floor.session is not None:
                    with contextlib.suppress(LinkError):
                        await floor.session.send(Settled(used), Turn(index, self._attempt), timeout=PARTING_S)

        self._run(tell())

    async def _ordered(self, index: int, order: FloorOrder, weights: Vector) -> FloorReply:
        """One floor's round: the order, and what comes back before its deadline."""
        floor, turn, begun = self._floors[order.floor], Turn(index, self._attempt), time.monotonic()
        times = [begun]
        floor.turn, floor.replies = turn, asyncio.Queue()
        try:
            async with asyncio.timeout(order.deadline):
                if floor.session is None:
                    raise LinkError("it is not connected")
                await floor.session.send(self._message(order, weights), turn)
                await floor.next(Received)
                times.append(time.monotonic())
                trained = await floor.next(Trained)
                times.append(time.monotonic())
                model = await floor.next(Model)
                times.append(time.monotonic())
            return self._reply(floor, order, trained, self._received(floor.task, model.weights), _parts(times))
        except (LinkError, TimeoutError, ValueError) as error:
            reason = str(error) or f"no answer within its deadline of {order.deadline:.3g} s"
            if floor.session is not None:
                with contextlib.suppress(LinkError):
                    await floor.session.send(Abandon(), turn, timeout=PARTING_S)
            times.append(time.monotonic())
            nobody = np.zeros(order.cut.size, bool)
            return FloorReply(order.floor, None, 0.0, math.nan, nobody, _parts(times), reason=reason)
        finally:
            floor.turn = None

    def _message(self, order: FloorOrder, weights: Vector) -> Order:
        task = self._floors[order.floor].task
        sent = weights if task.download == 32 else np.frombuffer(cast(weights, self._network.layout.pieces), np.uint8)
        return Order(
            channel=order.channel,
            power_w=order.power,
            download_bps=order.download_rate,
            upload_bps=order.upload_rate,
            download_s=order.predicted.download,
            train_s=order.predicted.train,
            upload_s=order.predicted.upload,
            cuts=order.cut,
            frequencies_hz=order.frequency,
            deadline_s=order.deadline,
            weights=sent,
        )

    def _received(self, task: FloorTask, sent: Any) -> Vector:
        if task.upload == 32:
            return np.asarray(sent, np.float32)
        return unpack(sent.tobytes(), self._network.layout.pieces, task.upload)

    def _reply(self, floor: _Floor, order: FloorOrder, trained: Trained, model: Vector, parts: Parts) -> FloorReply:
        shares = {share.name: share for share in trained.devices}
        names = [device.name for device in floor.task.devices]
        energies = [shares[name].energy_j if name in shares else 0.0 for name in names]
        return FloorReply(
            floor=order.floor,
            model=model,
            points=trained.points,
            loss=trained.loss,
            took_part=np.array([name in shares for name in names]),
            seconds=parts,
            gateway_energy=trained.energy_j,
            device_energy=_numbers(energies),
            link_time=_numbers([shares[name].link_s if name in shares else 0.0 for name in names]),
        )

    async def _broadcast(self, message: Inputs, turn: Turn) -> None:
        for floor in self._floors:
            if floor.session is not None:
                with contextlib.suppress(LinkError):
                    await floor.session.send(message, turn, timeout=PARTING_S)

    def _run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def _parts(times: Sequence[float]) -> Parts:
    """Seconds of download, training and upload, as far as they went."""
    steps = [later - earlier for earlier, later in pairwise(times)]
    return Parts(*[*steps, 0.0, 0.0, 0.0][:3])


def _numbers(values: Sequence[float | None]) -> Floats:
    """Numbers as an array, nan for None."""
    return np.array([math.nan if value is None else value for value in values])
