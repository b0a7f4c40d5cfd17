"""What a run's model is tested on and written as: inputs scaled as in training, and a file that stands for itself."""

import json
import os
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import fedfloor
from fedfloor import api
from fedfloor.errors import FailedRunError, ModelError, RunLogError
from fedfloor.rounds.listeners.checkpoint import signed
from fedfloor.scenario.model import Model
from fedfloor.training.network.models import build_model
from tests.runs.small import small_run
from tests.runs.test_training import own_data

evaluate = partial(api.evaluate, own=True)  # the run folder names the data below

BRIGHTER = [0.0]  #: added to every pixel of the data below


def lit_data() -> Any:
    """Data whose pixels a test can shift."""
    pairs, _ = own_data()
    pairs = [(images + BRIGHTER[0], labels) for images, labels in pairs]
    return pairs, (np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs]))


@pytest.fixture(scope="module")
def lit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lit") / "run"
    few = ('data.name="tests.runs.test_exporting:lit_data"', "participation.rates=uniform", "model.name=mlp")
    small_run(folder, *few, "training.batch_fraction=1.0", rounds=4)
    return folder


@pytest.fixture
def run(lit: Path, tmp_path: Path) -> Path:
    return shutil.copytree(lit, tmp_path / "run")


def test_other_data_is_scaled_as_the_data_of_the_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = evaluate(run)
    monkeypatch.setattr(sys.modules[__name__], "BRIGHTER", [50.0])
    after = evaluate(run)
    assert (before["same_data"], after["same_data"]) == (True, False)
    assert after["loss"] > 2.0 * before["loss"]  # a mean of its own would hide the difference


def test_a_checkpoint_without_a_scale_is_tested_with_that_of_the_data(run: Path) -> None:
    expected, path = evaluate(run), run / "checkpoint" / "state.json"
    state = json.loads(path.read_text())
    assert len(state.pop("inputs")["mean"]) == 1
    path.write_bytes(signed(state))
    assert evaluate(run) == expected


@pytest.mark.parametrize("inputs", [{"mean": [1.0]}, {"mean": [1.0], "deviation": [0.0]}, {"mean": [1.0, 2.0]}, 7])
def test_an_edited_scale_is_named(inputs: Any, run: Path) -> None:
    path = run / "checkpoint" / "state.json"
    path.write_bytes(signed({**json.loads(path.read_text()), "inputs": inputs}))
    with pytest.raises(RunLogError, match="does not fit the scenario"):
        evaluate(run)


