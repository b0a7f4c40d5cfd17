"""Which node is which floor: in the simulation runtime, by the names of SuperNodes, and by what they answer."""

import pytest
from flwr.app import UserConfigValue
from flwr.clientapp import ClientApp

from fedfloor.errors import DeploymentError, ScenarioError
from fedfloor.flower import introduce
from fedfloor.flower.nodes import FloorNodes
from tests.flower.federation import Federation, SuperNodes, line_app

FLOORS = ["press", "paint", "store"]


pytestmark = pytest.mark.usefixtures("quickly", "identity")


def floors(grid: SuperNodes) -> dict[int, int]:
    nodes = FloorNodes(grid, FLOORS, "plant.toml", timeout=10.0)
    nodes.wait_for_all()
    return nodes.present()


def test_simulated_nodes_are_floors_in_the_order_of_their_partitions() -> None:
    federation = Federation(line_app(), 40)
    nodes = FloorNodes(federation, [f"f{m}" for m in range(40)], "plant.toml", timeout=10.0)
    nodes.wait_for_all()
    assert [federation.partition[nodes.present()[m]] for m in range(40)] == list(range(40))


def test_registered_names_are_those_of_floors_and_late_nodes_are_waited_for() -> None:
    grid = SuperNodes(ClientApp(), {7: "store"}, later=[(9, "press"), (8, "paint")])
    assert floors(grid) == {0: 9, 1: 8, 2: 7}


def test_nodes_without_names_are_asked() -> None:
    configs: dict[int, dict[str, UserConfigValue]] = {
        7: {"floor": "store"},
        8: {"partition-id": 1},
        9: {"floor": "press"},
    }
    app = line_app()
    assert introduce(app) is app
    assert floors(SuperNodes(app, dict.fromkeys(configs, ""), configs)) == {0: 9, 1: 8, 2: 7}


@pytest.mark.parametrize(
    ("names", "configs", "problem"),
    [
        ({7: "presss"}, {}, r"^node 'presss': is not a floor of plant\.toml\. .*press"),
        ({7: "press", 8: "press"}, {}, r"^floor 'press': two nodes say that they are this floor"),
        ({7: ""}, {7: {"floor": "attic"}}, r"^node 'attic': is not a floor of plant\.toml"),
        ({7: ""}, {7: {"partition-id": 3}}, r"^node 7: partition-id must be from 0 to 2, .* got 3"),
        ({7: ""}, {7: {}}, r"^node 7: does not say which floor it is\. .*--name press"),
    ],
)
def test_nodes_that_are_no_floor_are_refused(
    names: dict[int, str], configs: dict[int, dict[str, UserConfigValue]], problem: str
) -> None:
    with pytest.raises(DeploymentError, match=problem):
        floors(SuperNodes(introduce(line_app()), names, configs))


def test_a_client_app_that_does_not_answer_is_told_how_to() -> None:
    with pytest.raises(
        DeploymentError, match=r"^node 7: does not say .* apply fedfloor\.flower\.introduce to its Client"
    ):
        floors(SuperNodes(line_app(), {7: ""}, {7: {"floor": "press"}}))


def test_more_super_nodes_than_floors_are_refused() -> None:
    names = dict(enumerate([*FLOORS, "attic"]))
    with pytest.raises(ScenarioError, match=r"^plant\.toml: has 3 floors, but the federation has 4 nodes"):
        floors(SuperNodes(ClientApp(), names))
