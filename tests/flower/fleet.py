"""Flower's Simulation Runtime inside a test: its own link state, grid and queues, with no Ray behind them."""

import contextlib
import threading
from collections.abc import Callable, Iterator

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.task_pb2 import Task
from flwr.server.superlink.fleet.vce import vce_api
from flwr.server.superlink.fleet.vce.backend.backend import Backend
from flwr.server.superlink.fleet.vce.metrics import VceMetrics
from flwr.server.superlink.linkstate import InMemoryLinkState, LinkStateFactory
from flwr.server.superlink.linkstate.in_memory_linkstate import RunRecord
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME, NOOP_FEDERATION_ID
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.grid import InMemoryGrid


class InThisProcess(Backend):
    """Calls the ClientApp where the test runs."""

    def __init__(self) -> None:
        super().__init__({})
        self._app: Callable[[], ClientApp]

    def build(self, app_fn: Callable[[], ClientApp]) -> None:
        self._app = app_fn

    @property
    def num_workers(self) -> int:
        return 1

    def is_worker_idle(self) -> bool:
        return True

    def terminate(self) -> None:
        pass

    def process_message(self, message: Message, context: Context) -> tuple[Message, Context]:
        return self._app()(message, context), context


@contextlib.contextmanager
def fleet(app: ClientApp, nodes: int) -> Iterator[InMemoryGrid]:
    """The grid of a run whose SuperNodes answer with this app; the first one has the partition 0."""
    run = Run.create_empty(run_id=7)
    run.primary_task_id, run.federation_id = 1, NOOP_FEDERATION_ID
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, run.run_id, SUPERLINK_NODE_ID
    factory = LinkStateFactory(FLWR_IN_MEMORY_DB_NAME, NoOpFederationManager(), ObjectStoreFactory())
    state = factory.state()
    assert isinstance(state, InMemoryLinkState)
    state.run_ids[run.run_id] = RunRecord(run=run)
    state.task_store[1] = Task(task_id=1, run_id=run.run_id)
    grid = InMemoryGrid(factory)
    grid.set_run(run)
    mapping = vce_api._register_nodes(num_nodes=nodes, state_factory=factory)
    stores = vce_api._register_node_info_stores(nodes_mapping=mapping, run=run)
    stop = threading.Event()
    arguments = (lambda: app, InThisProcess, mapping, factory, stores, stop, VceMetrics())
    thread = threading.Thread(target=vce_api.run_api, args=arguments, daemon=True)
    thread.start()
    try:
        yield grid
    finally:
        stop.set()
        thread.join(30.0)
