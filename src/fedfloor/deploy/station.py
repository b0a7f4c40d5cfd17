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
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self, TypeVar

import numpy as np

from fedfloor.arrays import Bools, Vector
from fedfloor.characters import safe_line
from fedfloor.deploy.coding import Envelope
from fedfloor.deploy.fields import LinkError
from fedfloor.deploy.guarding import guard_for, papers_of
from fedfloor.deploy.identity import Credentials
from fedfloor.deploy.joining import JoiningProfile
from fedfloor.deploy.link import Listener
from fedfloor.deploy.machines import floor_profile, gateway_profile
from fedfloor.deploy.messages import (
    Abandon,
    Compare,
    Compared,
    Failed,
    Hello,
    Inputs,
    Message,
    Model,
    Profile,
    Ready,
    Received,
    Settled,
    Sums,
    Survey,
    Surveyed,
    Trained,
    Turn,
    Welcome,
)
from fedfloor.deploy.orders import (
    expected_answers,
    floor_comparison,
    floor_reply,
    floor_survey,
    numbers_of,
    order_message,
)
from fedfloor.deploy.radio import Radio, RadioSetting, tuned
from fedfloor.deploy.scaling import agreed, checked_sums
from fedfloor.deploy.session import PARTING_S, Session
from fedfloor.deploy.surveying import checked_names
from fedfloor.deploy.tasks import FloorTask, task_text
from fedfloor.errors import DeploymentError, FailedRunError
from fedfloor.rounds.plants.backhaul import (
    FloorComparison,
    FloorOrder,
    FloorReply,
    FloorSurvey,
    Parts,
    Presence,
    lost_reply,
)
from fedfloor.runs.measured import MeasuredBy
from fedfloor.training.network import built
from fedfloor.training.network.built import BuiltNetwork

_LOG = logging.getLogger(__name__)
_REPORT_S = 2.0  #: how long a new round waits for floors to report after the last one
_TRIAL_S = 60.0  #: how long the first round waits for the trials of devices that are there
_MOST_REPLIES = 8  #: of a floor that wait to be looked at; a round has three
_REPORTS = (Sums, Ready, Profile, Received, Trained, Failed, Compared)  #: of a gateway, without tensors
_REJOIN_S = 60.0  #: how long machines that have measured may take to come back for their next task
_NEXT_TASK = "The machines have measured. Join again for the next task."
_Result = TypeVar("_Result")
_Answer = TypeVar("_Answer", Surveyed, Compared)


@dataclass(frozen=True, slots=True, eq=False)
class StationOptions:
    """What the owner of the base station decides."""

    listen: str  #: HOST:PORT for gateways
    credentials: Credentials | None  #: None: without TLS, on this machine only
    wait: float = 120.0  #: [s] for all floors and devices before the first round, and for anybody at all before others
    radio: Radio | None = None  #: that is set before orders are sent


