"""Which node of a Flower federation stands for which floor of a scenario.

The simulation runtime registers its nodes in the order of their `partition-id`, so node i is floor i. A SuperNode is
the floor whose name it was registered with. A SuperNode without a name is asked, and its ClientApp answers if
`introduce` was applied to it.
"""

__all__ = ["ChosenGrid", "FloorNodes", "introduce", "refuse_other_count", "replies_to"]

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from logging import INFO, WARNING
from typing import Any

from flwr.app import ConfigRecord, ConfigRecordValues, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore import log
from flwr.superlink.grid import InMemoryGrid

from fedfloor.errors import DeploymentError, FailedRunError, ScenarioError, advice_for, counted, shown

_ACTION = "fedfloor"  #: of the query that asks a node which floor it is
_KEYS = ("floor", "partition-id")  #: of a node's config that answer it, the first that is there
_REGISTERED = 10.0  #: [s] in which the simulation runtime has registered all its nodes
_PAUSE = 0.05  #: [s] between two looks at a simulated federation, of which the first may be too early
_SOON = 60.0  #: [s] in which a node that comes later has to say which floor it is
_LONG_PAUSE = 1.0  #: [s] between two looks at a real one


def introduce(app: ClientApp) -> ClientApp:
    """Let a ClientApp tell which floor its node is: `floor` or `partition-id` of the node's config.

    Only SuperNodes that were registered without a name need it. It changes nothing else, and returns the app.
    """

    @app.query(_ACTION)
    def answer(message: Message, context: Context) -> Message:
        chosen: dict[str, ConfigRecordValues] = {
            key: context.node_config[key] for key in _KEYS if key in context.node_config
        }
        return Message(RecordDict({_ACTION: ConfigRecord(chosen)}), reply_to=message)

    assert callable(answer)
    return app


@dataclass(frozen=True, slots=True, eq=False)
class FloorNodes:
    """The nodes that stand for the floors of a scenario, as they come and go."""

    grid: Grid
    names: Sequence[str]  #: of the floors
    label: str  #: of the scenario, in messages
    timeout: float  #: [s] that nodes may take to answer
    _absent: set[int] = field(default_factory=set)  #: floors whose nodes have left
    _known: dict[int, int | None] = field(default_factory=dict)  #: node id -> floor, in the order in which they came

    @property
    def are_simulated(self) -> bool:
        """Whether they are those of the simulation runtime, which never leave."""
        return isinstance(self.grid, InMemoryGrid)

    def wait_for_all(self) -> None:
        """Wait until there is a node for every floor; a node that stands for none is refused.

        The simulation runtime has its nodes at once, so too few of them are refused too.
        """
        if isinstance(self.grid, InMemoryGrid):
            self._known.update(_simulated_floors(self.grid, len(self.names), self.label))
            return
        said = ""
        while True:
            nodes = self._online()
            if len(nodes) > len(self.names):
                advice = "Add floors to the scenario, or stop the other SuperNodes"
                raise _other_count(len(nodes), len(self.names), self.label, advice)
            for node, floor in self._new(nodes, self.timeout):
                if isinstance(floor, DeploymentError):
                    raise floor
                self._known[node] = floor
            floors = self._floors(nodes)
            if len(floors) < len(nodes):
                twice = next(floor for floor, node in floors.items() if self._claims(floor, nodes) != [node])
                problem = f"floor {shown(self.names[twice])}: two nodes say that they are this floor"
                raise DeploymentError(f"{problem}. Give each SuperNode the name of another floor")
            if len(floors) == len(self.names):
                return
            missing = ", ".join(name for m, name in enumerate(self.names) if m not in floors)
            if missing != said:
                log(INFO, "fedfloor: waiting for the nodes of %s", missing)
                said = missing
            time.sleep(_LONG_PAUSE)

    def present(self) -> dict[int, int]:
        """The node id of every floor whose node is there now, by the floor's number; waits until one is.

        A floor whose SuperNode was started again has a new node, which is met here. Of two nodes that say they are the
        same floor, the one that came last counts, as the other one may only seem to be there.
        """
        if self.are_simulated:
            return self._floors(self._known)
        until = time.monotonic() + self.timeout
        while True:
            nodes = self._online()
            for node, floor in self._new(nodes, min(self.timeout, _SOON)):
                if isinstance(floor, DeploymentError):
                    log(WARNING, "fedfloor: a new node is left out: %s", floor)
                self._known[node] = None if isinstance(floor, DeploymentError) else floor
            floors = self._floors(nodes)
            self._tell_changes(floors)
            if floors:
                return floors
            if time.monotonic() > until:
                problem = f"no floor of {self.label} has had a node for {self.timeout:g} s"
                raise FailedRunError(f"{problem}. Start SuperNodes, then the app with resume=True")
            time.sleep(_LONG_PAUSE)

    def _tell_changes(self, floors: Collection[int]) -> None:
        """Say which nodes have left or come back since the last look."""
        absent = {m for m in range(len(self.names)) if m not in floors}
        for m in sorted(absent - self._absent):
            log(WARNING, "fedfloor: the node of %s has left; no round asks it until it is back", self.names[m])
        for m in sorted(self._absent - absent):
            log(INFO, "fedfloor: the node of %s is back", self.names[m])
        self._absent.clear()
        self._absent.update(absent)

    def _online(self) -> dict[int, str]:
        """Names of the nodes that are there, empty for those without one, by node id."""
        return {node.node_id: node.name for node in self.grid.get_nodes()}

    def _claims(self, floor: int, nodes: Collection[int]) -> list[int]:
        return [node for node, own in self._known.items() if own == floor and node in nodes]

    def _floors(self, nodes: Collection[int]) -> dict[int, int]:
        """The last of these nodes that stands for each floor."""
        return {floor: node for node, floor in self._known.items() if floor is not None and node in nodes}

    def _new(self, nodes: Mapping[int, str], timeout: float) -> Iterator[tuple[int, int | DeploymentError]]:
        """Nodes that were not there before, and the floor of each, or why it is none. Those without names are asked."""
        new = {node: name for node, name in nodes.items() if node not in self._known}
        kind = f"{MessageType.QUERY}.{_ACTION}"
        questions = [Message(RecordDict(), node, kind) for node, name in new.items() if not name]
        received = list(self.grid.send_and_receive(questions, timeout=timeout)) if questions else []
        replies = replies_to(questions, received)
        for node, name in new.items():
            try:
                floor = _named(name, self.names, self.label) if name else self._answered(node, replies.get(node))
                yield node, floor
            except DeploymentError as error:
                yield node, error

    def _answered(self, node: int, reply: Message | None) -> int:
        """The floor that a node says it is."""
        names, label = self.names, self.label
        records: Mapping[str, ConfigRecord] = {}
        if reply is not None and reply.has_content():
            records = reply.content.config_records
        config = records.get(_ACTION, ConfigRecord())
        for key in _KEYS:
            if key in config:
                value = config[key]
                if key == _KEYS[0]:
                    return _named(value, names, label)
                if isinstance(value, int) and 0 <= value < len(names):
                    return value
                problem = f"node {node}: partition-id must be from 0 to {len(names) - 1}, the floors of {label}"
                raise DeploymentError(f"{problem}, got {shown(value)}. Start the SuperNode with another --node-config")
        problem = f"node {node}: does not say which floor it is"
        name = f"`flwr supernode register KEY --name {names[0]}`"
        config_advice = (
            f"apply fedfloor.flower.introduce to its ClientApp and start it with --node-config 'floor=\"{names[0]}\"'"
        )
        raise DeploymentError(f"{problem}. Register it with its floor's name, as in {name}, or {config_advice}")


