"""Wrong arguments of `FedFloor` and of its `start`: one line in Flower's log that names what Flower users write."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ConfigRecord, MetricRecord
from flwr.server.strategy import FedAvg as OlderFedAvg
from flwr.serverapp.strategy import FedAvg

from fedfloor.errors import FedfloorError
from fedfloor.flower import FedFloor
from tests.flower.federation import Federation, line_app, line_arrays

Said = Callable[[], list[str]]


def refused(said: Said, call: Callable[[], object]) -> str:
    """The message of a call that is refused, which is also in the log."""
    with pytest.raises(FedfloorError) as caught:
        call()
    assert [line for line in said() if line.startswith("fedfloor: error: ")] == [f"fedfloor: error: {caught.value}"]
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"timeout": "soon"}, "timeout: must be a number of seconds > 0, got 'soon'"),
        ({"timeout": 0}, "timeout: must be a number of seconds > 0, got 0"),
        ({"timeout": None}, "timeout: must be a number of seconds > 0, got None"),
        ({"timeout": float("nan")}, "timeout: must be a number of seconds > 0, got nan"),
        ({"num_rounds": 0}, "num_rounds: must be a whole number from 1 to 1,000,000,000, got 0"),
        ({"num_rounds": "3"}, "num_rounds: must be a whole number from 1 to 1,000,000,000, got '3'"),
        ({"train_config": {"lr": 0.1}}, "train_config: must be a ConfigRecord, got {'lr': 0.1}. Write ConfigRecord("),
        ({"evaluate_config": 3}, "evaluate_config: must be a ConfigRecord, got 3"),
        ({"initial_arrays": {}}, "initial_arrays: must be an ArrayRecord, got {}. Write ArrayRecord("),
        ({"initial_arrays": None}, "initial_arrays: must be an ArrayRecord, got None"),
        ({"grid": "grid"}, "grid: must be a Grid, got 'grid'. Pass on the grid"),
        ({"evaluate_fn": 0.5}, "evaluate_fn: must be a function, got 0.5"),
        ({"evaluate_fn": lambda *_: {"accuracy": 1}}, "evaluate_fn: its result: must be a MetricRecord, got {'acc"),
        ({"rounds": 3}, "FedFloor.start: has no argument 'rounds'. Did you mean 'num_rounds'?"),
    ],
)
def test_wrong_arguments_of_start_are_refused_before_anybody_trains(
    given: dict[str, Any], problem: str, said: Said
) -> None:
    federation = Federation(line_app(), 6)
    usual: dict[str, Any] = {"grid": federation, "initial_arrays": line_arrays()}
    assert refused(said, lambda: FedFloor(FedAvg(), "quick", "random").start(**{**usual, **given})).startswith(problem)
    assert federation.trained == []


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"loss_key": 3}, "loss_key: must be the name of a metric, got 3"),
        ({"accuracy_key": ["a"]}, "accuracy_key: must be the name of a metric, got ['a']"),
        ({"train_loss_key": b"x"}, "train_loss_key: must be the name of a metric, got b'x'"),
        ({"seed": "x"}, "seed: must be a whole number, got 'x'"),
        ({"out": 3}, "out: must be a string or a Path, got 3"),
        ({"check_replies": "no"}, "check_replies: must be True or False, got 'no'"),
        ({"until_accuracy": 2.0}, "until_accuracy: must be a number from 0 to 1, got 2.0"),
        ({"polcy": "random"}, "FedFloor: has no argument 'polcy'. Did you mean 'policy'?"),
        ({"strategy": FedAvg}, "strategy: is the class FedAvg, not an object of it. Write FedAvg()"),
        ({"strategy": OlderFedAvg()}, "strategy: FedAvg is a strategy of Flower's older API, flwr.server.strategy."),
    ],
)
def test_wrong_arguments_of_the_strategy_are_refused(given: dict[str, Any], problem: str, said: Said) -> None:
    usual: dict[str, Any] = {"strategy": FedAvg(), "scenario": "quick"}
    assert refused(said, lambda: FedFloor(**{**usual, **given})).startswith(problem)


def test_an_end_that_no_metric_can_reach_is_refused(said: Said) -> None:
    federation = Federation(line_app(), 6)
    strategy = FedFloor(FedAvg(fraction_evaluate=0.0), "quick", "random", until_accuracy=0.9)
    problem = refused(said, lambda: strategy.start(federation, line_arrays()))
    assert problem.startswith("until_accuracy: nobody evaluates, so no metric can reach it. Pass evaluate_fn")
    assert federation.trained == []


def test_an_end_by_a_metric_that_evaluations_lack_is_refused_at_once(said: Said) -> None:
    federation = Federation(line_app(), 6)
    strategy = FedFloor(FedAvg(), "quick", "random", until_loss=0.1)
    problem = refused(
        said, lambda: strategy.start(federation, line_arrays(), evaluate_fn=lambda *_: MetricRecord({"top1": 0.5}))
    )
    assert problem.startswith("until_loss: an evaluation must have the metric 'loss' or 'eval_loss', got 'top1'")
    assert problem.endswith("Return it, or name another one with loss_key")
    assert federation.trained == []


def test_an_end_by_a_metric_that_never_came_is_a_warning_and_the_model_is_kept(said: Said) -> None:
    strategy = FedFloor(FedAvg(), "quick", "random", until_accuracy=0.9)
    result = strategy.start(Federation(line_app(), 6), line_arrays(), num_rounds=2, evaluate_fn=lambda number, _: None)
    assert result.arrays
    problem = "fedfloor: until_accuracy: no evaluation in 2 rounds had a number as the metric 'accuracy' or 'eval_acc'"
    assert [line for line in said() if line.startswith(problem)]


def test_a_metric_that_came_in_one_round_is_not_missed(said: Said) -> None:
    def evaluate(number: int, _: object) -> MetricRecord | None:
        return MetricRecord({"accuracy": 0.5}) if number == 1 else None

    strategy = FedFloor(FedAvg(), "quick", "random", until_accuracy=0.9)
    strategy.start(Federation(line_app(), 6), line_arrays(), num_rounds=2, evaluate_fn=evaluate)
    assert not [line for line in said() if "no evaluation in" in line]


def test_a_folder_with_a_run_is_refused_with_the_argument_that_resumes_it(said: Said, tmp_path: Path) -> None:
    def run() -> object:
        strategy = FedFloor(FedAvg(), "quick", "random", out=tmp_path)
        return strategy.start(Federation(line_app(), 6), line_arrays(), num_rounds=1)

    run()
    problem = refused(said, run)
    assert problem.endswith("Resume it with --resume, or resume=True in Python, name another folder, or remove it")


def test_a_command_in_a_message_stays_as_it_is(said: Said) -> None:
    profile = "hardware.controller.profile=missing.json"
    strategy = FedFloor(FedAvg(), "quick", overrides=[profile])
    problem = refused(said, lambda: strategy.start(Federation(line_app(), 6), line_arrays()))
    assert "`fedfloor profile --scenario SCENARIO --costs measured --out FILE` writes one" in problem


def test_an_override_that_is_wrong_is_blamed_and_not_the_file(said: Said) -> None:
    strategy = FedFloor(FedAvg(), "quick", overrides=["radio.channels=-1"])
    problem = refused(said, lambda: strategy.start(Federation(line_app(), 6), line_arrays()))
    assert problem.startswith("setting radio.channels=-1: radio.channels: must be >")


def test_values_that_are_right_are_taken() -> None:
    result = FedFloor(FedAvg(), "quick", "random").start(
        Federation(line_app(), 6),
        line_arrays(),
        num_rounds=1,
        timeout=5,
        train_config=ConfigRecord({"lr": 0.1}),
        evaluate_fn=lambda *_: None,
    )
    assert result.arrays
