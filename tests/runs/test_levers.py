"""Runs with the levers of docs/faster.md: equal with any number of workers and after a resume, and off by default."""

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.api import check, evaluate
from fedfloor.errors import AggregationError, FedfloorError, RunLogError, ScenarioError
from fedfloor.rounds.listeners.checkpoint import load_checkpoint, save_checkpoint
from fedfloor.training.aggregation.contract import Gathered, Memory, Step
from fedfloor.training.aggregation.registry import rule_summaries
from tests.conftest import Table, known, small_table
from tests.runs.small import assert_equal_runs

#: levers in groups that can be on at the same time, so that few runs cover them all
TOGETHER = {
    "weights, mean and local": (
        "aggregation.rule=fedyogi",
        "aggregation.weights=fedau",
        "aggregation.averaged_decay=0.5",
        "training.momentum=0.8",
        "training.schedule=step",
        "training.schedule_rounds=1",
        "training.schedule_factor=0.5",
    ),
    "memory of floors, iterations, 8 bits": (
        "aggregation.rule=fedstale",
        "precision.upload=8",
        "aggregation.averaged_decay=0.9",
        "training.extra_iterations=3",
    ),
}
ALONE = {
    **{rule: (f"aggregation.rule={rule}",) for rule in rule_summaries() if rule != "mean"},
    "fedau": ("aggregation.weights=fedau",),
    "averaged": ("aggregation.averaged_decay=0.9",),
    "momentum": ("training.momentum=0.9",),
    "cosine": ("training.schedule=cosine", "training.schedule_rounds=4"),
    "iterations": ("training.extra_iterations=3",),
    "own rule": ("aggregation.rule=tests.runs.test_levers:Slow", "aggregation.settings={share=0.25}"),
}

Train = Callable[..., Path]


class Slow:
    """A rule of one's own: goes only a part of the way, and counts its steps."""

    def __init__(self, share: float = 0.5) -> None:
        self.share = share

    def step(self, gathered: Gathered, memory: Memory) -> Step:
        """Go a part of the way."""
        count = memory.get("count", np.zeros(1, np.float32)) + np.float32(1.0)
        weights = gathered.weights + self.share * gathered.change / float(count[0])
        return Step(weights.astype(np.float32), {"count": count})


def plant_table(**model: Any) -> Table:
    """Three floors, two of which take part in a round."""
    table = small_table()
    table["floors"].append(copy.deepcopy(table["floors"][1]))
    table["floors"][2]["name"], table["floors"][2]["devices"][0]["name"] = "pack", "r1"
    table["training"] = {"checkpoint_every": 1, "evaluate_every": 2, "learning_rate": 0.05}
    table["model"] |= {"width": 0.25, **model}
    del table["model"]["layers"]
    return table


@pytest.fixture
def train(write: Callable[..., Path], tmp_path: Path) -> Train:
    """Train a small plant into a folder of a name."""
    plants = {
        "mlp": write(plant_table(), "mlp.toml"),
        "cnn": write(plant_table(name="cnn", batch_norm=True), "cnn.toml"),
    }

    def run(name: str, rounds: int, levers: tuple[str, ...] = (), *, model: str = "mlp", **options: Any) -> Path:
        options = {"workers": 1, **options}
        fedfloor.run(plants[model], "random", rounds=rounds, out=tmp_path / name, overrides=levers, **options)
        return tmp_path / name

    return run


@pytest.mark.parametrize("levers", TOGETHER.values(), ids=list(TOGETHER))
def test_levers_resume_to_the_last_bit_and_have_an_effect(levers: tuple[str, ...], train: Train) -> None:
    whole, resumed, plain = train("whole", 4, levers), train("resumed", 2, levers), train("plain", 4)
    train("resumed", 4, levers, resume=True)
    assert_equal_runs(whole, resumed)
    states = [known(load_checkpoint(run)).state for run in (whole, resumed)]
    assert states[0].values == states[1].values
    assert (whole / "rounds.jsonl").read_text() != (plain / "rounds.jsonl").read_text()
    assert all(lever.split(".")[1].split("=")[0] in (whole / "scenario.toml").read_text() for lever in levers)
    assert "aggregation" not in (plain / "scenario.toml").read_text()
    assert "momentum" not in (plain / "scenario.toml").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("model", ["mlp", "cnn"])
