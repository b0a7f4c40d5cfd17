"""A floor as a SuperNode: rounds of the two-tier plant, with Flower's grid between base station and floors.

`server_app` and `client_app` are the two halves of a Flower app. The messages are those of the deployment: what grpc
sends in frames lies in the records of a Flower message, the tensors as arrays. A SuperNode keeps nothing between two
messages but what rounding took from its updates, so every message says all that a floor must know.
"""

__all__ = ["FloorsConfig", "GridFloors", "client_app", "client_app_for", "run_over", "server_app", "server_app_for"]

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from logging import INFO, WARNING
from pathlib import Path
from statistics import median
from typing import Any, Self, TypeVar

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedfloor import __version__
from fedfloor.arrays import Bools, Vector
from fedfloor.deploy import messages
from fedfloor.deploy.coding import Envelope, Packed, pack, unpack
from fedfloor.deploy.device import LocalData, refuse_misfit
from fedfloor.deploy.fields import LinkError
from fedfloor.deploy.holdings import data_source
from fedfloor.deploy.joining import JoiningProfile, joining_text, this_machine
from fedfloor.deploy.machines import floor_profile, gateway_profile
from fedfloor.deploy.messages import (
    Compare,
    Compared,
    Expected,
    Failed,
    Hello,
    Inputs,
    Model,
    Order,
    Profile,
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
    expected_orders,
    floor_comparison,
    floor_reply,
    floor_survey,
    order_message,
)
from fedfloor.deploy.scaling import agreed, checked_inputs, checked_sums
from fedfloor.deploy.serving import DeployedRun, Rounds, serve_over
from fedfloor.deploy.session import quoted
from fedfloor.deploy.surveying import checked_names
from fedfloor.deploy.tasks import DeviceTask, FloorTask, parse_task, task_text
from fedfloor.deploy.whole_floor import WholeFloor
from fedfloor.errors import DeploymentError, FailedRunError, FedfloorError, shown
from fedfloor.rounds.events import Event
from fedfloor.rounds.plants.deployed import (
    FloorComparison,
    FloorOrder,
    FloorReply,
    FloorSurvey,
    Parts,
    Presence,
    lost_reply,
)
from fedfloor.runs.planned import load, planned_run, with_folders
from fedfloor.training.data.holding import gather
from fedfloor.training.data.samples import Samples
from fedfloor.training.network import built
from fedfloor.training.network.built import BuiltNetwork

