"""The examples: their scenarios are valid, and on the real files the two ways to read them agree."""

import importlib
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import fedfloor
from fedfloor.scenario.reading import read
from fedfloor.training.data.holding import gather

EXAMPLES = Path(__file__).parents[1] / "examples"
PLANTS = sorted(EXAMPLES.rglob("plant.toml"))


@pytest.mark.parametrize("path", PLANTS, ids=lambda path: path.parent.name)
def test_the_scenarios_of_examples_are_valid(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(path.parent)
    assert fedfloor.load(path, own=True).name == read(path).name


def test_the_layers_of_the_bearings_are_those_of_its_network(monkeypatch: pytest.MonkeyPatch) -> None:
    describe = pytest.importorskip("fedfloor.training.network.description").describe
    monkeypatch.syspath_prepend(EXAMPLES / "bearings")
    network = importlib.import_module("network").bearings()
    layers = fedfloor.load(EXAMPLES / "bearings" / "plant.toml").layers
    assert layers == tuple(describe(network, (1, 1024)))


def test_the_plant_for_flowers_quickstart_describes_its_network() -> None:
    nn = pytest.importorskip("torch.nn")
    describe = pytest.importorskip("fedfloor.training.network.description").describe
    convolutions = [nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)]
    linear = [nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)]
    expected = describe(nn.Sequential(*convolutions, *linear), (3, 32, 32))
    scenario = fedfloor.load(EXAMPLES / "flower_quickstart" / "plant.toml")
    named = [layer.model_copy(update={"name": ""}) for layer in scenario.layers]
    assert named == [layer.model_copy(update={"name": ""}) for layer in expected]
    assert scenario.training.min_cut == len(scenario.layers)
    assert {device.batch(scenario.training.batch_fraction) for device in scenario.devices} == {32}
    assert scenario.training.local_iterations * 32 == scenario.devices[0].samples


@pytest.mark.slow
def test_csv_files_and_the_loader_give_the_same_bearings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = os.environ.get("FEDFLOOR_DATA")
    if folder is None or not (Path(folder) / "cwru").is_dir():
        pytest.skip("FEDFLOOR_DATA names no folder with cwru: no real bearings")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(EXAMPLES / "bearings")
    shutil.copy(EXAMPLES / "bearings" / "plant.toml", tmp_path)
    importlib.import_module("to_csv").main(tmp_path / "csv")
    files = gather(fedfloor.load(tmp_path / "plant.toml"))
    loader = gather(fedfloor.load(tmp_path / "plant.toml", ['data={name="loader:bearings"}']))
    assert np.array_equal(files.histogram, loader.histogram)
    for key in ("images", "labels", "test_images", "test_labels", "mean", "deviation"):
        assert np.array_equal(getattr(files.samples, key), getattr(loader.samples, key)), key


@pytest.mark.slow
def test_the_pictures_of_steel_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = os.environ.get("FEDFLOOR_DATA")
    if folder is None or not (Path(folder) / "neu-64.tar").is_file():
        pytest.skip("FEDFLOOR_DATA names no folder with neu-64.tar: no real pictures")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.unpack_archive(Path(folder) / "neu-64.tar", tmp_path, filter="data")
    (tmp_path / "neu").rename(tmp_path / "images")
    shutil.copy(EXAMPLES / "steel" / "plant.toml", tmp_path)
    holding = gather(fedfloor.load(tmp_path / "plant.toml"))
    assert holding.classes == ("crazing", "inclusion", "patches", "pitted_surface", "rolled-in_scale", "scratches")
    assert holding.histogram.sum(0).tolist() == [240] * 6
    assert np.bincount(holding.samples.test_labels).tolist() == [60] * 6