@pytest.mark.parametrize("levers", [*ALONE.values(), *TOGETHER.values()], ids=[*ALONE, *TOGETHER])
def test_every_lever_gives_the_same_bits_with_any_number_of_workers(
    levers: tuple[str, ...], model: str, train: Train
) -> None:
    alone = train("one", 4, levers, model=model)
    for workers in (2, 3):
        assert_equal_runs(alone, train(f"{workers}", 4, levers, model=model, workers=workers))
    resumed = train("resumed", 3, levers, model=model, workers=2)
    train("resumed", 4, levers, model=model, resume=True)
    assert_equal_runs(alone, resumed)


def test_floors_that_would_wait_do_more_iterations_in_the_same_time(train: Train) -> None:
    free, plain = train("free", 3, ALONE["iterations"]), train("plain", 3)
    one, other = fedfloor.read(free), fedfloor.read(plain)
    assert one["delay_s"] == other["delay_s"]
    gateways = fedfloor.read(free, per="gateway")
    counts = [count for count, selected in zip(gateways["iterations"], gateways["selected"], strict=True) if selected]
    assert min(counts) == 5
    assert max(counts) > 5
    assert "iterations" not in fedfloor.read(plain, per="gateway")


def test_two_workers_give_the_bits_of_one(train: Train) -> None:
    levers = TOGETHER["weights, mean and local"]
    assert_equal_runs(train("one", 3, levers), train("two", 3, levers, workers=2))


def test_the_averaged_model_is_tested_and_exported_and_training_goes_on_from_the_raw_one(
    train: Train, tmp_path: Path
) -> None:
    averaged, raw = train("averaged", 4, ALONE["averaged"]), train("raw", 4)
    own, other = (fedfloor.read(run) for run in (averaged, raw))
    assert own["raw_accuracy"] == other["accuracy"]
    assert own["accuracy"][-1] == evaluate(averaged, export=tmp_path / "model.safetensors")["accuracy"]
    assert "raw_accuracy" not in other
    assert "raw_accuracy" not in json.loads((averaged / "rounds.jsonl").read_text().splitlines()[0])  # no test
    states = [known(load_checkpoint(run)).state for run in (averaged, raw)]
    assert all(np.array_equal(states[0].weights[key], part) for key, part in states[1].weights.items())
    exported = fedfloor.load_model(tmp_path / "model.safetensors").network.state_dict()
    vector = np.concatenate([part.numpy().ravel() for part in exported.values()])
    assert np.array_equal(vector, states[0].memory["averaged"])