_LOG = logging.getLogger("flwr")
_TENSORS = ".tensors"  #: ends the name of the record with the arrays of a message
_SECONDS = "seconds"  #: name of the record that says how long the floor took
_KEPT = "fedfloor"  #: name of the record that a floor keeps between two messages
_HELLO, _SUMS, _TRAIN, _SURVEY, _COMPARE = "query.hello", "query.sums", "train.order", "query.survey", "query.compare"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0  #: [s] between two looks for replies
_AFTERWARDS = 60.0  #: [s] that a message outlives the wait for its reply
_Message = TypeVar("_Message", bound=messages.Message)
_Answer = TypeVar("_Answer")
Table = Mapping[str, bool | float | int | str]  #: a table of an app's configuration
Sent = tuple[messages.Message, Turn]
Asked = tuple[int, int, RecordDict, float]  #: floor or node, node, content, deadline [s]


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorsConfig:
    """Keys of the app's configuration, `[tool.flwr.app.config]`; those with `_` are written with `-` there."""

    scenario: str = "quick"  #: a preset, or the path of a file that server and SuperNodes have
    policy: str = ""  #: empty: that of the scenario
    rounds: int = 0  #: 0: as the scenario says
    seed: int = -1  #: -1: as the scenario says
    set: str = ""  #: `section.key=value`, several with `;` between them
    out: str = ""  #: run folder; empty: below runs/
    resume: bool = False  #: go on from the last checkpoint of the run folder
    data_dir: str = ""  #: folder with data sets; empty: where `fedfloor` looks
    own: bool = False  #: trust the code that the scenario names
    clock: str = "model"  #: what rounds take: `model`, as in a simulation, or `measured`
    inputs: str = "agreed"  #: scale of the inputs: `agreed` from sums of the floors, or that of the `scenario`'s data
    patience: float = 60.0  #: [s] for Flower itself, added to every deadline
    wait: float = 300.0  #: [s] for all floors before the first round, and for anybody at all before others

    @classmethod
    def of(cls, *sources: Table) -> Self:
        """The configuration that several tables make, the last one first; keys that are not ours are left alone."""
        values: dict[str, Any] = {}
        for source in sources:
            for entry in fields(cls):
                key, kind = entry.name.replace("_", "-"), type(entry.default)
                value = source.get(key, values.get(entry.name, entry.default))
                value = float(value) if kind is float and type(value) is int else value
                if type(value) is not kind:
                    raise DeploymentError(f"app config: {key}: must be a {kind.__name__}, got {shown(value)}")
                values[entry.name] = value
        config = cls(**values)
        for key, one, other in (("clock", "model", "measured"), ("inputs", "agreed", "scenario")):
            if (text := getattr(config, key)) not in (one, other):
                raise DeploymentError(f"app config: {key}: must be '{one}' or '{other}', got {shown(text)}")
        for key, number in (("patience", config.patience), ("wait", config.wait)):
            if not 0.0 <= number < 1e9:
                raise DeploymentError(f"app config: {key}: must be >= 0, got {shown(number)}")
        return config

    @property
    def overrides(self) -> list[str]:
        """What `set` names."""
        return [part.strip() for part in self.set.split(";") if part.strip()]

    @property
    def folder(self) -> Path | None:
        """Folder with data sets."""
        return Path(self.data_dir) if self.data_dir else None


# Messages


def _records(sent: Sequence[Sent]) -> RecordDict:
    """Messages of the deployment as the content of a Flower message, under their names."""
    content = RecordDict()
    for message, turn in sent:
        name, packed = type(message).__name__.lower(), pack(message, turn)
        place = name if name not in content else f"{name}{len(content)}"
        content[place] = ConfigRecord({"frame": packed.frame})
        content[place + _TENSORS] = ArrayRecord({str(k): Array(tensor) for k, tensor in enumerate(packed.tensors)})
    return content


def _heard(content: RecordDict, expected: Sequence[Expected | type[messages.Message]]) -> list[Envelope]:
    """The messages in a Flower message; a LinkError says what is wrong with them."""
    choices = [entry if isinstance(entry, Expected) else Expected(entry) for entry in expected]
    heard = []
    for name, record in content.config_records.items():
        frame, arrays = record.get("frame"), content.array_records.get(name + _TENSORS)
        if not isinstance(frame, bytes) or arrays is None:
            raise LinkError(f"The record {shown(name)} is no message of fedfloor.")
        try:
            tensors = tuple(array.numpy() for array in arrays.values())
        except (ValueError, TypeError) as error:
            raise LinkError(f"The arrays of {shown(name)} cannot be read: {error!s:.200}") from None
        heard.append(unpack(Packed(frame, tensors), choices))
    return heard


def _only(heard: Sequence[Envelope], kind: type[_Message]) -> _Message:
    """The one message of a kind."""
    found = [entry.message for entry in heard if isinstance(entry.message, kind)]
    if len(found) != 1:
        raise LinkError(f"{len(found)} messages {kind.__name__} came instead of one.")
    return found[0]


# The base station


@dataclass(slots=True, eq=False)
class _Pending:
    """A message under way, or what came of it."""

    key: int  #: floor or node that it was sent to
    begun: float  #: of `time.monotonic`
    deadline: float  #: [s] after that
    reply: Message | None = None
    seconds: float = 0.0  #: until the reply was here, or nobody waited any longer
    reason: str = ""  #: why there is no reply

    def content(self) -> RecordDict:
        """What the reply says; a LinkError says why it says nothing."""
        if self.reply is None:
            raise LinkError(self.reason)
        if self.reply.has_error():
            raise LinkError(quoted(f"Flower: {self.reply.error.reason}"))
        return self.reply.content