@dataclass(slots=True, eq=False)
class _Floor:
    """A floor as the base station sees it; used in the event loop only."""

    task: FloorTask
    session: Session | None = None
    sums: Sums | None = None
    energy: float | None = None  #: [J] that its gateway reported; None: it reports none
    devices: dict[str, float | None] = field(default_factory=dict)  #: that are there, with the energy they reported
    own_profile: JoiningProfile | None = None  #: what its gateway says about itself
    profiles: dict[str, JoiningProfile] = field(default_factory=dict)  #: what its devices say, by name
    measured: JoiningProfile | None = None  #: what its gateway says after it was asked to measure
    has_reported: bool = False  #: since the last round was settled
    turn: Turn | None = None  #: of the order under way
    replies: asyncio.Queue[Envelope | LinkError] = field(default_factory=lambda: asyncio.Queue(_MOST_REPLIES))

    @property
    def count(self) -> int:
        """How many devices it has if all are there."""
        return len(self.task.devices)

    @property
    def described(self) -> int:
        """How many devices have told their sums."""
        return 0 if self.sums is None else self.sums.devices

    @property
    def has_measured(self) -> bool:
        """Whether everybody has answered who was asked to measure."""
        asked = [device.name for device in self.task.devices if device.measure]
        return (self.measured is not None or not self.task.measure) and all(name in self.profiles for name in asked)

    def hear(self, envelope: Envelope) -> None:
        """Keep what the gateway reports, and hand on what belongs to the order under way."""
        message = envelope.message
        if isinstance(message, Sums):
            self.sums = checked_sums(message, self.task.devices[0].model.input[0], self.count)
        elif isinstance(message, Ready):
            known = {device.name for device in self.task.devices}
            self.energy, self.has_reported = message.energy_j, True
            self.devices = {entry.name: entry.energy_j for entry in message.devices if entry.name in known}
        elif isinstance(message, Profile):
            profile = floor_profile(message.profile, self.task)
            if profile.role is None:
                self.profiles[profile.name] = profile
            else:
                self.measured = profile
        elif envelope.turn == self.turn:
            if self.replies.full():
                raise LinkError("More messages arrived than a round has.")
            self.replies.put_nowait(envelope)

    def lose(self, error: LinkError) -> None:
        """Note that the gateway is gone."""
        self.session, self.sums, self.devices, self.has_reported = None, None, {}, False
        if not self.replies.full():  # if it is, one message too many ends the round of the floor
            self.replies.put_nowait(error)

    async def next(self, kind: type[_Result]) -> _Result:
        """The next message of the order under way, which must be of this kind."""
        entry = await self.replies.get()
        if isinstance(entry, LinkError):
            raise entry
        if isinstance(entry.message, Failed):
            raise LinkError(safe_line(entry.message.reason))
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
        # So that replies to an earlier process are told apart. The two parts of an estimate have the next two numbers.
        self._attempt = 4 * (1 + secrets.randbelow(2**29 - 1))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fedfloor-station", daemon=True)
        self._ending = asyncio.Event()
        self._serving: Any = None
        self._door: Listener
        self._end = math.inf  # of waiting for all floors, as `time.monotonic()`
        self._news = threading.Condition()  # told when what is known of a floor has changed

    def __enter__(self) -> Self:
        self._thread.start()
        ready: queue.SimpleQueue[int | BaseException] = queue.SimpleQueue()
        self._serving = asyncio.run_coroutine_threadsafe(self._serve(ready), self._loop)
        answer = ready.get()
        if isinstance(answer, BaseException):
            self._stop()
            raise answer
        self.port = answer
        self._end = time.monotonic() + self._options.wait
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        with contextlib.suppress(Exception):  # what it ran into is of no use any more
            self._serving.result(10.0)
        self._stop()

    def _stop(self) -> None:
        with contextlib.suppress(Exception):  # likewise
            asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result(5.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _serve(self, ready: "queue.SimpleQueue[int | BaseException]") -> None:
        credentials = self._options.credentials
        guard = guard_for(credentials, "gateway", self._names)
        try:
            async with Listener(self._options.listen, self._attend, guard, papers_of(credentials)) as self._door:
                ready.put(self._door.port)
                await self._ending.wait()
        except BaseException as error:
            ready.put(error)
            raise

    async def _attend(self, session: Session, hello: Hello) -> None:
        """Serve a gateway until its connection ends."""
        floor = self._floors[self._names[hello.name]]
        task = floor.task
        expected = expected_answers(task, self._network.layout)
        await session.send(Welcome(task_text(task)))
        if floor.task is not task:
            await session.close(_NEXT_TASK)
            return
        if self._inputs is not None:
            await session.send(self._inputs)
        before = floor.session
        if before is not None:
            floor.lose(LinkError("Another connection of this gateway has taken its place."))
        floor.session, floor.own_profile = session, gateway_profile(hello.profile, hello.name)
        _LOG.info("%s has joined.", hello.name)
        if before is not None:
            await before.close("Another connection of this gateway has taken its place.")
        try:
            while True:
                floor.hear(await session.receive(*_REPORTS, *expected))
                self._tell_news()
        except LinkError as error:
            if floor.session is session:
                _LOG.warning("%s is gone: %s", hello.name, error)
                floor.lose(error)
                self._tell_news()
            if session.is_open:
                raise

    # What the plant asks for

    def measured(self) -> MeasuredBy:
        """Wait for everybody who is asked to measure; the costs that they have told."""
        self._wait_until(lambda: all(floor.has_measured for floor in self._floors), self._end)
        gateways, devices = [floor.measured for floor in self._floors], self.machines()[1]
        return MeasuredBy(
            gateways={entry.name: entry.costs for entry in gateways if entry is not None and entry.costs is not None},
            devices={entry.name: entry.costs for entry in devices if entry.costs is not None},
        )

    def assign(self, tasks: Sequence[FloorTask]) -> None:
        """Give all floors other tasks: who is there joins again, and is waited for."""
        before = [len(floor.profiles) for floor in self._floors]
        self._run(self._reassign(tasks))
        self._wait_until(
            lambda: all(floor.described >= count for floor, count in zip(self._floors, before, strict=True)),
            time.monotonic() + _REJOIN_S,
        )

    async def _reassign(self, tasks: Sequence[FloorTask]) -> None:
        sessions = []
        for floor, task in zip(self._floors, tasks, strict=True):
            if floor.session is not None:
                sessions.append(floor.session)
                floor.lose(LinkError(_NEXT_TASK))
            floor.task, floor.profiles, floor.measured = task, {}, None
        await asyncio.gather(*(session.close(_NEXT_TASK) for session in sessions))

    def agree(self) -> built.Inputs:
        """Wait for the floors, and agree on the scale of the inputs from the sums of the devices that are there."""
        self._wait_until(lambda: all(floor.described == floor.count for floor in self._floors), self._end)
        sums = [entry for entry in [floor.sums for floor in self._floors] if entry is not None]
        if not sums:
            raise DeploymentError(
                f"no device has joined within {self._options.wait:g} s. Start the gateways and devices"
            )
        return agreed(sums)

    def announce(self, inputs: built.Inputs) -> None:
        """Tell all floors the scale of the inputs, and wait until their devices are ready."""
        self._inputs = Inputs(inputs.mean, inputs.deviation)
        self._run(self._broadcast(self._inputs, Turn()))
        self._wait_until(lambda: all(len(floor.devices) == floor.count for floor in self._floors), self._end)
        self._wait_until(  # those that are there have to finish their trials
            lambda: all(len(floor.devices) >= floor.described for floor in self._floors), time.monotonic() + _TRIAL_S
        )

    def machines(self) -> tuple[list[JoiningProfile], list[JoiningProfile]]:
        """What gateways and devices have said about themselves so far."""
        gateways = [floor.own_profile for floor in self._floors if floor.own_profile is not None]
        return gateways, [profile for floor in self._floors for profile in list(floor.profiles.values())]

    def observe(self) -> Presence:
        """Who is there, once the floors have reported after the last round.

        A round without anybody would teach nothing: it waits for somebody to come back.
        """
        self._wait_until(
            lambda: all(floor.has_reported for floor in self._floors if floor.session is not None),
            time.monotonic() + _REPORT_S,
        )
        if not self._has_devices():
            wait = self._options.wait
            _LOG.warning("No floor has a device that is ready. Waiting for one, for at most %g s.", wait)
            if not self._wait_until(self._has_devices, time.monotonic() + wait):
                advice = "Start them, then the base station with --resume"
                raise FailedRunError(f"no floor had a device that was ready for {wait:g} s. {advice}")
        devices = [(floor.devices, device.name) for floor in self._floors for device in floor.task.devices]
        return Presence(
            floors=np.array([floor.session is not None for floor in self._floors]),
            devices=np.array([name in there for there, name in devices]),
            gateway_energy=numbers_of([floor.energy for floor in self._floors]),
            device_energy=numbers_of([there.get(name) for there, name in devices]),
        )

    def carry_out(self, index: int, orders: Sequence[FloorOrder], weights: Vector) -> Iterator[FloorReply]:
        """Give orders to the floors and yield what comes of each, as they end."""
        with tuned(self._options.radio, [self._radio_setting(order) for order in orders]):
            work = [
                asyncio.run_coroutine_threadsafe(self._ordered(index, order, weights), self._loop) for order in orders
            ]
            for done in as_completed(work):
                reply = done.result()
                if reply.model is None:
                    asyncio.run_coroutine_threadsafe(self._abandon(reply.floor, index), self._loop)
                yield reply

    def survey(self, index: int, weights: Vector, samples: int, deadline: float) -> list[FloorSurvey]:
        """Ask all floors that are there for their gradients at these weights; those that answer in time."""
        answers = self._run(self._ask_all(Survey(samples, deadline, weights), Surveyed, index))
        return [floor_survey(m, self._floors[m].task, answer) for m, answer in answers]

    def compare(self, index: int, gradient: Vector, deadline: float) -> list[FloorComparison]:
        """Ask the floors to compare their gradients with the mean (P,) of all; those that answer in time."""
        answers = self._run(self._ask_all(Compare(deadline, gradient), Compared, index))
        return [floor_comparison(m, self._floors[m].task, answer) for m, answer in answers]

    async def _ask_all(self, message: Survey | Compare, kind: type[_Answer], index: int) -> list[tuple[int, _Answer]]:
        """The answers of the floors that are there and answer in time, each with its number."""
        there = [m for m, floor in enumerate(self._floors) if floor.session is not None and floor.devices]
        answers = await asyncio.gather(*(self._ask(m, message, kind, index) for m in there))
        return [(m, answer) for m, answer in zip(there, answers, strict=True) if answer is not None]

    async def _ask(self, m: int, message: Survey | Compare, kind: type[_Answer], index: int) -> _Answer | None:
        part = 1 if isinstance(message, Survey) else 2
        floor, turn = self._floors[m], Turn(index, self._attempt + part)
        floor.turn, floor.replies = turn, asyncio.Queue(_MOST_REPLIES)
        try:
            async with asyncio.timeout(message.deadline_s):
                if floor.session is None:
                    raise LinkError("it is not connected")
                await floor.session.send(message, turn)
                answer = await floor.next(kind)
            checked_names(answer, [device.name for device in floor.task.devices])
        except (LinkError, TimeoutError) as error:
            reason = str(error) or f"no answer within {message.deadline_s:.3g} s"
            _LOG.warning("Round %d: rates are estimated without %s: %s", index, floor.task.floor, reason)
            return None
        else:
            return answer
        finally:
            floor.turn = None

    def settle(self, index: int, completed: Bools) -> None:
        """Tell the floors that the round is over, and look again whether their gateways may be here."""
        turn = Turn(index, self._attempt)

        async def tell() -> None:
            await self._door.recheck()
            for floor in self._floors:
                floor.has_reported = False
            told = zip(self._floors, completed.tolist(), strict=True)
            await asyncio.gather(*(_send(floor, Settled(used), turn) for floor, used in told))

        self._run(tell())

    async def _ordered(self, index: int, order: FloorOrder, weights: Vector) -> FloorReply:
        """One floor's round: the order, and what comes back before its deadline."""
        floor, turn, begun = self._floors[order.floor], Turn(index, self._attempt), time.monotonic()
        times = [begun]
        floor.turn, floor.replies = turn, asyncio.Queue(_MOST_REPLIES)
        try:
            async with asyncio.timeout(order.deadline):
                if floor.session is None:
                    raise LinkError("it is not connected")
                message = order_message(order, weights, floor.task, self._network.layout)
                await floor.session.send(message, turn)
                await floor.next(Received)
                times.append(time.monotonic())
                trained = await floor.next(Trained)
                times.append(time.monotonic())
                model = await floor.next(Model)
                times.append(time.monotonic())
            return floor_reply(order, trained, model, floor.task, self._network.layout, _parts(times))
        except (LinkError, TimeoutError, ValueError) as error:
            reason = str(error) or f"no answer within its deadline of {order.deadline:.3g} s"
            times.append(time.monotonic())
            return lost_reply(order, _parts(times), reason)
        finally:
            floor.turn = None

    def _radio_setting(self, order: FloorOrder) -> RadioSetting:
        name = self._floors[order.floor].task.floor
        return RadioSetting(name, order.channel, order.power, order.download_rate, order.upload_rate)

    async def _abandon(self, floor: int, index: int) -> None:
        """Tell a floor that nobody waits for its round any more."""
        await _send(self._floors[floor], Abandon(), Turn(index, self._attempt))

    async def _broadcast(self, message: Inputs, turn: Turn) -> None:
        await asyncio.gather(*(_send(floor, message, turn) for floor in self._floors))

    def _has_devices(self) -> bool:
        return any(floor.devices for floor in self._floors)

    def _tell_news(self) -> None:
        with self._news:
            self._news.notify_all()

    def _wait_until(self, is_so: Callable[[], bool], end: float) -> bool:
        """Wait until something is so of the floors, or until a moment of `time.monotonic()`; returns whether it is."""
        with self._news:
            while not is_so() and (left := end - time.monotonic()) > 0.0:
                self._news.wait(min(left, threading.TIMEOUT_MAX))
        return is_so()

    def _run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


async def _send(floor: _Floor, message: Message, turn: Turn) -> None:
    """Send something to a floor, if it is there."""
    if floor.session is not None:
        with contextlib.suppress(LinkError):
            await floor.session.send(message, turn, timeout=PARTING_S)


async def _cancel_others() -> None:
    """Cancel everything that still runs in this event loop."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _parts(times: Sequence[float]) -> Parts:
    """Seconds of download, training and upload, as far as they went."""
    steps = [later - earlier for earlier, later in pairwise(times)]
    return Parts(*[*steps, 0.0, 0.0, 0.0][:3])
