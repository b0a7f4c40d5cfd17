"""Networks that predict a number: the loss, what is logged and shown, what ends a run, and what has no meaning."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
import torch
from torch import nn

import fedfloor
from fedfloor import api
from fedfloor.errors import DataError, ScenarioError
from fedfloor.training.network.dense import DenseStack
from fedfloor.training.network.losses import loss_of
from fedfloor.training.network.split import joined_step, sgd_step
from tests.conftest import Table, known, small_table
from tests.runs.small import assert_equal_runs, left_behind

NAME = "tests.runs.test_regression"


def wear() -> Any:
    """Sums of four numbers, which a network without hidden units can predict."""
    rng = np.random.default_rng(0)

    def samples(count: int) -> tuple[Any, Any]:
        x = rng.normal(size=(count, 4)).astype(np.float32)
        return x, x @ np.array([0.5, -0.3, 0.2, 0.4]) + 0.7

    return [samples(60) for _ in range(3)], samples(50)


def endless() -> Any:
    devices, (x, y) = wear()
    y[7] = math.nan
    return devices, (x, y)


def plant(**training: Any) -> Table:
    layers = [
        {"name": "linear1", "kind": "linear", "input": [4], "output": [128], "attached": ["activation"]},
        {"name": "linear2", "kind": "linear", "input": [128], "output": [1]},
    ]
    table = small_table()
    table["model"] = {"name": "mlp", "input": [4], "classes": 1, "layers": layers}
    table |= {"limits": False, "data": {"name": f"{NAME}:wear"}}
    table["training"] = {"task": "regression", "learning_rate": 0.005, "batch_fraction": 0.5, **training}
    return table


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "plant.toml"
    path.write_text(tomli_w.dumps(plant()), encoding="utf-8")
    return path


def test_the_loss_is_the_squared_error() -> None:
    outputs, y = torch.tensor([[1.0], [3.0]]), torch.tensor([0.0, 1.0])
    assert loss_of(outputs, y).item() == pytest.approx(2.5)
    assert loss_of(outputs, y, "sum").item() == pytest.approx(5.0)
    assert loss_of(outputs, y, "none").tolist() == pytest.approx([1.0, 4.0])


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_stack_of_dense_networks_takes_the_steps_of_single_ones(momentum: float) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    x, y = torch.randn(2, 5, 4), torch.randn(2, 5)
    stack, squares = DenseStack(network, 2, momentum), torch.zeros(2, dtype=torch.float64)
    first = stack.step(x, y, torch.full((2, 5), 0.2), 0.1, squares)
    out = np.empty((2, sum(part.numel() for part in network.parameters())), np.float32)
    stack.save(out)
    for k in range(2):
        single = nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        single.load_state_dict(network.state_dict())
        loss = joined_step(single, x[k], y[k])
        assert first[k].item() == pytest.approx(loss.item(), rel=1e-5)
        assert squares[k].item() == pytest.approx(loss_of(network(x[k]), y[k], "none").square().mean().item(), rel=1e-5)
        sgd_step(list(single.parameters()), 0.1)
        expected = torch.cat([part.detach().flatten() for part in single.parameters()]).numpy()
        assert np.allclose(out[k], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("rates", ["uniform", "estimated", "updates"])
def test_a_run_learns_to_predict_and_logs_no_accuracy(rates: str, scenario: Path, tmp_path: Path) -> None:
    overrides = [f'participation.rates="{rates}"', "participation.estimate_samples=8"]
    done = fedfloor.run(scenario, "random", 25, own=True, overrides=overrides, out=tmp_path / "run", workers=1)
    records = [json.loads(line) for line in (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()]
    tested = [record["loss"] for record in records if record["loss"] is not None]
    assert all(record["accuracy"] is None for record in records)
    assert len(tested) == 9
    assert done.accuracy is None
    assert done.best is None
    assert done.confusion is None
    assert done.error == pytest.approx(math.sqrt(tested[-1]))
    assert known(done.error) < 0.3 < np.std(wear()[1][1])
    assert known(done.best_error)[0] == pytest.approx(math.sqrt(min(tested)))
    tests = api.evaluate(tmp_path / "run", own=True, export=tmp_path / "model.safetensors")
    assert tests["accuracy"] is None
    assert tests["confusion"] is None
    assert tests["error"] == pytest.approx(done.error)
    model = fedfloor.load_model(tmp_path / "model.safetensors")
    x, y = wear()[1]
    with torch.no_grad():
        predicted = model(torch.from_numpy(x)).squeeze(1).numpy()
    assert np.sqrt(np.mean((predicted - y) ** 2)) == pytest.approx(done.error, rel=1e-4)
    assert "accuracy" not in repr(done)


def test_halves_apart_and_a_resumed_run_give_the_same_model(scenario: Path, tmp_path: Path) -> None:
    settings = ["training.halves=apart"]
    fedfloor.run(scenario, "random", 6, own=True, overrides=settings, out=tmp_path / "apart", workers=1)
    fedfloor.run(scenario, "random", 6, own=True, out=tmp_path / "whole", workers=1)
    for key, value in left_behind(tmp_path / "whole")[2].items():
        assert np.allclose(left_behind(tmp_path / "apart")[2][key], value, rtol=1e-4, atol=1e-6), key
    settings = ["training.evaluate_every=1", "training.checkpoint_every=2"]
    fedfloor.run(scenario, "random", 6, own=True, overrides=settings, out=tmp_path / "one", workers=1)
    fedfloor.run(scenario, "random", 4, own=True, overrides=settings, out=tmp_path / "two", workers=1)
    fedfloor.run(scenario, "random", 6, own=True, overrides=settings, out=tmp_path / "two", workers=1, resume=True)
    assert_equal_runs(tmp_path / "one", tmp_path / "two")


def test_a_run_ends_at_a_loss_and_refuses_an_accuracy(scenario: Path) -> None:
    done = fedfloor.run(scenario, "random", 40, own=True, overrides=["training.evaluate_every=1"], until_loss=0.2)
    losses = [known(record.loss) for record in done.records]
    assert losses[-1] <= 0.2 < min(losses[:-1])
    with pytest.raises(ScenarioError, match=r"until_accuracy: .*there is no accuracy, got 0\.9\. Use until_loss"):
        fedfloor.run(scenario, "random", 40, own=True, until_accuracy=0.9)


@pytest.mark.slow
def test_the_command_line_shows_the_error(
    scenario: Path, fedfloor_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # where the commands find this module
    command = ("run", "plant.toml", "--own", "--policy", "random", "--rounds", "5", "--workers", "1")
    done = fedfloor_command(*command, "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "test error 0." in done.stdout
    assert "least error" in done.stdout
    assert "accuracy" not in done.stdout + done.stderr
    assert "error 0." in done.stderr
    shown = fedfloor_command("evaluate", "run", "--own")
    assert "test error 0." in shown.stdout
    refused = fedfloor_command(*command, "--out", "other", "--until-accuracy", "0.9")
    assert refused.returncode == 2
    assert "--until-loss" in refused.stderr


def test_reports_show_the_error_in_place_of_the_accuracy(scenario: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="a report needs the extra 'report'")
    for policy in ("random", "round_robin"):
        fedfloor.run(scenario, policy, 6, own=True, out=tmp_path / "runs" / policy, workers=1)
    report = api.report([tmp_path / "runs"], out=tmp_path / "report")
    page = report.page.read_text(encoding="utf-8")
    assert "Error against rounds" in page
    assert "Accuracy against rounds" not in page
    assert "it is undecided which has the smaller error" in page
    names = {path.stem for path in report.figures}
    assert {"error-rounds", "error-time"} <= names
    assert not {"accuracy-rounds", "accuracy-time"} & names
    table = report.tables[0]
    assert table.columns[1:3] == ("final error", "least error")
    last = json.loads((tmp_path / "runs" / "random" / "rounds.jsonl").read_text().splitlines()[-1])
    row = next(row for row in table.rows if row[0] == "random")
    assert float(row[1]) == pytest.approx(math.sqrt(last["loss"]), rel=1e-3)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"data": {"name": "fashion-mnist"}, "model": {"name": "mlp", "input": [1, 28, 28]}},
            "has classes, not numbers",
        ),
        ({"model": {"name": "mlp", "input": [4], "classes": 3}}, r"model\.classes: must be 1 with training\.task"),
        ({"data": {"name": "x.csv", "partition": "shards"}}, r"data\.partition: has no effect with training\.task"),
        ({"data": {"name": "x.csv", "labels": ["a", "b"]}}, r"data\.labels: has no effect with training\.task"),
        ({"deploy": {"allow_class_counts": True}}, r"deploy\.allow_class_counts: has no effect with training\.task"),
        ({"training": {"task": "ranking"}}, r"training\.task: .*'classification' or 'regression', got 'ranking'"),
    ],
)
def test_what_has_classes_is_refused(change: Table, problem: str, tmp_path: Path) -> None:
    (tmp_path / "plant.toml").write_text(tomli_w.dumps(plant() | change), encoding="utf-8")
    with pytest.raises(ScenarioError, match=problem):
        fedfloor.load(tmp_path / "plant.toml", own=True)


def test_numbers_that_are_not_finite_are_named(scenario: Path) -> None:
    with pytest.raises(DataError, match="test set: labels must be finite, got nan at sample 7"):
        fedfloor.run(scenario, "random", 2, own=True, overrides=[f"data.name={NAME}:endless"])


def test_the_default_task_leaves_no_key(tmp_path: Path) -> None:
    table = small_table() | {"training": {"task": "classification"}}
    (tmp_path / "plant.toml").write_text(tomli_w.dumps(table), encoding="utf-8")
    fedfloor.simulate(tmp_path / "plant.toml", "random", 1, out=tmp_path / "run")
    assert "task" not in (tmp_path / "run" / "scenario.toml").read_text()


@pytest.mark.slow
def test_real_machines_predict_numbers_from_their_own_files(
    tmp_path: Path, fedfloor_command: Callable[..., Any]
) -> None:
    pytest.importorskip("grpc", reason="real machines need the extra 'deploy'")
    rng = np.random.default_rng(0)
    for device in ("p1", "p2", "q1", "bench"):
        (tmp_path / "logs" / device).mkdir(parents=True)
        x = rng.normal(size=(100, 4))
        rows = np.column_stack([x, x @ [0.5, -0.3, 0.2, 0.4] + 0.7])
        path = tmp_path / "logs" / device / "0.csv"
        np.savetxt(path, rows, delimiter=",", header="a,b,c,d,wear", comments="")
    table = plant(min_cut=1, evaluate_every=1) | {"deploy": {"allow_gradients": True}}
    table["data"] = {"name": "logs/{device}/*.csv", "label_column": "wear", "test_files": "logs/bench/*.csv"}
    table["participation"] = {"rates": "estimated", "estimate_samples": 8}
    (tmp_path / "plant.toml").write_text(tomli_w.dumps(table), encoding="utf-8")
    done = fedfloor_command(
        "local-plant", "plant.toml", "--policy", "random", "--rounds", "4", "--together", "--out", "run"
    )
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()]
    assert [record["accuracy"] for record in records] == [None] * 4
    assert records[-1]["loss"] < records[0]["loss"] < 1.0
    assert "test error 0." in done.stdout
