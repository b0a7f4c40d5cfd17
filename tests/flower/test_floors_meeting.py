"""SuperNodes that join as floors: which one is which floor, started again, silent or wrong."""

import threading
import time
from collections.abc import Iterable

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.server.superlink.linkstate import InMemoryLinkState
from flwr.superlink.grid import InMemoryGrid

from fedfloor.errors import DeploymentError
from fedfloor.flower.floors.client import client_app_for
from fedfloor.flower.floors.config import FloorsConfig
from fedfloor.flower.floors.exchange import exchange
from fedfloor.flower.floors.grid import GridFloors
from fedfloor.flower.floors.records import HELLO
from fedfloor.training.network.built import Inputs
from tests.flower.fleet import fleet
from tests.flower.two_floors import config, meet, plant, told, told_each

INPUTS = Inputs(np.zeros(1), np.ones(1))
NEVER, ALWAYS = 0.0, 1e12  #: how long Flower takes a SuperNode for present, in seconds since 1970


def nodes_of(grid: InMemoryGrid) -> dict[int, NodeInfo]:
    """What Flower knows of SuperNodes, in the order in which they have come."""
    assert isinstance(grid.state, InMemoryLinkState)
    return grid.state.nodes


@pytest.mark.parametrize(
    ("floor", "nodes", "problem"),
    [
        (None, 3, r"SuperNode \d+: floor: must be one of the scenario's 2, got '2'\. Name one .*fewer SuperNodes"),
        ("cellar", 1, r"SuperNode \d+: floor: .* got 'cellar'\. Name one .*\(floors: assembly, hall-1\)"),
        ("hall-1", 2, r"two SuperNodes say that they are the floor 'hall-1': \d+ and \d+\. Give each"),
    ],
)
def test_a_supernode_that_is_no_floor_or_that_of_another_ends_the_run(
    floor: str | None, nodes: int, problem: str
) -> None:
    tasks, _ = plant()
    app = client_app_for(config())
    with (
        fleet(app if floor is None else told(app, floor=floor), nodes) as grid,
        pytest.raises(DeploymentError, match=problem),
    ):
        GridFloors(grid, tasks, FloorsConfig.of(config(wait=3.0))).agree()


def test_of_two_supernodes_with_a_floor_the_one_that_came_last_gets_its_orders() -> None:
    tasks, _ = plant()
    with fleet(told(client_app_for(config()), floor="hall-1"), 2) as grid:
        first, last = nodes_of(grid).values()
        last.online_until = NEVER
        floors = GridFloors(grid, tasks, FloorsConfig.of(config(wait=1.0)))
        meet(floors, 1)
        floors.announce(INPUTS)
        first_node = floors._nodes[1]
        last.online_until, last.status = ALWAYS, "online"
        end = time.monotonic() + 30.0
        while floors.observe().floors.tolist() == [False, True] and floors._nodes[1] == first_node:
            assert time.monotonic() < end
            time.sleep(0.02)
        last_node = floors._nodes[1]
        assert last_node != first_node
        first.online_until = NEVER
        assert floors.observe().floors.tolist() == [False, True]
        assert floors._nodes == {1: last_node}
        first.online_until, first.status, last.online_until = ALWAYS, "online", NEVER
        assert floors.observe().floors.tolist() == [False, True]
        assert floors._nodes == {1: first_node}


def test_a_supernode_that_is_started_again_before_the_first_round_does_not_end_the_run() -> None:
    tasks, _ = plant()
    names = [{"floor": name} for name in ("assembly", "hall-1", "hall-1")]
    with fleet(told_each(client_app_for(config()), *names), 3) as grid:
        (late, killed, _), (late_node, _, new_node) = nodes_of(grid).values(), nodes_of(grid)
        late.online_until = NEVER
        floors = GridFloors(grid, tasks, FloorsConfig.of(config(wait=60.0)))

        def overdue() -> None:
            killed.online_until, late.online_until, late.status = NEVER, ALWAYS, "online"

        timer = threading.Timer(2.0, overdue)
        timer.start()
        floors.announce(INPUTS)
        timer.join()
        assert floors._nodes == {0: late_node, 1: new_node}


def test_a_supernode_that_does_not_say_which_floor_it_is_holds_up_no_round(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, _ = plant()
    with fleet(client_app_for(config()), 2) as grid:
        pull, push = grid.pull_messages, grid.push_messages
        silent, asked = list(nodes_of(grid))[1], list[int]()

        def pushed(messages: Iterable[Message]) -> Iterable[str]:
            messages = list(messages)
            asked.extend(message.metadata.dst_node_id for message in messages)
            return push(messages)

        def pulled(identities: Iterable[str]) -> Iterable[Message]:
            return [reply for reply in pull(identities) if reply.metadata.src_node_id != silent]

        monkeypatch.setattr(grid, "push_messages", pushed)
        monkeypatch.setattr(grid, "pull_messages", pulled)
        floors = GridFloors(grid, tasks, FloorsConfig.of(config(patience=3.0)))
        meet(floors, 1)
        begun = time.monotonic()
        assert [floors.observe().floors.tolist() for _ in range(3)] == 3 * [[True, False]]
        assert time.monotonic() - begun < 3.0
        assert asked.count(silent) == 1
        monkeypatch.setattr(grid, "pull_messages", pull)
        meet(floors, 2)
        assert asked.count(silent) == 2


def test_a_start_without_floors_says_how_long_was_waited() -> None:
    tasks, _ = plant()
    with fleet(client_app_for(config()), 1) as grid:
        (node,) = nodes_of(grid).values()
        node.online_until = NEVER
        problem = r"^no SuperNode has said within 0.1 s that it is a floor of this scenario. Start SuperNodes"
        with pytest.raises(DeploymentError, match=problem):
            GridFloors(grid, tasks, FloorsConfig.of(config(wait=0.1))).agree()
    with fleet(told(client_app_for(config()), data="/nowhere/{device}.npz"), 1) as grid:
        problem = r"^no floor has said within 33 s what its devices hold. See the log"
        with pytest.raises(DeploymentError, match=problem):
            GridFloors(grid, tasks, FloorsConfig.of(config(wait=3.0, patience=30.0))).agree()


def test_the_seconds_of_a_reply_end_when_it_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    with fleet(client_app_for(config()), 2) as grid:
        pull, replies, seconds = grid.pull_messages, list[Message](), list[float]()

        def both(identities: Iterable[str]) -> Iterable[Message]:
            replies.extend(pull(identities))
            return replies if len(replies) == 2 else []

        monkeypatch.setattr(grid, "pull_messages", both)
        for done in exchange(grid, HELLO, [(node, node, RecordDict(), 30.0) for node in grid.get_node_ids()]):
            seconds.append(done.seconds)
            time.sleep(2.0)  # as one who decodes a large model
    assert abs(seconds[1] - seconds[0]) < 1.0