@dataclass(slots=True, eq=False)
class GridFloors:
    """The way to floors that are SuperNodes; `fedfloor.deploy.station.Station` is the one to those that join over grpc.

    With the clock `model`, a floor takes as long as the cost model says, and a lost one as long as its deadline. With
    `measured`, Flower's own time counts as half download and half upload, as a SuperNode cannot tell the two apart.
    """

    grid: Grid
    tasks: Sequence[FloorTask]
    config: FloorsConfig = field(default_factory=FloorsConfig)
    seconds: list[float] = field(init=False, default_factory=list)  #: that messages took, without the floors' own work
    _network: BuiltNetwork = field(init=False)
    _attempt: int = field(init=False)  #: so that replies to an earlier process are told apart
    _end: float = field(init=False)  #: of waiting for all floors, as `time.monotonic`
    _nodes: dict[int, int] = field(init=False, default_factory=dict)  #: floor -> its SuperNode
    _known: dict[int, int | None] = field(init=False, default_factory=dict)  #: SuperNode -> its floor, if it has one
    _gateways: dict[int, JoiningProfile] = field(init=False, default_factory=dict)
    _devices: dict[str, JoiningProfile] = field(init=False, default_factory=dict)
    _inputs: Inputs | None = field(init=False, default=None)
    _settled: dict[int, tuple[Settled, Turn]] = field(init=False, default_factory=dict)  #: last round of a floor
    _ordered: list[int] = field(init=False, default_factory=list)  #: floors of the round under way
    _survey: Survey | None = field(init=False, default=None)  #: that the next comparison goes with

    def __post_init__(self) -> None:
        self._network = BuiltNetwork(self.tasks[0].devices[0].model, self.tasks[0].devices[0].seed)
        self._attempt = 2 + secrets.randbelow(2**31)
        self._end = time.monotonic() + self.config.wait

    # Before the first round

    def agree(self) -> built.Inputs:
        """Wait for the floors, and agree on the scale of the inputs from the sums of what their devices hold."""
        self._wait_for_floors(len(self.tasks), self._end)

        def summed(floor: int, heard: Sequence[Envelope]) -> Sums:
            task = self.tasks[floor]
            profiles = [entry.message.profile for entry in heard if isinstance(entry.message, Profile)]
            self._devices |= {profile.name: profile for profile in (floor_profile(text, task) for text in profiles)}
            return checked_sums(_only(heard, Sums), task.devices[0].model.input[0], len(task.devices))

        sums = self._asked_all(_SUMS, [], self.config.patience + self.config.wait, summed)
        if not sums:
            problem = f"no SuperNode with a floor of this scenario has answered within {self.config.wait:g} s"
            raise DeploymentError(f"{problem}. Start SuperNodes with --node-config 'floor=\"{self.tasks[0].floor}\"'")
        if self.config.inputs == "scenario":
            samples = _samples(self.config, self.tasks[0].devices[0])
            return built.Inputs(samples.mean, samples.deviation)
        return agreed(sums)

    def announce(self, inputs: built.Inputs) -> None:
        """Keep the scale of the inputs: every message to a floor brings it."""
        self._wait_for_floors(len(self.tasks), self._end)
        self._inputs = Inputs(inputs.mean, inputs.deviation)

    def machines(self) -> tuple[list[JoiningProfile], list[JoiningProfile]]:
        """What SuperNodes have said about themselves and their devices so far."""
        return list(self._gateways.values()), list(self._devices.values())

    # Rounds

    def observe(self) -> Presence:
        """Who is there; a round without anybody would teach nothing, so it waits for somebody to come back."""
        there = self._meet()
        if not there:
            _LOG.log(WARNING, "No floor is there. Waiting for one, for at most %g s.", self.config.wait)
            there = self._wait_for_floors(1, time.monotonic() + self.config.wait)
            if not there:
                problem = f"no floor was there for {self.config.wait:g} s"
                raise FailedRunError(f"{problem}. Start SuperNodes, then the app with resume = true")
        floors = np.array([m in there for m in range(len(self.tasks))])
        devices = np.repeat(floors, [len(task.devices) for task in self.tasks])
        return Presence(floors, devices, np.full(floors.size, np.nan), np.full(devices.size, np.nan))

    def carry_out(self, index: int, orders: Sequence[FloorOrder], weights: Vector) -> Iterator[FloorReply]:
        """Give a round's orders to the floors; replies as they end."""
        turn, places = Turn(index, self._attempt), {order.floor: order for order in orders}
        self._ordered = list(places)
        layout = self._network.layout

        def asked() -> Iterator[Asked]:
            for m, order in places.items():
                message = order_message(order, weights, self.tasks[m], layout)
                settled = [self._settled[m]] if m in self._settled else []
                content = self._content(m, [*settled, (message, turn)])
                yield m, self._nodes[m], content, order.deadline + self.config.patience

        for done in self._exchange(_TRAIN, asked()):
            yield self._reply(places[done.key], done)

    def survey(self, index: int, weights: Vector, samples: int, deadline: float) -> list[FloorSurvey]:
        """Gradients at the weights (P,), of floors that answer in time."""
        self._meet()
        turn, self._survey = Turn(index, self._attempt), Survey(samples, deadline, weights)
        sent, wait = [(self._survey, turn)], deadline + self.config.patience

        def surveyed(floor: int, heard: Sequence[Envelope]) -> FloorSurvey:
            answer = _only(heard, Surveyed)
            checked_names(answer, [device.name for device in self.tasks[floor].devices])
            return floor_survey(floor, self.tasks[floor], answer)

        return self._asked_all(_SURVEY, sent, wait, surveyed)

    def compare(self, index: int, gradient: Vector, deadline: float) -> list[FloorComparison]:
        """What was surveyed, beside the mean gradient (P,), of floors that answer in time."""
        assert self._survey is not None
        turn = Turn(index, self._attempt)
        sent: Sequence[Sent] = [(self._survey, turn), (Compare(deadline, gradient), turn)]
        wait = 2.0 * deadline + self.config.patience

        def compared(floor: int, heard: Sequence[Envelope]) -> FloorComparison:
            answer = _only(heard, Compared)
            checked_names(answer, [device.name for device in self.tasks[floor].devices])
            return floor_comparison(floor, self.tasks[floor], answer)

        return self._asked_all(_COMPARE, sent, wait, compared)

    def settle(self, index: int, completed: Bools) -> None:
        """Keep whether a floor's model was used: its next order tells it."""
        turn = Turn(index, self._attempt)
        self._settled |= {m: (Settled(bool(completed[m])), turn) for m in self._ordered}
        self._ordered = []

    def _reply(self, order: FloorOrder, done: _Pending) -> FloorReply:
        """What came of an order, with the times of the clock that was asked for."""
        modelled, task, layout = self.config.clock == "model", self.tasks[order.floor], self._network.layout
        try:
            content = done.content()
            heard = self._answers(order.floor, content)
            work = self._note_seconds(content, done)
            spare = max(done.seconds - work, 0.0) / 2.0
            parts = order.predicted if modelled else Parts(spare, work, spare)
            reply = floor_reply(order, _only(heard, Trained), _only(heard, Model), task, layout, parts)
        except (LinkError, ValueError) as error:
            return lost_reply(order, Parts(order.deadline if modelled else done.seconds), str(error))
        return replace(reply, link_time=None) if modelled else reply

    def _asked_all(
        self,
        kind: str,
        sent: Sequence[Sent],
        wait: float,
        read: Callable[[int, Sequence[Envelope]], _Answer],
    ) -> list[_Answer]:
        """The answers of the floors that are there, in their order; who does not answer is only logged."""
        asked = [(m, node, self._content(m, sent), wait) for m, node in sorted(self._nodes.items())]
        answers = []
        for done in sorted(self._exchange(kind, asked), key=lambda done: done.key):
            try:
                answers.append(read(done.key, self._answers(done.key, done.content())))
                self._note_seconds(done.content(), done)
            except LinkError as error:
                _LOG.log(WARNING, "%s did not answer: %s", self.tasks[done.key].floor, error)
        return answers

    def _answers(self, floor: int, content: RecordDict) -> list[Envelope]:
        """What a floor has answered; a LinkError says what is wrong with it, or why the floor failed."""
        tensors = expected_answers(self.tasks[floor], self._network.layout)
        heard = _heard(content, [Sums, Profile, Trained, Compared, Failed, *tensors])
        for entry in heard:
            if isinstance(entry.message, Failed):
                raise LinkError(quoted(entry.message.reason))
        return heard

    def _note_seconds(self, content: RecordDict, done: _Pending) -> float:
        """How long the floor worked [s], as it says; the rest of the time was Flower's."""
        value = content.metric_records.get(_SECONDS, MetricRecord()).get("work", 0.0)
        work = min(float(value), done.seconds) if isinstance(value, int | float) and value >= 0.0 else 0.0
        self.seconds.append(done.seconds - work)
        return work

    def _content(self, floor: int, sent: Sequence[Sent]) -> RecordDict:
        """A message to a floor: its task, the scale of the inputs if it is agreed, and what is asked for."""
        inputs = [] if self._inputs is None else [(self._inputs, Turn())]
        return _records([(Welcome(task_text(self.tasks[floor])), Turn()), *inputs, *sent])

    # SuperNodes

    def _wait_for_floors(self, count: int, end: float) -> set[int]:
        """Look for SuperNodes until so many floors are there, or until a moment of `time.monotonic`; who is there."""
        there = self._meet()
        while len(there) < count and time.monotonic() < end:
            time.sleep(_LONGEST_PAUSE)
            there = self._meet()
        return there

    def _meet(self) -> set[int]:
        """Ask SuperNodes that are new for their floor; the floors that are there."""
        online = set(self.grid.get_node_ids())
        unknown = sorted(online - set(self._known))
        for done in self._exchange(_HELLO, [(node, node, RecordDict(), self.config.patience) for node in unknown]):
            try:
                hello = _only(_heard(done.content(), [Hello]), Hello)
                self._note_seconds(done.content(), done)
            except LinkError as error:
                _LOG.log(WARNING, "SuperNode %d did not say which floor it is: %s", done.key, error)
                continue  # it is asked again
            try:
                self._known[done.key] = self._place(done.key, hello, online)
            except DeploymentError as error:
                if self._inputs is None:  # nothing is lost yet: whoever started it can mend it
                    raise
                _LOG.log(WARNING, "%s", error)
                self._known[done.key] = None
        self._nodes = {floor: node for node, floor in self._known.items() if floor is not None and node in online}
        return set(self._nodes)

    def _place(self, node: int, hello: Hello, online: set[int]) -> int:
        """The floor of a SuperNode; a DeploymentError says what somebody has done wrong who started it."""
        names = [task.floor for task in self.tasks]
        number = int(hello.name) if hello.name.isascii() and hello.name.isdigit() else -1
        if hello.name in names:
            number = names.index(hello.name)
        elif not 0 <= number < len(names):
            problem = f"SuperNode {node}: floor: must be one of the scenario's {len(names)}, got {shown(hello.name)}"
            some = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            raise DeploymentError(f"{problem}. Name one with --node-config (floors: {some}), or run fewer SuperNodes")
        if hello.software != __version__:
            problem = f"has fedfloor {shown(hello.software)}, the server has {__version__}"
            raise DeploymentError(f"{names[number]}: {problem}. Install the same version on both")
        others = [other for other, floor in self._known.items() if floor == number and other in online]
        if others:
            problem = f"two SuperNodes say that they are the floor {shown(names[number])}: {others[0]} and {node}"
            raise DeploymentError(f"{problem}. Give each another floor with --node-config")
        profile = gateway_profile(hello.profile, hello.name)
        if profile is not None:
            self._gateways[number] = profile.model_copy(update={"name": names[number]})
        return number

    def _exchange(self, kind: str, asked: Iterable[Asked]) -> Iterator[_Pending]:
        """Send messages, and yield what comes of each, by its deadline."""
        pending: dict[str, _Pending] = {}
        for key, node, content, deadline in asked:
            entry = _Pending(key, time.monotonic(), deadline)
            message = Message(content, node, kind, ttl=deadline + _AFTERWARDS)
            identity = next(iter(self.grid.push_messages([message])), None)
            if identity:
                pending[identity] = entry
            else:
                entry.reason = "Flower did not take the message."
                yield entry
        while pending:
            for reply in self.grid.pull_messages(list(pending)):
                done = pending.pop(reply.metadata.reply_to_message_id, None)
                if done is not None:
                    done.reply, done.seconds = reply, time.monotonic() - done.begun
                    yield done
            now = time.monotonic()
            for identity, entry in list(pending.items()):
                entry.seconds = now - entry.begun
                if entry.seconds > entry.deadline:
                    entry.reason = f"no answer within {entry.deadline:.3g} s"
                    yield pending.pop(identity)
            if pending:
                longest = max(entry.seconds for entry in pending.values())
                time.sleep(min(max(0.05 * longest, _FIRST_PAUSE), _LONGEST_PAUSE))


