"""The way to floors that are SuperNodes, over Flower's grid."""

__all__ = ["GridFloors"]

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from logging import WARNING
from typing import TypeVar

import numpy as np
from flwr.app import MetricRecord, RecordDict
from flwr.serverapp import Grid

from fedfloor import __version__
from fedfloor.arrays import Bools, Vector
from fedfloor.characters import safe_line
from fedfloor.deploy.coding import Envelope
from fedfloor.deploy.fields import LinkError
from fedfloor.deploy.joining import JoiningProfile
from fedfloor.deploy.machines import floor_profile, gateway_profile
from fedfloor.deploy.messages import (
    Compare,
    Compared,
    Failed,
    Hello,
    Inputs,
    Model,
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
    floor_comparison,
    floor_reply,
    floor_survey,
    order_message,
)
from fedfloor.deploy.scaling import agreed, checked_sums
from fedfloor.deploy.surveying import checked_names
from fedfloor.deploy.tasks import FloorTask, task_text
from fedfloor.errors import DeploymentError, FailedRunError, shown
from fedfloor.flower.floors.config import FloorsConfig
from fedfloor.flower.floors.data import samples_of
from fedfloor.flower.floors.exchange import Asked, Mailbox, Pending, exchange, pause_after
from fedfloor.flower.floors.records import COMPARE, HELLO, SECONDS, SUMS, SURVEY, TRAIN, Sent, heard_in, only, records
from fedfloor.rounds.plants.backhaul import (
    FloorComparison,
    FloorOrder,
    FloorReply,
    FloorSurvey,
    Parts,
    Presence,
    lost_reply,
)
from fedfloor.training.network import built
from fedfloor.training.network.built import BuiltNetwork