def test_an_exported_model_can_be_used_without_us(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    expected = evaluate(run, export=file)
    with safe_open(file, "np") as opened:
        facts = opened.metadata()
    assert (facts["model"], json.loads(facts["width"]), json.loads(facts["classes"])) == ("mlp", 1.0, 10)
    assert json.loads(facts["input"]) == [1, 28, 28]
    network = build_model(Model(name="mlp", input=(1, 28, 28)))
    network.load_state_dict(load_file(file))
    images, labels = lit_data()[1]
    mean, deviation = (np.array(json.loads(facts[key])).reshape(1, -1, 1, 1) for key in ("mean", "deviation"))
    scores = network(torch.tensor((images - mean) / deviation, dtype=torch.float32))
    assert float((scores.argmax(1).numpy() == labels).mean()) == pytest.approx(expected["accuracy"], abs=1 / 360)


def test_an_exported_model_is_loaded_with_its_scale(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    expected = evaluate(run, export=file)
    model = fedfloor.load_model(file)
    images, labels = lit_data()[1]
    named = model(torch.tensor(images)).argmax(1).numpy()
    assert float((named == labels).mean()) == pytest.approx(expected["accuracy"], abs=1 / 360)
    assert not model.training


def test_a_file_that_is_no_export_is_named(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere\.safetensors: does not exist"):
        fedfloor.load_model(tmp_path / "nowhere.safetensors")
    (tmp_path / "text.safetensors").write_text("no tensors")
    with pytest.raises(ModelError, match="cannot be read"):
        fedfloor.load_model(tmp_path / "text.safetensors")
    (weights,) = (run / "checkpoint").glob("*.safetensors")
    with pytest.raises(ModelError, match="does not describe its network"):
        fedfloor.load_model(weights)
    facts = {"model": "os:abort", "mean": "[0.0]"}
    save_file(load_file(weights), tmp_path / "code.safetensors", facts)
    with pytest.raises(ModelError, match=r"names code that builds its network, os:abort. If you trust the file, call"):
        fedfloor.load_model(tmp_path / "code.safetensors")
    facts = {"model": "cnn", "width": "1.0", "batch_norm": "false", "head": '"linear"', "classes": "10"}
    facts |= {"input": "[1, 28, 28]", "mean": "[0.0]", "deviation": "[1.0]"}
    save_file(load_file(weights), tmp_path / "other.safetensors", facts)
    with pytest.raises(ModelError, match="does not fit its network"):
        fedfloor.load_model(tmp_path / "other.safetensors")


@pytest.mark.parametrize(
    ("fact", "value", "said"),
    [
        ("deviation", "[0.0]", r"deviation must be > 0, got \[0\.0\]"),
        ("deviation", "[1e-300]", r"deviation must be > 0, got \[1e-300\]"),
        ("deviation", "[-1]", r"deviation must be > 0, got \[-1\]"),
        ("deviation", "[NaN]", r"deviation must be 1 finite numbers, one per channel, got \[NaN\]"),
        ("mean", "[1e300]", r"mean must be 1 finite numbers, one per channel, got \[1e300\]"),
        ("mean", f"[{10**400}]", "mean must be 1 finite numbers"),
        ("mean", "[]", "mean must be 1 finite numbers"),
        ("mean", "[1, 2]", "mean must be 1 finite numbers"),
        ("mean", "[[1.0]]", "mean must be 1 finite numbers"),
        ("mean", "[true]", "mean must be 1 finite numbers"),
        ("mean", '["1"]', "mean must be 1 finite numbers"),
        ("mean", "1.0", "mean must be 1 finite numbers"),
        ("mean", '{"0": 1}', "mean must be 1 finite numbers"),
        ("mean", "[" * 100_000, "recursion"),
        ("mean", "one", "Expecting value"),
        ("width", "64", "size mismatch"),
        ("width", "1e7", "width: Input should be less than or equal to 64"),
        ("input", "[]", "input"),
    ],
)
def test_an_export_with_wrong_facts_is_refused(fact: str, value: str, said: str, tmp_path: Path) -> None:
    facts = {"model": "mlp", "width": "1.0", "batch_norm": "false", "head": '"linear"', "classes": "10"}
    facts |= {"input": "[1, 28, 28]", "mean": "[0.0]", "deviation": "[1.0]"}
    weights = build_model(Model(name="mlp", input=(1, 28, 28))).state_dict()
    file = tmp_path / "model.safetensors"
    save_file(weights, file, facts)
    assert fedfloor.load_model(file)(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    save_file(weights, file, {**facts, fact: value})
    with pytest.raises(ModelError, match=rf"model\.safetensors: does not fit its network: .*{said}.*. Export it again"):
        fedfloor.load_model(file)
    save_file(weights, file, {key: entry for key, entry in facts.items() if key != "deviation"})
    with pytest.raises(ModelError, match=r"it has no 'deviation'. Export it again"):
        fedfloor.load_model(file)


def test_an_export_with_wrong_weights_is_refused(tmp_path: Path) -> None:
    facts = {"model": "mlp", "width": "1.0", "batch_norm": "false", "head": '"linear"', "classes": "10"}
    facts |= {"input": "[1, 28, 28]", "mean": "[0.0]", "deviation": "[1.0]"}
    weights = build_model(Model(name="mlp", input=(1, 28, 28))).state_dict()
    wrong = {
        "1.bias must be torch.float32, got torch.float64": weights["1.bias"].double(),
        "1.bias must be torch.float32, got torch.int64": weights["1.bias"].long(),
        "1.bias has a value that is not finite": torch.full_like(weights["1.bias"], torch.nan),
        "size mismatch for 1.bias": torch.zeros(3),
    }
    for said, bias in wrong.items():
        save_file({**weights, "1.bias": bias}, tmp_path / "model.safetensors", facts)
        with pytest.raises(ModelError, match=f"does not fit its network: .*{said}"):
            fedfloor.load_model(tmp_path / "model.safetensors")


def test_an_export_of_another_ending_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(RunLogError, match=r"model\.pt: must end in \.safetensors.*Name it model\.safetensors"):
        evaluate(run, export=tmp_path / "model.pt")
    assert not (tmp_path / "model.pt").exists()


def test_an_export_harms_neither_the_run_nor_what_is_no_file(run: Path, tmp_path: Path) -> None:
    (weights,) = (run / "checkpoint").glob("*.safetensors")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(weights)
    (tmp_path / "hard").hardlink_to(weights)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    wrong = {
        weights: "belongs to a run",
        tmp_path / "link": "belongs to a run",
        tmp_path / "hard": "belongs to a run",
        run / "checkpoint" / "new": "belongs to a run",
        run / "rounds.jsonl": "belongs to a run",
        tmp_path / "folder": "is a folder. Name a file in it, such as .*model.safetensors",
        tmp_path / "pipe": "is a pipe or a device",
        Path("/dev/null"): "is a pipe or a device",
        tmp_path / "nowhere" / "model": "there is no folder .*nowhere. Make it",
        weights / "model": "there is no folder",
        tmp_path / ("x" * 300): "export: must be a path that can exist, got .*: File name too long",
    }
    for path, expected in wrong.items():
        with pytest.raises(RunLogError, match=expected):
            evaluate(run, export=path)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_an_export_that_fails_leaves_the_old_file(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.safetensors"
    file.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(FailedRunError, match=r"model\.safetensors: cannot be written: No space left"):
            evaluate(run, export=file)
    assert (file.read_text(), sorted(entry.name for entry in tmp_path.iterdir())) == ("old", [file.name, "run"])
    (tmp_path / "link").symlink_to(file)
    evaluate(run, export=tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert file.stat().st_size > 100_000