def server_app_for(defaults: Table) -> ServerApp:
    """A ServerApp for floors; the run's own configuration comes before these defaults."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        run_over(grid, FloorsConfig.of(defaults, context.run_config))

    return app


def run_over(grid: Grid, config: FloorsConfig) -> DeployedRun:
    """Run a scenario on the SuperNodes of a grid, into a run folder that `fedfloor report` reads."""
    planned = planned_run(
        config.scenario,
        config.policy or None,
        config.rounds or None,
        seed=None if config.seed < 0 else config.seed,
        overrides=config.overrides,
        own=config.own,
        training=True,
    )
    (planned,) = with_folders([planned], Path(config.out) if config.out else None, resume=config.resume)
    ways: list[GridFloors] = []

    def floors(tasks: Sequence[FloorTask]) -> GridFloors:
        ways.append(GridFloors(grid, tasks, config))
        return ways[0]

    done = serve_over(floors, planned, Rounds(resume=config.resume, data_dir=config.folder), tell=_tell)
    spent = ways[0].seconds
    if spent:
        _LOG.log(INFO, "Flower itself took %.2f s per message (median of %d)", median(spent), len(spent))
    result = "" if done.accuracy is None else f", test accuracy {100 * done.accuracy:.1f} %"
    _LOG.log(INFO, "%d rounds in %s%s", len(done.records), done.folder, result)
    return done


def _tell(event: Event) -> None:
    """Say in Flower's log what goes on."""
    if event.record is not None:
        record = event.record
        _LOG.log(INFO, "Round %d has ended; clock %.3f s", record.round, record.clock)
    for reason in event.lost:
        _LOG.log(WARNING, "Lost: %s", reason)
    if event.waiting:
        _LOG.log(INFO, "Waiting for %d floors", len(event.waiting))