@pytest.mark.parametrize(
    ("lever", "changed", "problem"),
    [
        ("averaged", {"averaged_rounds": 0}, "averaged_rounds must be the number of averaged rounds"),
        ("averaged", {"averaged": np.zeros(3, np.float32)}, "averaged must be finite float32"),
        ("fedavgm", {"rule/velocity": np.full(3, np.nan, np.float32)}, "velocity, which the aggregation rule keeps"),
        ("fedau", {"gap_mean": [1.0]}, "gap_mean must be 3 numbers"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_named(
    lever: str, changed: dict[str, Any], problem: str, train: Train
) -> None:
    run = train("run", 1, ALONE[lever])
    checkpoint = known(load_checkpoint(run))
    for key, value in changed.items():
        part = checkpoint.state.memory if isinstance(value, np.ndarray) else checkpoint.state.values
        part[key] = value  # type: ignore[index]
    shutil.rmtree(run / "checkpoint")
    save_checkpoint(run, checkpoint.state, clock=checkpoint.clock, origin=checkpoint.origin)
    with pytest.raises(RunLogError, match=problem):
        train("run", 2, ALONE[lever], resume=True)


@pytest.mark.parametrize(
    ("setting", "kind", "problem"),
    [
        ("aggregation.rule=fedavg", AggregationError, "unknown. Did you mean 'fedavgm'"),
        ("aggregation.settings={a=1}", AggregationError, "'mean': unknown setting 'a'. It has no settings"),
        ("aggregation.weights=size", ScenarioError, "aggregation.weights"),
        ("aggregation.averaged_decay=1.0", ScenarioError, "aggregation.averaged_decay: must be <= 0.9999, got 1.0"),
        ("training.extra_iterations=101", ScenarioError, "training.extra_iterations: must be <= 100, got 101"),
        ("training.momentum=1.0", ScenarioError, "training.momentum: must be <= 0.9999, got 1.0"),
        ("training.schedule=linear", ScenarioError, "training.schedule"),
        ("training.schedule_rounds=9", ScenarioError, "has no effect while training.schedule is constant, got 9"),
    ],
)
def test_wrong_settings_are_named(
    setting: str, kind: type[FedfloorError], problem: str, write: Callable[[Table], Path]
) -> None:
    with pytest.raises(kind) as caught:
        check(write(small_table()), [setting])
    assert problem in str(caught.value)


WRONG_RULES: dict[str, tuple[Table, str]] = {
    "unknown rule": (
        {"rule": "fedavg"},
        "aggregation.rule 'fedavg': unknown. Did you mean 'fedavgm'? Name a rule of your own as package.module:Class",
    ),
    "unknown setting": (
        {"rule": "fedavgm", "settings": {"momentun": 0.5}},
        "aggregation.settings of 'fedavgm': unknown setting 'momentun'. Did you mean 'momentum'?",
    ),
    "wrong setting": (
        {"rule": "fedavgm", "settings": {"momentum": 2}},
        "aggregation.settings of 'fedavgm': momentum must be a number from 0 to 0.9999, got 2. See docs/faster.md",
    ),
}


@pytest.mark.parametrize("case", WRONG_RULES)
def test_a_wrong_rule_is_named_with_its_file(case: str, write: Callable[[Table], Path], tmp_path: Path) -> None:
    section, problem = WRONG_RULES[case]
    path = write(small_table() | {"aggregation": section})
    for refused in (check, lambda file: fedfloor.run(file, out=tmp_path / "run")):
        with pytest.raises(AggregationError) as caught:
            refused(path)
        assert str(caught.value) == f"{path}: {problem}"
    assert not (tmp_path / "run").exists()


def test_the_command_line_names_a_wrong_rule_in_one_line(fedfloor_command: Callable[..., Any]) -> None:
    sets = ("--set", "aggregation.settings={momentum = 2}", "--set", "aggregation.rule=fedavgm")
    done = fedfloor_command("run", "quick", *sets)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: quick: {WRONG_RULES['wrong setting'][1]}\n"


def test_defaults_that_are_written_out_count_as_absent(write: Callable[[Table], Path], tmp_path: Path) -> None:
    table = small_table()
    fedfloor.simulate(write(table), "random", 1, out=tmp_path / "without")
    table["aggregation"] = {"rule": "mean", "settings": {}, "weights": "points", "averaged_decay": 0.0}
    table["training"] = {
        "extra_iterations": 0,
        "momentum": 0.0,
        "schedule": "constant",
        "schedule_rounds": 100,
        "schedule_factor": 0.1,
    }
    fedfloor.simulate(write(table), "random", 1, out=tmp_path / "with")
    assert (tmp_path / "with" / "scenario.toml").read_bytes() == (tmp_path / "without" / "scenario.toml").read_bytes()
