"""A federation in this process: Flower's own grid, state and messages; only Ray is left out."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import uuid4

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Error, Message, MetricRecord, RecordDict, UserConfigValue
from flwr.clientapp import ClientApp
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.node_pb2 import NodeInfo
from flwr.proto.task_pb2 import Task
from flwr.server.superlink.fleet.vce.vce_api import _register_nodes
from flwr.server.superlink.linkstate import InMemoryLinkState, LinkStateFactory
from flwr.server.superlink.linkstate.in_memory_linkstate import RunRecord
from flwr.server.superlink.linkstate.utils import create_message_error_unavailable_res_message
from flwr.serverapp import Grid
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME, NOOP_FEDERATION_ID
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.grid import InMemoryGrid

logging.getLogger("flwr").setLevel(logging.ERROR)


class Federation(InMemoryGrid):
    """The grid of the simulation runtime, whose nodes answer at once; `spoil` may change what partitions reply."""

    def __init__(
        self, app: ClientApp, nodes: int, spoil: Callable[[int, Message], object] = lambda partition, reply: None
    ) -> None:
        factory = LinkStateFactory(FLWR_IN_MEMORY_DB_NAME, NoOpFederationManager(), ObjectStoreFactory())
        super().__init__(factory)
        run = Run.create_empty(run_id=1)
        run.federation_id, run.primary_task_id = NOOP_FEDERATION_ID, 1
        assert isinstance(self.state, InMemoryLinkState)
        self.state.run_ids[1] = RunRecord(run=run)
        self.state.task_store[1] = Task(task_id=1, run_id=1)
        self.set_run(run)
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, SUPERLINK_NODE_ID
        self.app, self.partition, self.spoil = app, _register_nodes(nodes, factory), spoil
        self.trained: list[list[int]] = []  #: partitions that were sent training, call by call
        self.gone: set[int] = set()  #: partitions whose nodes the SuperLink cannot reach

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        sent = [_pushed(message) for message in messages]
        if sent and sent[0].metadata.message_type == "train":
            self.trained.append(sorted(self.partition[message.metadata.dst_node_id] for message in sent))
        return [self._answer(message) for message in sent]

    def _answer(self, message: Message) -> Message:
        partition = self.partition[message.metadata.dst_node_id]
        if partition in self.gone:
            return create_message_error_unavailable_res_message(message.metadata, "node_unavail")
        reply = answered(self.app, message, {"partition-id": partition, "num-partitions": len(self.partition)})
        self.spoil(partition, reply)
        return reply


def _pushed(message: Message) -> Message:
    """The message with an id, as every grid gives it one."""
    message.metadata.__dict__["_message_id"] = str(uuid4())
    return message


def answered(app: ClientApp, message: Message, config: dict[str, UserConfigValue]) -> Message:
    """What a ClientApp on a node with this config answers; an error becomes a message, as in the runtimes."""
    node = message.metadata.dst_node_id
    context = Context(run_id=1, node_id=node, node_config=config, state=RecordDict(), run_config={})
    try:
        return app(message, context)
    except ValueError as error:
        return Message(Error(code=2, reason=str(error)), reply_to=message)


def line_arrays() -> ArrayRecord:
    """A model of three numbers, and one without a dimension."""
    return ArrayRecord({"b": Array(np.zeros(3, np.float32)), "a": Array(np.asarray(np.float32(0.0)))})


def line_app(fails: Callable[[int, int], bool] = lambda partition, number: False) -> ClientApp:
    """Nodes that move the numbers halfway to those of their partition; some fail in some rounds."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        partition = int(context.node_config["partition-id"])
        if fails(partition, int(str(message.content.config_records["config"]["server-round"]))):
            raise ValueError("the machine is broken")
        target = {"b": np.arange(3, dtype=np.float32) + partition, "a": np.asarray(np.float32(partition))}
        arrays = {key: array.numpy() for key, array in message.content.array_records["arrays"].items()}
        moved = {key: Array(np.asarray((arrays[key] + target[key]) / 2)) for key in arrays}
        loss = float(np.abs(arrays["b"] - target["b"]).mean())
        metrics = MetricRecord({"num-examples": 10 + partition, "train_loss": loss})
        return Message(RecordDict({"arrays": ArrayRecord(moved), "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        metrics = MetricRecord({"num-examples": 1, "eval_acc": 0.5, "eval_loss": 2.0})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


@dataclass
class SuperNodes(Grid):
    """A grid as a SuperLink shows it: nodes with names, or with configs that only their ClientApps know."""

    app: ClientApp
    names: dict[int, str]  #: of the registered nodes, by node id
    configs: dict[int, dict[str, UserConfigValue]] = field(default_factory=dict)  #: of nodes, by node id
    later: list[tuple[int, str]] = field(default_factory=list)  #: nodes that connect one by one, each after a look

    def set_run(self, run: Run) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Run:
        raise NotImplementedError

    def create_message(self, *_: object, **__: object) -> Message:
        raise NotImplementedError

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        raise NotImplementedError

    def get_node_ids(self) -> list[int]:
        return list(self.names)

    def get_nodes(self) -> list[NodeInfo]:
        nodes = [NodeInfo(node_id=node, name=name or None) for node, name in self.names.items()]
        if self.later:
            node, name = self.later.pop(0)
            self.names[node] = name
        return nodes

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        sent = [_pushed(message) for message in messages]
        return [answered(self.app, message, self.configs[message.metadata.dst_node_id]) for message in sent]