# A SuperNode


def client_app_for(defaults: Table) -> ClientApp:
    """A ClientApp that is a floor; the run's own configuration comes before these defaults."""
    app = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        begun = time.perf_counter()
        try:
            config = FloorsConfig.of(defaults, context.run_config)
            content = _records(_answer(message, context, config))
        except (FedfloorError, FailedRunError, ValueError) as error:
            content = _records([(Failed(str(error)), Turn())])
        content[_SECONDS] = MetricRecord({"work": time.perf_counter() - begun})
        return Message(content, reply_to=message)

    app.query("hello")(answer)
    app.query("sums")(answer)
    app.train("order")(answer)
    app.query("survey")(answer)
    app.query("compare")(answer)
    return app


def _answer(message: Message, context: Context, config: FloorsConfig) -> list[Sent]:
    """What a floor answers to a message."""
    kind = message.metadata.message_type
    if kind == _HELLO:
        name = str(context.node_config.get("floor", context.node_config.get("partition-id", "")))
        profile = joining_text(this_machine(name or "floor"))
        return [(Hello(role="gateway", name=name, software=__version__, profile=profile), Turn())]
    floor, heard = _floor_of(message, context, config)
    if kind == _SUMS:
        return [*((profile, Turn()) for profile in floor.profiles()), (floor.sums(), Turn())]
    inputs = checked_inputs(_only(heard, Inputs), floor.task.devices[0].model.input[0])
    if kind == _SURVEY:
        return [(floor.survey(_only(heard, Survey), inputs), Turn())]
    if kind == _COMPARE:
        return [(floor.compare(_only(heard, Survey), _only(heard, Compare), inputs), Turn())]
    order, turn = next((entry.message, entry.turn) for entry in heard if isinstance(entry.message, Order))
    kept = context.state.array_records.get(_KEPT)
    if floor.feedback is not None and kept is not None:
        floor.feedback.restore({name: array.numpy() for name, array in kept.items()})
    for entry in heard:
        if isinstance(entry.message, Settled):
            floor.settle(entry.message, entry.turn)
    trained, model = floor.train(order, turn, inputs)
    if floor.feedback is not None:
        arrays = {name: Array(np.ascontiguousarray(part)) for name, part in floor.feedback.kept().items()}
        context.state[_KEPT] = ArrayRecord(arrays)
    return [(trained, turn), (model, turn)]


