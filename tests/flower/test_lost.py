"""`FedFloor` when nodes leave, come back, answer nonsense, or when nothing is aggregated."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg

import fedfloor
from fedfloor.errors import FailedRunError, FedfloorError
from fedfloor.flower import FedFloor, introduce
from fedfloor.rounds.listeners.log import read_log
from fedfloor.rounds.record import RoundRecord
from tests.flower.federation import Federation, SuperNodes, line_app, line_arrays

EVERYBODY = ["participation.rates=uniform", "radio.channels=6", "limits=false"]
FLOORS = [floor.name for floor in fedfloor.load("quick").floors]


pytestmark = pytest.mark.usefixtures("quickly", "identity")


def completed(record: RoundRecord) -> list[bool]:
    return [floor.completed for floor in record.gateways]


def super_nodes(app: ClientApp) -> SuperNodes:
    """Six SuperNodes with the names of the floors of `quick`; node 10 + m is floor m."""
    configs = {10 + m: {"partition-id": m} for m in range(6)}
    return SuperNodes(app, {10 + m: name for m, name in enumerate(FLOORS)}, configs)  # type: ignore[arg-type]


class Changing(FedAvg):
    """Does something to the grid before every round."""

    def __init__(self, change: dict[int, object], grid: Federation | SuperNodes, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self._change, self._grid = change, grid

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        change = self._change.get(server_round)
        if callable(change):
            change()
        return super().configure_train(server_round, arrays, config, grid)


def test_a_node_that_the_super_link_cannot_reach_is_a_lost_floor(tmp_path: Path) -> None:
    federation = Federation(line_app(), 6)
    strategy = Changing({2: lambda: federation.gone.add(3)}, federation)
    FedFloor(strategy, "quick", "random", overrides=EVERYBODY, out=tmp_path).start(
        federation, line_arrays(), num_rounds=3
    )
    records = read_log(tmp_path / "rounds.jsonl")
    assert completed(records[0]) == [True] * 6
    for record in records[1:]:
        assert [floor.failure for floor in record.gateways] == [None, None, None, "lost", None, None]


def test_a_super_node_that_left_is_not_chosen_and_one_that_comes_back_is(tmp_path: Path) -> None:
    grid = super_nodes(line_app())

    def restart() -> None:
        """Flower makes a new id for a SuperNode without a registered key."""
        grid.names[99], grid.configs[99] = FLOORS[3], {"partition-id": 3}

    strategy = Changing({2: lambda: grid.names.pop(13), 4: restart}, grid)
    FedFloor(strategy, "quick", "ddsra:v=1", overrides=EVERYBODY, out=tmp_path).start(grid, line_arrays(), num_rounds=6)
    records = read_log(tmp_path / "rounds.jsonl")
    chosen = [record.gateways[3].selected for record in records]
    # Round 1 had begun when the node left; it is noticed from round 2 on, and its return in round 4.
    assert chosen == [True, True, False, False, True, True]
    assert records[5].gateways[3].completed
    assert records[2].weather is not None, "what nobody can draw again is in the log"


def test_of_two_nodes_of_a_floor_the_last_one_counts_and_strangers_are_left_out(tmp_path: Path) -> None:
    grid = super_nodes(line_app())

    def come() -> None:
        grid.names |= {98: "attic", 99: FLOORS[0]}
        grid.configs[99] = {"partition-id": 5}  # so that the model says which of the two has trained

    strategy = Changing({1: come}, grid)
    federated = FedFloor(strategy, "quick", "random", overrides=EVERYBODY, out=tmp_path)
    federated.start(grid, line_arrays(), num_rounds=3)
    first, second, third = read_log(tmp_path / "rounds.jsonl")
    assert completed(first) == completed(second) == completed(third) == [True] * 6
    assert third.gateways[0].loss == pytest.approx(third.gateways[5].loss)
    assert first.gateways[0].loss != pytest.approx(first.gateways[5].loss)


def test_evaluations_do_not_wait_for_nodes_that_have_left(tmp_path: Path) -> None:
    grid = super_nodes(line_app())
    strategy = Changing({1: lambda: [grid.names.pop(10 + m) for m in range(5)]}, grid, min_evaluate_nodes=6)
    FedFloor(strategy, "quick", "random", overrides=EVERYBODY, out=tmp_path).start(grid, line_arrays(), num_rounds=3)
    assert [record.accuracy for record in read_log(tmp_path / "rounds.jsonl")] == pytest.approx([0.5] * 3)


def test_a_run_without_any_node_ends(tmp_path: Path) -> None:
    grid = super_nodes(line_app())
    strategy = FedFloor(Changing({1: grid.names.clear}, grid), "quick", "random", overrides=EVERYBODY, out=tmp_path)
    with pytest.raises(FailedRunError, match=r"no floor of quick has had a node for 0\.2 s\. Start SuperNodes"):
        strategy.start(grid, line_arrays(), num_rounds=3, timeout=0.2)
    assert len(read_log(tmp_path / "rounds.jsonl")) == 1


def test_a_node_without_a_name_is_asked_when_it_comes_back(tmp_path: Path) -> None:
    grid = super_nodes(introduce(line_app()))
    grid.names = dict.fromkeys(grid.names, "")

    def restart() -> None:
        del grid.names[13]
        grid.names[99], grid.configs[99] = "", {"partition-id": 3}

    strategy = Changing({1: restart}, grid)
    FedFloor(strategy, "quick", "random", overrides=EVERYBODY, out=tmp_path).start(grid, line_arrays(), num_rounds=2)
    assert completed(read_log(tmp_path / "rounds.jsonl")[1]) == [True] * 6


def test_floors_whose_models_are_not_aggregated_have_not_completed(tmp_path: Path) -> None:
    """Flower's differential privacy skips a round in which a node has failed."""
    federation = Federation(line_app(fails=lambda partition, number: partition == 0 and number == 1), 6)
    strategy = DifferentialPrivacyServerSideFixedClipping(FedAvg(), 0.0, 5.0, 6)
    FedFloor(strategy, "quick", "random", overrides=EVERYBODY, out=tmp_path).start(
        federation, line_arrays(), num_rounds=2
    )
    first, second = read_log(tmp_path / "rounds.jsonl")
    assert completed(first) == [False] * 6
    assert [floor.queue for floor in second.gateways] == [floor.target_rate for floor in first.gateways]
    assert completed(second) == [True] * 6