_LOG = logging.getLogger("flwr")
_ATTEMPT = 1  #: of every turn, as it is Flower that tells which message a reply belongs to
_Answer = TypeVar("_Answer")


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
    _hellos: Mailbox = field(init=False)  #: to SuperNodes that have not said yet which floor they are
    _asked: dict[int, float] = field(init=False, default_factory=dict)  #: SuperNode -> when, as `time.monotonic`
    _end: float = field(init=False)  #: of waiting for all floors, as `time.monotonic`
    #: SuperNode -> its floor, or None if it must not be one; in the order of their answers
    _known: dict[int, int | None] = field(init=False, default_factory=dict)
    _online: dict[int, int] = field(init=False, default_factory=dict)  #: those that are there and have a floor
    _nodes: dict[int, int] = field(init=False, default_factory=dict)  #: floor -> the SuperNode that gets its orders
    _gateways: dict[int, JoiningProfile] = field(init=False, default_factory=dict)
    _devices: dict[str, JoiningProfile] = field(init=False, default_factory=dict)
    _inputs: Inputs | None = field(init=False, default=None)
    _used: dict[int, int] = field(init=False, default_factory=dict)  #: SuperNode -> last round that used its update
    _survey: Survey | None = field(init=False, default=None)  #: that the next comparison goes with

    def __post_init__(self) -> None:
        self._network = BuiltNetwork(self.tasks[0].devices[0].model, self.tasks[0].devices[0].seed)
        self._hellos = Mailbox(self.grid, HELLO)
        self._end = time.monotonic() + self.config.wait

    # Before the first round

    def agree(self) -> built.Inputs:
        """Wait for the floors, and agree on the scale of the inputs from the sums of what their devices hold."""
        self._wait_for_all()
        if not self._nodes:
            problem = f"no SuperNode has said within {self.config.wait:g} s that it is a floor of this scenario"
            raise DeploymentError(f"{problem}. Start SuperNodes with --node-config 'floor=\"{self.tasks[0].floor}\"'")
        missing = [task.floor for m, task in enumerate(self.tasks) if m not in self._nodes]
        if missing:
            problem = f"no SuperNode has said within {self.config.wait:g} s that it is {', '.join(missing)}"
            _LOG.log(WARNING, "%s. The run begins without them; they get orders once they join.", problem)
        wait = self.config.patience + self.config.wait

        def summed(floor: int, heard: Sequence[Envelope]) -> Sums:
            task = self.tasks[floor]
            profiles = [entry.message.profile for entry in heard if isinstance(entry.message, Profile)]
            self._devices |= {profile.name: profile for profile in (floor_profile(text, task) for text in profiles)}
            return checked_sums(only(heard, Sums), task.devices[0].model.input[0], len(task.devices))

        sums = self._asked_all(SUMS, [], wait, summed)
        if not sums:
            problem = f"no floor has said within {wait:g} s what its devices hold"
            raise DeploymentError(f"{problem}. See the log for the reason of each floor")
        if self.config.inputs == "scenario":
            samples = samples_of(self.config, self.tasks[0].devices[0])
            return built.Inputs(samples.mean, samples.deviation)
        return agreed(sums)

    def announce(self, inputs: built.Inputs) -> None:
        """Keep the scale of the inputs: every message to a floor brings it."""
        self._wait_for_all()
        self._inputs = Inputs(inputs.mean, inputs.deviation)

    def machines(self) -> tuple[list[JoiningProfile], list[JoiningProfile]]:
        """What SuperNodes have said about themselves and their devices so far."""
        return list(self._gateways.values()), list(self._devices.values())

    # Rounds

    def observe(self) -> Presence:
        """Who is there; a round without anybody would teach nothing, so it waits for somebody to come back."""
        self._meet()
        if not self._nodes:
            _LOG.log(WARNING, "No floor is there. Waiting for one, for at most %g s.", self.config.wait)
            self._wait_until(lambda: bool(self._nodes), time.monotonic() + self.config.wait)
            if not self._nodes:
                problem = f"no floor was there for {self.config.wait:g} s"
                raise FailedRunError(f"{problem}. Start SuperNodes, then the app with resume = true")
        floors = np.array([m in self._nodes for m in range(len(self.tasks))])
        devices = np.repeat(floors, [len(task.devices) for task in self.tasks])
        return Presence(floors, devices, np.full(floors.size, np.nan), np.full(devices.size, np.nan))

    def carry_out(self, index: int, orders: Sequence[FloorOrder], weights: Vector) -> Iterator[FloorReply]:
        """Give a round's orders to the floors; replies as they end."""
        turn, places = Turn(index, _ATTEMPT), {order.floor: order for order in orders}
        layout = self._network.layout

        def asked() -> Iterator[Asked]:
            for m, order in places.items():
                message, node = order_message(order, weights, self.tasks[m], layout), self._nodes[m]
                settled = [(Settled(completed=True), Turn(self._used[node], _ATTEMPT))] if node in self._used else []
                content = self._content(m, [*settled, (message, turn)])
                yield m, node, content, order.deadline + self.config.patience

        for done in exchange(self.grid, TRAIN, asked()):
            yield self._reply(places[done.key], done)

    def survey(self, index: int, weights: Vector, samples: int, deadline: float) -> list[FloorSurvey]:
        """Gradients at the weights (P,), of floors that answer in time."""
        self._meet()
        turn, self._survey = Turn(index, _ATTEMPT), Survey(samples, deadline, weights)
        sent, wait = [(self._survey, turn)], deadline + self.config.patience

        def surveyed(floor: int, heard: Sequence[Envelope]) -> FloorSurvey:
            answer = only(heard, Surveyed)
            checked_names(answer, [device.name for device in self.tasks[floor].devices])
            return floor_survey(floor, self.tasks[floor], answer)

        return self._asked_all(SURVEY, sent, wait, surveyed)

    def compare(self, index: int, gradient: Vector, deadline: float) -> list[FloorComparison]:
        """What was surveyed, beside the mean gradient (P,), of floors that answer in time."""
        assert self._survey is not None
        turn = Turn(index, _ATTEMPT)
        sent: Sequence[Sent] = [(self._survey, turn), (Compare(deadline, gradient), turn)]
        wait = 2.0 * deadline + self.config.patience

        def compared(floor: int, heard: Sequence[Envelope]) -> FloorComparison:
            answer = only(heard, Compared)
            checked_names(answer, [device.name for device in self.tasks[floor].devices])
            return floor_comparison(floor, self.tasks[floor], answer)

        return self._asked_all(COMPARE, sent, wait, compared)

    def settle(self, index: int, completed: Bools) -> None:
        """Keep which updates were used. Every order tells it, so that a floor also knows it after an order was lost."""
        self._used |= {self._nodes[m]: index for m in np.flatnonzero(completed).tolist()}

    def _reply(self, order: FloorOrder, done: Pending) -> FloorReply:
        """What came of an order, with the times of the clock that was asked for."""
        modelled, task, layout = self.config.clock == "model", self.tasks[order.floor], self._network.layout
        try:
            content = done.content()
            heard = self._answers(order.floor, content)
            work = self._note_seconds(content, done)
            spare = max(done.seconds - work, 0.0) / 2.0
            parts = order.predicted if modelled else Parts(spare, work, spare)
            reply = floor_reply(order, only(heard, Trained), only(heard, Model), task, layout, parts)
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
        for done in sorted(exchange(self.grid, kind, asked), key=lambda done: done.key):
            try:
                answers.append(read(done.key, self._answers(done.key, done.content())))
                self._note_seconds(done.content(), done)
            except LinkError as error:
                _LOG.log(WARNING, "%s did not answer: %s", self.tasks[done.key].floor, error)
        return answers

    def _answers(self, floor: int, content: RecordDict) -> list[Envelope]:
        """What a floor has answered; a LinkError says what is wrong with it, or why the floor failed."""
        tensors = expected_answers(self.tasks[floor], self._network.layout)
        heard = heard_in(content, [Sums, Profile, Trained, Compared, Failed, *tensors])
        for entry in heard:
            if isinstance(entry.message, Failed):
                raise LinkError(safe_line(entry.message.reason))
        return heard

    def _note_seconds(self, content: RecordDict, done: Pending) -> float:
        """How long the floor worked [s], as it says; the rest of the time was Flower's."""
        value = content.metric_records.get(SECONDS, MetricRecord()).get("work", 0.0)
        work = min(float(value), done.seconds) if isinstance(value, int | float) and value >= 0.0 else 0.0
        self.seconds.append(done.seconds - work)
        return work

    def _content(self, floor: int, sent: Sequence[Sent]) -> RecordDict:
        """A message to a floor: its task, the scale of the inputs if it is agreed, and what is asked for."""
        inputs = [] if self._inputs is None else [(self._inputs, Turn())]
        return records([(Welcome(task_text(self.tasks[floor])), Turn()), *inputs, *sent])

    # SuperNodes

    def _wait_for_all(self) -> None:
        """Wait until every floor has one SuperNode, or until `_end`; a DeploymentError says which floor has two.

        A SuperNode that was started again has another number, and Flower takes the old one for present for a while.
        Those that have not answered yet are waited for as well, because they may be too many.
        """

        def is_complete() -> bool:
            return not self._hellos.pending and len(self._online) == len(self._nodes) == len(self.tasks)

        self._wait_until(is_complete, self._end)
        for node, floor in self._online.items():
            if node != self._nodes[floor]:
                raise DeploymentError(self._doubled(floor, node, self._nodes[floor]))

    def _wait_until(self, is_so: Callable[[], bool], end: float) -> None:
        """Look for SuperNodes until something is so of the floors, or until a moment of `time.monotonic`."""
        begun = time.monotonic()
        self._meet()
        while not is_so() and (now := time.monotonic()) < end:
            time.sleep(min(pause_after(now - begun), end - now))
            self._meet()

    def _meet(self) -> None:
        """Look which floors are there, and ask SuperNodes that are new for theirs; waits for no answer.

        Of two SuperNodes with the same floor, the one counts that has answered last.
        """
        online, now = set(self.grid.get_node_ids()), time.monotonic()
        for node in sorted(online - set(self._known)):
            if now - self._asked.get(node, -math.inf) > 2.0 * self.config.patience:
                self._asked[node] = now
                self._hellos.send(node, node, RecordDict(), self.config.patience)
        for done in self._hellos.ended():
            try:
                hello = only(heard_in(done.content(), [Hello]), Hello)
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
        there = [(node, floor) for node, floor in self._known.items() if node in online and floor is not None]
        self._online, self._nodes = dict(there), {floor: node for node, floor in there}

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
            problem = self._doubled(number, others[-1], node)
            _LOG.log(WARNING, "%s, unless one is the other one started again. The last one gets the orders.", problem)
        profile = gateway_profile(hello.profile, hello.name)
        if profile is not None:
            self._gateways[number] = profile.model_copy(update={"name": names[number]})
        return number

    def _doubled(self, floor: int, first: int, last: int) -> str:
        """What is wrong with two SuperNodes of one floor, and what to do."""
        problem = f"two SuperNodes say that they are the floor {shown(self.tasks[floor].floor)}: {first} and {last}"
        return f"{problem}. Give each another floor with --node-config"
