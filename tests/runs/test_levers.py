"""Runs with the levers of docs/faster.md: what they do, what they refuse, and that they are off by default.

`test_identical.py` shows that they leave the same bits with any number of workers and after a resume.
"""

import copy
import json
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.api import check, evaluate
from fedfloor.errors import AggregationError, FedfloorError, RunLogError, ScenarioError
from fedfloor.rounds.listeners.checkpoint import load_checkpoint, save_checkpoint
from fedfloor.runs.folder import flat
from fedfloor.scenario.file import ScenarioFile
from fedfloor.scenario.writing import _OPTIONAL, _OPTIONAL_KEYS
from tests.conftest import Table, known, small_table
from tests.runs.every import Case, write_plant
from tests.runs.small import assert_equal_runs

LEVERS = {
    "fedavgm": ("aggregation.rule=fedavgm",),
    "fedau": ("aggregation.weights=fedau",),
    "averaged": ("aggregation.averaged_decay=0.9",),
    "iterations": ("training.extra_iterations=3",),
}

Train = Callable[..., Path]


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


def test_floors_that_would_wait_do_more_iterations_in_the_same_time(train: Train) -> None:
    free, plain = train("free", 3, LEVERS["iterations"]), train("plain", 3)
    one, other = fedfloor.read(free), fedfloor.read(plain)
    assert one["delay_s"] == other["delay_s"]
    gateways = fedfloor.read(free, per="gateway")
    counts = [count for count, selected in zip(gateways["iterations"], gateways["selected"], strict=True) if selected]
    assert min(counts) == 5
    assert max(counts) > 5
    assert "iterations" not in fedfloor.read(plain, per="gateway")


def test_the_averaged_model_is_tested_and_exported_and_training_goes_on_from_the_raw_one(
    train: Train, tmp_path: Path
) -> None:
    averaged, raw = train("averaged", 4, LEVERS["averaged"]), train("raw", 4)
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
    run = train("run", 1, LEVERS[lever])
    checkpoint = known(load_checkpoint(run))
    for key, value in changed.items():
        part = checkpoint.state.memory if isinstance(value, np.ndarray) else checkpoint.state.values
        part[key] = value  # type: ignore[index]
    shutil.rmtree(run / "checkpoint")
    save_checkpoint(run, checkpoint.state, clock=checkpoint.clock, origin=checkpoint.origin)
    with pytest.raises(RunLogError, match=problem):
        train("run", 2, LEVERS[lever], resume=True)


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
    assert done.stderr == f"error: setting {sets[1]}: {WRONG_RULES['wrong setting'][1]}\n"


def defaults() -> tuple[str, ...]:
    """Every key that counts as absent while it has its default, with that default."""
    sections = ((name, ScenarioFile.model_fields[name].annotation) for name in (*_OPTIONAL, *_OPTIONAL_KEYS))
    return tuple(
        f"{section}.{name}={json.dumps(field.get_default(call_default_factory=True))}"
        for section, table in sections
        for name, field in known(table).model_fields.items()
        if name in _OPTIONAL_KEYS.get(section, (name,)) and field.default is not None
    )


def test_a_default_that_is_written_out_counts_as_absent(tmp_path: Path) -> None:
    """Two runs, one with defaults and one without, resume as the other and leave the same."""
    plant = write_plant(tmp_path / "plant.toml")
    assert {"training.momentum=0.0", "aggregation.settings={}", 'aggregation.rule="mean"'} < set(defaults())
    written, left_out = Case("random:allocation=fixed", defaults()), Case("random", ())
    for name, first, then in (("one", written, left_out), ("other", left_out, written)):
        first.run(plant, 2, tmp_path / name)
        then.run(plant, 3, tmp_path / name, resume=True)
    assert_equal_runs(tmp_path / "one", tmp_path / "other")
    resolved = [(tmp_path / name / "scenario.toml").read_text() for name in ("one", "other")]
    assert resolved[0] == resolved[1]
    assert not flat(tomllib.loads(resolved[0])).keys() & {default.partition("=")[0] for default in defaults()}
