"""Which node of a Flower federation stands for which floor of a scenario.

The simulation runtime registers its nodes in the order of their `partition-id`, so node i is floor i. A SuperNode is
the floor whose name it was registered with. A SuperNode without a name is asked, and its ClientApp answers if
`introduce` was applied to it.
"""

__all__ = ["ChosenGrid", "floors_of", "introduce"]

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from logging import INFO
from typing import Any

from flwr.app import ConfigRecord, ConfigRecordValues, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore import log
from flwr.superlink.grid import InMemoryGrid

from fedfloor.errors import DeploymentError, ScenarioError, advice_for, shown

_ACTION = "fedfloor"  #: of the query that asks a node which floor it is
_KEYS = ("floor", "partition-id")  #: of a node's config that answer it, the first that is there
_REGISTERED = 10.0  #: [s] in which the simulation runtime has registered all its nodes
_PAUSE = 0.05  #: [s] between two looks at a simulated federation, of which the first may be too early
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


def floors_of(grid: Grid, names: Sequence[str], label: str, timeout: float) -> dict[int, int]:
    """The node id of every floor, by the floor's number; waits until there is a node for each.

    `names` are the floors of the scenario, which messages call `label`. A node that is none of them is refused, and
    `timeout` [s] limits how long nodes may take to answer. The simulation runtime has its nodes at once, so too few of
    them are refused too.
    """
    if isinstance(grid, InMemoryGrid):
        return _simulated_floors(grid, len(names), label)
    known: dict[int, int] = {}  # node id -> floor
    while True:
        nodes = {node.node_id: node.name for node in grid.get_nodes()}
        if len(nodes) > len(names):
            raise _too_many(len(nodes), len(names), label, "Add floors to the scenario, or stop the other SuperNodes")
        new = {node: name for node, name in nodes.items() if node not in known}
        known |= {node: _named(name, names, label) for node, name in new.items() if name}
        known |= _asked(grid, [node for node, name in new.items() if not name], names, label, timeout)
        floors = {floor: node for node, floor in known.items() if node in nodes}
        if len(floors) < len(nodes):
            twice = next(floor for node, floor in known.items() if node in nodes and floors[floor] != node)
            problem = f"floor {shown(names[twice])}: two nodes say that they are this floor"
            raise DeploymentError(f"{problem}. Give each SuperNode the name of another floor")
        if len(floors) == len(names):
            return floors
        log(INFO, "fedfloor: waiting for nodes: %d of %d floors are connected", len(floors), len(names))
        time.sleep(_LONG_PAUSE)


def _simulated_floors(grid: InMemoryGrid, floors: int, label: str) -> dict[int, int]:
    """Node ids in the order in which the simulation runtime registered them, which is that of `partition-id`."""
    until = time.monotonic() + _REGISTERED
    while True:
        online = set(grid.get_node_ids())
        nodes = [info.node_id for info in grid.state.get_node_info() if info.node_id in online]
        advice = f"Run it with --federation-config 'num-supernodes={floors}', or change the floors of the scenario"
        if len(nodes) > floors:
            raise _too_many(len(nodes), floors, label, advice)
        if len(nodes) == floors:
            return dict(enumerate(nodes))
        if time.monotonic() > until:
            raise ScenarioError(f"{label}: has {floors} floors, but the federation only {len(nodes)} nodes. {advice}")
        time.sleep(_PAUSE)


def _too_many(nodes: int, floors: int, label: str, advice: str) -> ScenarioError:
    return ScenarioError(f"{label}: has {floors} floors, but the federation has {nodes} nodes. {advice}")


def _named(name: object, names: Sequence[str], label: str) -> int:
    """The floor of this name."""
    if name not in names:
        problem = f"node {shown(name)}: is not a floor of {label}"
        raise DeploymentError(f"{problem}. {advice_for(str(name), names)}")
    return names.index(str(name))


def _asked(grid: Grid, nodes: Sequence[int], names: Sequence[str], label: str, timeout: float) -> dict[int, int]:
    """The floors of nodes, as these say themselves."""
    if not nodes:
        return {}
    kind = f"{MessageType.QUERY}.{_ACTION}"
    questions = [Message(RecordDict(), node, kind) for node in nodes]
    replies = {reply.metadata.src_node_id: reply for reply in grid.send_and_receive(questions, timeout=timeout)}
    return {node: _answered(node, replies.get(node), names, label) for node in nodes}


def _answered(node: int, reply: Message | None, names: Sequence[str], label: str) -> int:
    """The floor that a node says it is."""
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