def replies_to(messages: Sequence[Message], replies: Iterable[Message]) -> dict[int, Message]:
    """Replies by the id of the node that was asked; an error that the SuperLink makes has no such id of its own."""
    asked = {message.metadata.message_id: message.metadata.dst_node_id for message in messages}
    known = [reply for reply in replies if reply.metadata.reply_to_message_id in asked]
    return {asked[reply.metadata.reply_to_message_id]: reply for reply in known}


def refuse_other_count(grid: InMemoryGrid, floors: int, label: str) -> None:
    """Refuse a simulated federation with more or fewer nodes than a scenario has floors."""
    _simulated_floors(grid, floors, label)


def _simulated_floors(grid: InMemoryGrid, floors: int, label: str) -> dict[int, int]:
    """Floors by node id, in the order in which the simulation runtime registered them: that of `partition-id`."""
    until = time.monotonic() + _REGISTERED
    while True:
        online = set(grid.get_node_ids())
        nodes = [info.node_id for info in grid.state.get_node_info() if info.node_id in online]
        advice = f"Run it with --federation-config 'num-supernodes={floors}', or change the floors of the scenario"
        if len(nodes) > floors:
            raise _other_count(len(nodes), floors, label, advice)
        if len(nodes) == floors:
            return {node: floor for floor, node in enumerate(nodes)}
        if time.monotonic() > until:
            raise _other_count(len(nodes), floors, label, advice)
        time.sleep(_PAUSE)


def _other_count(nodes: int, floors: int, label: str, advice: str) -> ScenarioError:
    has = "has" if nodes > floors else "only has"
    problem = f"has {counted(floors, 'floor')}, but the federation {has} {counted(nodes, 'node')}"
    return ScenarioError(f"{label}: {problem}. {advice}")


def _named(name: object, names: Sequence[str], label: str) -> int:
    """The floor of this name."""
    if name not in names:
        problem = f"node {shown(name)}: is not a floor of {label}"
        raise DeploymentError(f"{problem}. {advice_for(str(name), names)}")
    return names.index(str(name))


@dataclass
class ChosenGrid(Grid):
    """A grid that shows only the nodes that a policy has chosen, so that a strategy sends to all it sees."""

    grid: Grid
    chosen: Sequence[int]  #: node ids

    def set_run(self, run: Any) -> None:
        """As the whole grid does."""
        self.grid.set_run(run)

    @property
    def run(self) -> Any:
        """As the whole grid says."""
        return self.grid.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """As the whole grid does."""
        return self.grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """The chosen nodes."""
        return list(self.chosen)

    def get_nodes(self) -> Iterable[Any]:
        """What is known of the chosen nodes."""
        return [node for node in self.grid.get_nodes() if node.node_id in self.chosen]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """As the whole grid does."""
        return self.grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """As the whole grid does."""
        return self.grid.pull_messages(message_ids)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """As the whole grid does."""
        return self.grid.send_and_receive(messages, timeout=timeout)