def _floor_of(message: Message, context: Context, config: FloorsConfig) -> tuple[WholeFloor, list[Envelope]]:
    """The floor that a message is for, with its data, and what the message says."""
    welcome = message.content.config_records.get("welcome")
    if welcome is None:
        raise LinkError("The message brings no task.")
    first = RecordDict({name: message.content[name] for name in ("welcome", "welcome" + _TENSORS)})
    text = _only(_heard(first, [Welcome]), Welcome).task
    task = parse_task(text, FloorTask, "the server")
    if ":" in task.devices[0].model.name and not config.own:
        problem = f"model.name: names code that would run, {shown(task.devices[0].model.name)}"
        raise DeploymentError(f"{task.floor}: {problem}. If you trust that code, set own = true")
    floor = WholeFloor(task, _held(text, str(context.node_config.get("data", "")), config))
    orders = expected_orders(task, floor.network.layout)
    return floor, _heard(message.content, [Welcome, Inputs, Settled, *orders])


@lru_cache(maxsize=8)
def _held(text: str, data: str, config: FloorsConfig) -> tuple[LocalData, ...]:
    """What the devices of a floor hold: `data` with each one's name in place of {device}, or shares of the scenario.

    The floors of a simulation share processes, which read the data once.
    """
    task = parse_task(text, FloorTask, "the server")
    held = tuple(_share(device, config) if not data else _own(device, data, config) for device in task.devices)
    for part, device in zip(held, task.devices, strict=True):
        refuse_misfit(part, device)
    return held


def _own(device: DeviceTask, data: str, config: FloorsConfig) -> LocalData:
    return data_source(data.replace("{device}", device.name), config.folder)(device)


def _share(device: DeviceTask, config: FloorsConfig) -> LocalData:
    samples = _samples(config, device)
    numbers = samples.of_device(device.number)
    return LocalData(samples.images[numbers], samples.labels[numbers])


def _samples(config: FloorsConfig, device: DeviceTask) -> Samples:
    """All data of the scenario that a device belongs to."""
    return _divided(config, device.seed, device.seed if device.plant_seed is None else device.plant_seed)


@lru_cache(maxsize=1)
def _divided(config: FloorsConfig, seed: int, plant_seed: int) -> Samples:
    """All data of the scenario, divided as `fedfloor run` divides it."""
    overrides = [*config.overrides, f"plant_seed={plant_seed}"]
    scenario = load(config.scenario, overrides, seed=seed, own=config.own)
    return gather(scenario, config.folder).samples


server_app = server_app_for({})
client_app = client_app_for({})
