"""The data of a device: what is accepted and refused, as in a simulation."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

import fedfloor
from fedfloor.deploy.holdings import data_source
from fedfloor.deploy.tasks import DeviceTask, floor_tasks
from fedfloor.errors import DataError
from fedfloor.scenario.resolved import Scenario
from fedfloor.training.data.holding import gather
from tests.conftest import small_table

NAME = "tests.deploy.test_holdings"
PAIR: tuple[Any, Any] = (
    np.zeros((4, 1, 28, 28), np.uint8),
    np.arange(4),
)  #: what every device holds in the tests below
IMAGES, LABELS = PAIR
FLOATS = IMAGES.astype(np.float32)


def own_data() -> Any:
    """Every device holds the same."""
    return [PAIR] * 3, (IMAGES, LABELS % 1)


def pair() -> Any:
    return PAIR


def plant(folder: Path, task: str) -> Scenario:
    table = small_table() | {"data": {"name": f"{NAME}:own_data"}}
    if task == "regression":
        table["training"] = {"task": task}
        table["model"] |= {"classes": 1}
        table["model"]["layers"][1] |= {"output": [1]}
    (folder / "plant.toml").write_text(tomli_w.dumps(table), encoding="utf-8")
    return fedfloor.load(folder / "plant.toml")


def held(source: str, task: DeviceTask) -> tuple[Any, Any]:
    data = data_source(source)(task)
    return data.samples, data.labels


ACCEPTED = {
    "pictures": (IMAGES, LABELS),
    "whole numbers": (IMAGES.astype(np.int16), LABELS.astype(np.uint8)),
    "yes and no": (IMAGES.astype(bool), LABELS),
    "doubles": (IMAGES.astype(np.float64), LABELS),
}
REFUSED = {
    "no samples": (IMAGES[:0], LABELS[:0], "no samples"),
    "another shape": (IMAGES[:, :, :20], LABELS, r"samples must be \(n, 1, 28, 28\) and labels \(n,\)"),
    "too few labels": (IMAGES, LABELS[:3], r"samples must be \(n, 1, 28, 28\) and labels \(n,\), got .* and \(3,\)"),
    "one number": (np.float32(1.0), LABELS, r"samples must be \(n, 1, 28, 28\)"),
    "a gap": (np.full_like(FLOATS, np.nan), LABELS, "samples must be finite, got nan at sample 0"),
    "texts": (IMAGES.astype(str), LABELS, "samples must be numbers, got <U3. Convert them to uint8 or float32"),
    "complex numbers": (IMAGES.astype(complex), LABELS, "samples must be numbers, got complex128"),
    "parts of classes": (IMAGES, LABELS + 0.5, "labels must be integers from 0 to 9, got float64"),
    "an unknown class": (IMAGES, LABELS + 7, r"labels must be integers from 0 to 9, got 7\.\.10"),
    "a negative class": (IMAGES, LABELS - 1, r"labels must be integers from 0 to 9, got -1\.\.2"),
}


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("kind", ACCEPTED)
def test_a_device_takes_what_a_simulation_takes(
    kind: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples, labels = ACCEPTED[kind]
    monkeypatch.setattr(sys.modules[__name__], "PAIR", (samples, labels))
    np.savez(tmp_path / "own.npz", samples=samples, labels=labels)
    scenario = plant(tmp_path, task)
    simulated, device = gather(scenario).samples, floor_tasks(scenario)[0].devices[0]
    for source in (str(tmp_path / "own.npz"), f"{NAME}:pair"):
        inputs, targets = held(source, device)
        assert (inputs.dtype, targets.dtype) == (simulated.images.dtype, simulated.labels.dtype)
        assert inputs.dtype == (np.uint8 if kind == "pictures" else np.float32)
        assert np.array_equal(inputs, simulated.images[:4])
        assert np.array_equal(targets, simulated.labels[:4])


@pytest.mark.parametrize("kind", REFUSED)
def test_a_device_refuses_what_a_simulation_refuses(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples, labels, problem = REFUSED[kind]
    monkeypatch.setattr(sys.modules[__name__], "PAIR", (samples, labels))
    np.savez(tmp_path / "own.npz", samples=samples, labels=labels)
    scenario = plant(tmp_path, "classification")
    with pytest.raises(DataError, match=problem):
        gather(scenario)
    for source in (str(tmp_path / "own.npz"), f"{NAME}:pair"):
        with pytest.raises(DataError, match=f"{source}.*{problem}"):
            held(source, floor_tasks(scenario)[0].devices[0])


@pytest.mark.parametrize("labels", [LABELS.astype(str), np.array([0.0, np.inf, 1.0, 2.0]), LABELS[:3]])
def test_numbers_to_predict_must_be_finite_on_a_device_and_in_a_simulation(
    labels: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "PAIR", (FLOATS, labels))
    scenario = plant(tmp_path, "regression")
    with pytest.raises(DataError, match="labels"):
        gather(scenario)
    with pytest.raises(DataError, match="labels"):
        held(f"{NAME}:pair", floor_tasks(scenario)[0].devices[0])


def test_rows_of_different_lengths_are_no_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "PAIR", ([[1.0], [1.0, 2.0]], [0, 1]))
    scenario = plant(tmp_path, "classification")
    with pytest.raises(DataError, match=r"data '.*': p1: samples and labels must be arrays"):
        gather(scenario)
    with pytest.raises(DataError, match=r"--data '.*': samples and labels must be arrays"):
        held(f"{NAME}:pair", floor_tasks(scenario)[0].devices[0])


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.95])
def test_a_file_that_was_cut_off_is_refused_in_one_line(share: float, tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    np.savez_compressed(path, samples=IMAGES, labels=LABELS)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    task = floor_tasks(plant(tmp_path, "classification"))[0].devices[0]
    with pytest.raises(
        DataError, match=r"own\.npz: must have the arrays samples and labels: .*Write it with numpy\.savez"
    ):
        held(str(path), task)
