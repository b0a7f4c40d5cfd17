"""Training runs that send fewer bits: they learn, resume to the last bit, and end where numbers do not fit."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.arrays import Vector
from fedfloor.costs.plant import traffic_of
from fedfloor.errors import DataError, FailedRunError, RunLogError, ScenarioError
from fedfloor.rounds.listeners.checkpoint import load_checkpoint
from fedfloor.training.network.stored import packed, unpacked
from tests.conftest import Table, known
from tests.runs.small import assert_equal_runs

COARSE = {"upload": 8, "download": 16, "boundary": 8}

Train = Callable[..., Any]


@pytest.fixture
def train(table: Table, write: Callable[[Table], Path], tmp_path: Path) -> Train:
    """Train a small plant of three floors, two of which take part in a round."""
    table["floors"].append(copy.deepcopy(table["floors"][1]))
    table["floors"][2]["name"], table["floors"][2]["devices"][0]["name"] = "pack", "r1"
    table["training"] = {"checkpoint_every": 1, "evaluate_every": 1, "learning_rate": 0.05}
    table["model"]["width"] = 0.25
    del table["model"]["layers"]
    plant = write(table)

    def run(name: str | None, rounds: int, precision: dict[str, int], *more: str, **options: Any) -> Any:
        overrides = [*(f"precision.{key}={bits}" for key, bits in precision.items()), *more]
        out = tmp_path / name if name else None
        options = {"workers": 1, **options}
        return fedfloor.run(plant, "random", rounds=rounds, out=out, overrides=overrides, **options)

    return run


def weights_of(run: Path) -> Vector:
    """Weights of a run in a fixed order."""
    tensors = known(load_checkpoint(run)).state.weights
    return np.concatenate([tensors[key].ravel() for key in sorted(tensors)]).astype(np.float32)


def errors_of(run: Path) -> Vector:
    return known(load_checkpoint(run)).state.memory["upload_error"].astype(np.float32)


def own_pictures() -> Any:
    """Samples of 4 devices and a test set, as uint8."""
    rng = np.random.default_rng(0)
    pairs = [(rng.integers(0, 256, (20, 1, 28, 28), np.uint8), rng.integers(0, 10, 20)) for _ in range(4)]
    return pairs, pairs[0]


def own_floats() -> Any:
    pairs, _ = own_pictures()
    floats = [(samples.astype(np.float32), labels) for samples, labels in pairs]
    return floats, floats[0]


def test_costs_and_training_agree_about_samples_of_your_own(train: Train) -> None:
    pictures, floats = (f'data.name="tests.runs.test_precision:own_{kind}"' for kind in ("pictures", "floats"))
    rounded, told = {"boundary": 8}, "data.pictures=true"
    link = 'floors.0.link={"rate_up_mbps" = 1.0}'
    for more, precision in (((link,), {}), ((), rounded)):
        with pytest.raises(
            DataError, match=r"data\.pictures: is false, but samples are uint8\. Set data\.pictures = t"
        ):
            train(None, 1, precision, pictures, *more)
    with pytest.raises(DataError, match=r"data\.pictures: is true, but samples are float32\. Return uint8, or leave"):
        train(None, 1, {}, floats, told)
    scenario = train(None, 1, rounded, pictures, told, link).scenario
    assert (traffic_of(scenario).sample_bits, traffic_of(scenario).batch_bits) == (8, 0)
    assert train(None, 1, {}, pictures).scenario.data.pictures is None  # nobody counts what cut 0 sends


def test_the_kind_of_built_in_samples_is_known() -> None:
    assert fedfloor.load("quick", ["data.pictures=true"]) == fedfloor.load("quick")
    with pytest.raises(ScenarioError, match=r"data\.pictures: must be true, because fashion-mnist are pictures, got F"):
        fedfloor.load("quick", ["data.pictures=false"])
    with pytest.raises(ScenarioError, match=r"data\.pictures: must be true or false, got 8"):
        fedfloor.load("quick", ["data.pictures=8"])


@pytest.mark.slow
@pytest.mark.parametrize("model", [(), ("model.name=cnn", "model.batch_norm=true")], ids=["mlp", "batch norm"])
def test_a_coarse_run_goes_on_as_if_nothing_had_happened(model: tuple[str, ...], train: Train, tmp_path: Path) -> None:
    train("whole", 6, COARSE, *model)
    train("parts", 3, COARSE, *model)
    assert errors_of(tmp_path / "parts").any()
    train("parts", 5, COARSE, *model, resume=True, workers=2)
    train("parts", 6, COARSE, *model, resume=True)
    assert_equal_runs(tmp_path / "whole", tmp_path / "parts")


def test_only_floors_that_complete_a_round_change_their_errors(train: Train, tmp_path: Path) -> None:
    """Floors that fail, sit out, or train for a measurement only keep what they have."""
    scarce = [f"floors.{m}.gateway.max_energy_j=0.005" for m in range(3)]
    before, failures = np.zeros((), np.float32), 0
    for rounds in (1, 2, 3, 4):
        done = train("run", rounds, COARSE, *scarce, "participation.observe_every=1", resume=rounds > 1)
        after, gateways = errors_of(tmp_path / "run"), done.records[-1].gateways
        assert (after != before).any(axis=1).tolist() == [gateway.completed for gateway in gateways]
        assert all(gateway.divergence is not None for gateway in gateways)  # all of them trained
        before, failures = after, failures + sum(gateway.failure == "energy" for gateway in gateways)
    assert failures > 0


@pytest.mark.parametrize("precision", [{"upload": 16}, {"download": 16}, {"boundary": 16}], ids=str)
def test_16_bits_stay_close_to_32(precision: dict[str, int], train: Train, tmp_path: Path) -> None:
    train("full", 2, {})
    train("half", 2, precision)
    full, half = weights_of(tmp_path / "full"), weights_of(tmp_path / "half")
    assert 0.0 < np.linalg.norm(half - full) < 0.002 * np.linalg.norm(full)


def test_a_run_with_8_bits_learns_in_shorter_rounds(train: Train) -> None:
    full, coarse = train(None, 25, {}), train(None, 25, COARSE)
    assert coarse.accuracy > 0.5
    assert coarse.accuracy == pytest.approx(full.accuracy, abs=0.1)
    values = 784 * 32 + 32 + 32 * 10 + 10
    for one, other in zip(full.records, coarse.records, strict=True):
        for before, after in zip(one.gateways, other.gateways, strict=True):
            assert after.upload_s == pytest.approx((8 * values + 4 * 32) / (32 * values) * before.upload_s)
            assert after.download_s == pytest.approx(before.download_s / 2)


def test_few_bits_add_no_key_to_the_log(train: Train, tmp_path: Path) -> None:
    keys = []
    for name, precision in (("full", {}), ("coarse", COARSE)):
        train(name, 1, precision)
        record = json.loads((tmp_path / name / "rounds.jsonl").read_text())
        keys.append((list(record), list(record["gateways"][0])))
    assert keys[0] == keys[1]


def test_a_weight_too_large_for_16_bits_ends_the_run_with_advice(train: Train) -> None:
    expected = r"round 0: a weight of 1e\+05 is too large for 16 bits .*Start a new run with precision\.download = 32"
    with pytest.raises(FailedRunError, match=expected):
        train(None, 1, {"download": 16}, 'model.name="tests.training.networks:large_weights"', "model.width=1.0")


@pytest.mark.parametrize("precision", [{"boundary": 8}, {"upload": 8}], ids=str)
def test_a_coarse_run_that_diverges_names_where(precision: dict[str, int], train: Train) -> None:
    with pytest.raises(FailedRunError, match=r"round \d: \S+: .*learning_rate"):
        train(None, 6, precision, "training.learning_rate=1e8")


def test_a_checkpoint_without_its_errors_is_refused(train: Train, tmp_path: Path) -> None:
    train("run", 2, COARSE)
    folder = tmp_path / "run" / "checkpoint"
    (weights,) = folder.glob("*.safetensors")
    tensors, state = unpacked(weights.read_bytes()), json.loads((folder / "state.json").read_text())
    del tensors["memory/upload_error"], state["sha256"], state["weights_sha256"]
    weights.write_bytes(packed(tensors))
    (folder / "state.json").write_text(json.dumps({**state, "version": 1}))  # one without checksums
    with pytest.raises(RunLogError, match=r"does not fit the scenario: upload_error.* is missing, but precision"):
        train("run", 3, COARSE, resume=True)


def test_another_precision_is_another_run(train: Train) -> None:
    train("run", 1, {})
    with pytest.raises(RunLogError, match="precision"):
        train("run", 2, COARSE, resume=True)


@pytest.mark.slow
def test_an_exported_model_has_no_errors_in_it(
    train: Train, fedfloor_command: Callable[..., Any], tmp_path: Path
) -> None:
    done = train("run", 2, COARSE)
    found = json.loads(fedfloor_command("evaluate", "run", "--export", "model.safetensors", "--format", "json").stdout)
    assert found["accuracy"] == done.accuracy
    exported = unpacked((tmp_path / "model.safetensors").read_bytes())
    assert set(exported) == {"1.weight", "1.bias", "3.weight", "3.bias"}
