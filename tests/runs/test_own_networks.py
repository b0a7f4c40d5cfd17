"""A user's network for sensor windows, with a block and group norm, from its profile to the exported model."""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tomli_w
import torch
from torch import nn

import fedfloor
from fedfloor import api
from fedfloor.arrays import Ints
from fedfloor.errors import ModelError
from fedfloor.runs.profile import layers_toml
from fedfloor.scenario.model import Model
from fedfloor.training.network.built import network_of
from fedfloor.training.network.description import describe
from tests.conftest import Table, small_table
from tests.runs.small import left_behind
from tests.training.networks import Skipped

DEPTH = 5  #: layers of the network below
NAME = "tests.runs.test_own_networks"


def sensors() -> nn.Module:
    inside = [nn.Conv1d(8, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU(), nn.Conv1d(8, 8, 3, padding=1)]
    below = [nn.Conv1d(3, 8, 5, padding=2), nn.GroupNorm(2, 8), nn.ReLU(), nn.MaxPool1d(2)]
    return nn.Sequential(*below, Skipped(*inside), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(32, 3))


def _windows(count: int, rng: np.random.Generator) -> tuple[npt.NDArray[np.float32], Ints]:
    """Oscillations of three sensors; the class is the frequency."""
    labels = rng.integers(0, 3, count)
    angles = np.arange(32) * 0.3 * (1.0 + labels[:, None, None]) + rng.uniform(0, 6, (count, 3, 1))
    return np.sin(angles).astype(np.float32) + rng.normal(0.0, 0.1, (count, 3, 32)).astype(np.float32), labels


def windows() -> Any:
    rng = np.random.default_rng(0)
    return [_windows(40, rng) for _ in range(3)], _windows(60, rng)


def bodiless() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(96, 3, device="meta"))


def plant() -> Table:
    table = small_table()
    layers = tomllib.loads(layers_toml(describe(sensors(), (3, 32))))["layers"]
    table["model"] = {"name": f"{NAME}:sensors", "input": [3, 32], "classes": 3, "layers": layers}
    table |= {"limits": False, "data": {"name": f"{NAME}:windows"}, "participation": {"rates": "uniform"}}
    table["training"] = {"learning_rate": 0.1, "batch_fraction": 0.5, "local_iterations": 3, "min_cut": 1}
    return table


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plant") / "plant.toml"
    path.write_text(tomli_w.dumps(plant()), encoding="utf-8")
    return path


def test_a_network_whose_tensors_have_no_values_is_refused() -> None:
    problem = r"bodiless': '1\.weight' is on the device 'meta', where tensors have no values\. Create it on the CPU"
    with pytest.raises(ModelError, match=problem):
        fedfloor.measure(f"{NAME}:bodiless", "3,32", batches=[2], frequency=1e9)
    with pytest.raises(ModelError, match=problem):
        network_of(Model(name=f"{NAME}:bodiless", input=(3, 32), classes=3), 0)


def test_the_profile_prints_the_layer_list() -> None:
    profile = api.profile(f"{NAME}:sensors", "3,32", batch=10)
    assert tomllib.loads(profile.layers_toml)["layers"] == plant()["model"]["layers"]
    assert [layer.kind for layer in profile.layers] == [
        "convolution", "max_pooling", "block", "average_pooling", "linear"
    ]  # fmt: skip
    assert len(profile.layers) == DEPTH


@pytest.mark.parametrize("costs", ["exact", "paper"])
def test_simulations_and_plans_of_a_network_with_blocks_need_no_torch(
    costs: str, scenario: Path, tmp_path: Path
) -> None:
    code = f"""
import sys
sys.modules["torch"] = None
import fedfloor
overrides = ["costs.model={costs}", "precision.upload=8"]
run = fedfloor.simulate({str(scenario)!r}, "random", 3, own=True, overrides=overrides, out="run")
print(len(run.records), fedfloor.plan("run", round=1)["policy"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout == "3 random\n", done.stderr


def test_every_cut_learns_the_same_and_the_model_survives_its_export(scenario: Path, tmp_path: Path) -> None:
    def run(cut: int, halves: str) -> dict[str, Any]:
        folder = tmp_path / f"{halves}-{cut}"
        overrides = [f"baseline.cut={cut}", f'training.halves="{halves}"']
        fedfloor.run(scenario, "random", 3, own=True, overrides=overrides, out=folder, workers=1)
        return left_behind(folder)[2]

    whole = run(1, "joined")
    assert whole["4.1.num_batches_tracked"] == 3 * 3  # of the block's batch norm: K iterations in each of the rounds
    for cut in range(1, DEPTH + 1):
        apart = run(cut, "apart")
        assert apart.keys() == whole.keys()
        for key, value in whole.items():
            assert np.allclose(apart[key], value, rtol=1e-4, atol=1e-6), (cut, key)
    tested = api.evaluate(tmp_path / "apart-3", own=True, export=tmp_path / "model.safetensors")
    model = fedfloor.load_model(tmp_path / "model.safetensors", own=True)
    samples, labels = windows()[1]
    with torch.no_grad():
        predicted = model(torch.from_numpy(samples)).argmax(1).numpy()
    assert np.mean(predicted == labels) == pytest.approx(tested["accuracy"])


def test_rounded_boundaries_and_updates_of_blocks_still_learn(scenario: Path) -> None:
    overrides = ["baseline.cut=3", "precision.boundary=8", "precision.upload=8"]
    done = fedfloor.run(scenario, "random", 12, own=True, overrides=overrides, workers=1)
    assert done.accuracy is not None
    assert done.accuracy > 0.6