@pytest.mark.parametrize(("accuracy", "logged"), [(1.0 + 4e-16, 1.0), (float("nan"), None), (0.25, 0.25)])
def test_accuracies_are_shares_or_none(accuracy: float, logged: float | None, tmp_path: Path) -> None:
    FedFloor(FedAvg(fraction_evaluate=0.0), "quick", out=tmp_path).start(
        Federation(line_app(), 6),
        line_arrays(),
        num_rounds=1,
        evaluate_fn=lambda *_: MetricRecord({"accuracy": accuracy}),
    )
    assert read_log(tmp_path / "rounds.jsonl")[0].accuracy == logged


def test_percentages_are_refused_before_anybody_trains() -> None:
    federation = Federation(line_app(), 6)
    with pytest.raises(FedfloorError, match=r"^metric 'eval_acc': must be from 0 to 1, got 53"):
        FedFloor(FedAvg(), "quick").start(
            federation, line_arrays(), evaluate_fn=lambda *_: MetricRecord({"eval_acc": 53.0})
        )
    assert federation.trained == []


def test_accuracies_of_server_and_nodes_are_not_mixed(tmp_path: Path) -> None:
    def evaluate(number: int, _: ArrayRecord) -> MetricRecord | None:
        return MetricRecord({"accuracy": 0.1}) if number % 2 == 0 else None

    FedFloor(FedAvg(), "quick", out=tmp_path, until_accuracy=0.4).start(
        Federation(line_app(), 6), line_arrays(), num_rounds=4, evaluate_fn=evaluate
    )
    assert [record.accuracy for record in read_log(tmp_path / "rounds.jsonl")] == [None, 0.1, None, 0.1]
