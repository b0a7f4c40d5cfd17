"""What the log says of a run: whether the scenario describes the app, who has left, and why nobody trained."""

from collections.abc import Callable

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

import fedfloor
from fedfloor.flower import FedFloor
from fedfloor.flower.describing import model_remarks, samples_remark
from tests.flower.federation import Federation, line_app, line_arrays
from tests.flower.test_lost import EVERYBODY, FLOORS, Changing, super_nodes
from tests.flower.test_replies import spoilt

pytestmark = pytest.mark.usefixtures("quickly", "identity")
Said = Callable[[], list[str]]
QUICK = fedfloor.load("quick")
NUMBERS = sum(sum(layer.tensors) for layer in QUICK.layers)


def model(numbers: int, dtype: str = "float32") -> ArrayRecord:
    """An array of so many numbers, and a counter as that of a batch norm, which is none of the layers' numbers."""
    return ArrayRecord({"w": Array(np.zeros(numbers, dtype)), "batches": Array(np.asarray(3))})


def test_a_scenario_that_describes_the_app_needs_no_remark() -> None:
    assert list(model_remarks(model(NUMBERS), QUICK)) == []
    assert list(model_remarks(ArrayRecord({"trees": Array(np.zeros(9, np.uint8))}), QUICK)) == []
    samples = {m: float(sum(device.samples for device in floor.devices)) for m, floor in enumerate(QUICK.floors)}
    assert samples_remark(samples, QUICK) == ""


def test_another_model_precision_or_number_of_samples_is_named() -> None:
    (remark,) = model_remarks(model(NUMBERS + NUMBERS // 10), QUICK)
    assert f"model.layers have {NUMBERS:,} numbers, but initial_arrays have {NUMBERS + NUMBERS // 10:,}" in remark
    (remark,) = model_remarks(model(NUMBERS, "float64"), QUICK)
    assert "precision.download is 32 bits, but numbers of initial_arrays have 64" in remark
    remark = samples_remark({0: 7.0, 3: 8.0}, QUICK)
    assert f"{FLOORS[0]} has " in remark
    assert "its node reports 7 (and 1 more floor)" in remark
    assert "its node reports 1,234,567." in samples_remark({0: 1_234_567.0}, QUICK)
    assert "its node reports 0.5 (and 2 more floors)" in samples_remark({0: 0.5, 1: 1.0, 2: 1.0}, QUICK)


def test_the_log_says_once_that_the_scenario_does_not_describe_the_app(said: Said) -> None:
    strategy = FedFloor(FedAvg(), "quick", "random", overrides=EVERYBODY)
    strategy.start(Federation(line_app(), 6), line_arrays(), num_rounds=2)
    wrong = [line for line in said() if "does not describe the app" in line]
    assert ["model.layers" in wrong[0], "its node reports 10 (and 5 more floors)" in wrong[1]] == [True, True]
    assert len(wrong) == 2


def test_weights_that_are_not_samples_are_not_compared_with_the_scenario(said: Said) -> None:
    strategy = FedFloor(FedAvg(weighted_by_key="train_loss"), "quick", "random", overrides=EVERYBODY)
    strategy.start(Federation(line_app(), 6), line_arrays(), num_rounds=1)
    assert not [line for line in said() if "its node reports" in line]


def test_nodes_that_leave_and_come_back_are_named(said: Said) -> None:
    grid = super_nodes(line_app())

    def back() -> None:
        grid.names[13] = FLOORS[3]

    strategy = Changing({1: lambda: grid.names.pop(13), 3: back}, grid)
    FedFloor(strategy, "quick", "random", overrides=EVERYBODY).start(grid, line_arrays(), num_rounds=5)
    changes = [line for line in said() if line.startswith("fedfloor: the node of ")]
    name = FLOORS[3]
    assert changes == [
        f"fedfloor: the node of {name} has left; no round asks it until it is back",
        f"fedfloor: the node of {name} is back",
    ]


def test_rounds_count_from_0_and_a_round_in_which_nobody_trained_says_why(said: Said) -> None:
    def error(content: RecordDict) -> None:
        content.metric_records["metrics"]["num-examples"] = -1

    federation = spoilt(error, (0,))
    federation.gone |= {1, 2, 3, 4, 5}
    FedFloor(FedAvg(), "quick", "random", overrides=EVERYBODY).start(federation, line_arrays(), num_rounds=1)
    (line,) = [line for line in said() if line.startswith("fedfloor: round ")]
    assert line.startswith("fedfloor: round 0 (1 of 1 done): trained nobody, because all chosen floors failed; failed ")


@pytest.mark.usefixtures("compiled_later")
def test_a_solver_that_is_compiled_first_is_announced(said: Said) -> None:
    FedFloor(FedAvg(), "quick", "ddsra:v=1").start(Federation(line_app(), 6), line_arrays(), num_rounds=1)
    assert [
        line for line in said() if line.startswith("fedfloor: the first round takes longer: the solver is compiled")
    ]


@pytest.fixture
def compiled_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which the solver has not been compiled yet."""
    monkeypatch.setattr("fedfloor.scheduling.solver.solve.is_compiled", lambda _: False)
    monkeypatch.setattr("fedfloor.scheduling.solver.solve.is_deferred", lambda: False)
