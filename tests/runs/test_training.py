"""Training runs: learning, logs, data of one's own, and what ends a run."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.api import evaluate
from fedfloor.errors import DataError, FailedRunError, RunLogError
from tests.conftest import known
from tests.runs.small import SMALL, assert_equal_runs, small_run


@pytest.mark.slow
def test_any_number_of_workers_leaves_the_same_log_and_weights(tmp_path: Path) -> None:
    for workers in (1, 2, 3):
        small_run(tmp_path / str(workers), "participation.observe_every=2", workers=workers, rounds=4)
    assert_equal_runs(tmp_path / "1", tmp_path / "2")
    assert_equal_runs(tmp_path / "1", tmp_path / "3")


def test_a_model_whose_test_loss_is_not_finite_ends_the_run_with_advice() -> None:
    overrides = ["aggregation.rule=fedyogi", "aggregation.settings={learning_rate=1e9}", "training.evaluate_every=1"]
    overrides += ["participation.rates=uniform", "training.batch_fraction=0.03"]
    with pytest.raises(
        FailedRunError, match=r"round \d: the test loss is (inf|nan)\. Lower training.learning_rate, or the"
    ):
        fedfloor.run("quick", "random", rounds=3, overrides=overrides, workers=1)


def test_a_run_learns_and_its_log_says_so(tmp_path: Path) -> None:
    overrides = ["participation.estimate_samples=16", "training.evaluate_every=10"]
    done = fedfloor.run("quick", "random", rounds=20, overrides=overrides, out=tmp_path / "run", workers=2)
    seen = [record.accuracy for record in done.records if record.accuracy is not None]
    assert len(seen) == 5  # after 10 rounds, and after each of the last 4
    assert done.accuracy is not None
    assert seen[-1] == done.accuracy > 0.45
    losses = [known(gateway.loss) for gateway in done.records[-1].gateways if gateway.completed]
    assert all(0 < loss < 2.5 for loss in losses)
    idle = [gateway for gateway in done.records[-1].gateways if not gateway.completed]
    assert all(gateway.loss is None for gateway in idle)
    rates = [gateway.target_rate for gateway in done.records[-1].gateways]
    assert sum(rates) == pytest.approx(3.0, abs=0.5)  # as many as there are channels, unless one was clipped
    assert len(set(rates)) == len(rates)
    timings = [json.loads(line) for line in (tmp_path / "run" / "timings.jsonl").read_text().splitlines()]
    assert all(entry["train_s"] > 0 for entry in timings)
    assert sum(entry["evaluate_s"] is not None for entry in timings) == len(seen)


def test_estimates_are_timed_and_told_of() -> None:
    events: list[Any] = []
    done = small_run(None, rounds=4, on_event=events.append)
    assert [entry.estimate_s is not None for entry in done.timings] == [True, False, False, True]
    assert [event.reading for event in events[:3]] == ["fashion-mnist", None, None]
    assert [event.estimating for event in events[2:]] == [True, *[False] * 6, True, False, False]


def test_a_run_ends_when_it_has_what_was_asked_for(tmp_path: Path) -> None:
    done = small_run(tmp_path / "accuracy", "training.evaluate_every=2", until_accuracy=0.0)
    assert len(done.records) == 1  # the first evaluation
    assert (tmp_path / "accuracy" / "checkpoint" / "state.json").exists()
    done = small_run(None, until_clock=0.5)
    assert done.records[-2].clock_s < 0.5 <= done.records[-1].clock_s
    assert all(record.accuracy is not None for record in done.records), "each might have been the last"


def test_a_run_goes_on_under_another_name_of_its_scenario(tmp_path: Path) -> None:
    small_run(tmp_path / "old", "name=before", rounds=2)
    resumed = small_run(tmp_path / "old", "name=after", rounds=3, resume=True)
    assert resumed.records == small_run(None, rounds=3).records


@pytest.mark.parametrize("workers", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_diverging_run_stops_with_the_device_named(workers: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fedfloor", "run", "quick", "--policy", "random", "--workers", str(workers)]
    command += [part for entry in SMALL for part in ("--set", entry)]
    command += ["--set", "training.learning_rate=1e6", "--set", "participation.rates=uniform", "--out", "wild"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    told = r"error: round \d+: \S+: \S+camera-\d: the training loss is .*learning_rate.*\n"
    assert re.fullmatch(rf"(reading .*\n)?{told}", done.stderr)
    assert not (tmp_path / "wild").exists()  # there was no round


def test_a_training_run_reads_as_columns() -> None:
    done = small_run(None, rounds=2)
    columns = fedfloor.read(done, per="gateway")
    assert len(columns["divergence_bound"]) == 12
    losses = [loss for at, loss in zip(columns["round"], columns["loss"], strict=True) if at == 1 and loss is not None]
    assert fedfloor.read(done)["training_loss"][1] == pytest.approx(np.mean(losses))


def test_a_training_run_prints_itself_in_a_line(tmp_path: Path) -> None:
    done = small_run(tmp_path / "run", rounds=2)
    accuracy = f"accuracy {done.accuracy:.4f}"
    assert repr(done) == f"TrainedRun(quick, random, 2 rounds, {accuracy}, folder={tmp_path / 'run'})"
    again = small_run(tmp_path / "run", rounds=3, resume=True)
    tested = [entry.accuracy for entry in again.records if entry.accuracy is not None]
    assert again.best[0] == max(*tested, again.accuracy)


def test_a_folder_of_runs_is_not_taken_for_a_run(tmp_path: Path, fedfloor_command: Callable[..., Any]) -> None:
    for name in ("one", "two"):
        fedfloor.simulate("quick", "random", rounds=1, out=tmp_path / "runs" / name)
    for resume in (True, False):
        problem = (
            r"it holds the runs one, two\. Resume one of them by naming its own folder .*one, .*, with --resume, or "
        )
        with pytest.raises(RunLogError, match=problem + r"resume=True in Python\. For a new run"):
            small_run(tmp_path / "runs", resume=resume)
    for reader in (fedfloor.read, evaluate):
        with pytest.raises(
            RunLogError, match=r"is not a run folder, but holds one, two\. Name one of them, such as .*/one"
        ):
            reader(tmp_path / "runs")
    done = fedfloor_command("run", "quick", "--out", "runs", "--resume")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "runs: is not empty: it holds the runs one, two" in done.stderr


@pytest.mark.slow
def test_a_full_disk_ends_a_run_with_the_file_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fedfloor", "run", "quick", "--policy", "random", "--workers", "1", "--quiet"]
    command += [part for entry in SMALL for part in ("--set", entry)]
    command += ["--set", "participation.rates=uniform", "--out", "full"]

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))

    done = subprocess.run(command, cwd=tmp_path, preexec_fn=small_files, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "full" in done.stderr
    assert "cannot be written: File too large" in done.stderr


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunLogError, match="cannot be written"):
        small_run(tmp_path / "file" / "run")


@pytest.mark.slow
def test_evaluating_a_run_gives_its_last_accuracy_and_its_model(
    fedfloor_command: Callable[..., Any], tmp_path: Path
) -> None:
    done = small_run(tmp_path / "run")
    found = json.loads(fedfloor_command("evaluate", "run", "--export", "model.safetensors", "--format", "json").stdout)
    assert found["accuracy"] == done.accuracy
    assert np.array_equal(found["confusion"], done.confusion)
    assert (tmp_path / "model.safetensors").stat().st_size > 100_000
    table = fedfloor_command("evaluate", "run")
    assert "accuracy" in table.stdout
    none = fedfloor_command("evaluate", "elsewhere")
    assert (none.returncode, none.stderr.splitlines()[-1].startswith("error: ")) == (2, True)


def test_a_logged_training_round_is_decided_alike(tmp_path: Path) -> None:
    done = small_run(tmp_path / "run", policy="loss_driven")
    for record in done.records:
        found = fedfloor.plan(tmp_path / "run", round=record.round)
        assert [entry["channel"] for entry in found["gateways"]] == [entry.channel for entry in record.gateways]


def test_devices_that_hold_less_are_in_the_resolved_scenario(tmp_path: Path) -> None:
    done = small_run(tmp_path / "run", "floors.1.devices.0.samples=2000", rounds=1)
    resolved = tomllib.loads((tmp_path / "run" / "scenario.toml").read_text())
    devices = [device for floor in resolved["floors"] for device in floor["devices"]]
    held = [device.get("held", device["samples"]) for device in devices]
    assert held == done.holding.histogram.sum(1).tolist()
    assert any("held" in device and device["held"] < device["samples"] for device in devices)
    again = fedfloor.run(tmp_path / "run" / "scenario.toml", workers=1)
    assert again.records == done.records
    found = fedfloor.plan(tmp_path / "run", round=0)
    assert [entry["train_s"] for entry in found["gateways"]] == [entry.train_s for entry in done.records[0].gateways]


def own_data() -> Any:
    """18 devices with few samples of two classes each, and a test set."""
    rng = np.random.default_rng(0)
    labels = [rng.integers(0, 2, 20) + n % 9 for n in range(18)]
    pairs = [(rng.normal(size=(20, 1, 28, 28)) + entry[:, None, None, None], entry) for entry in labels]
    return pairs, pairs[0]


def wrong_labels() -> Any:
    pairs, test = own_data()
    return [(pairs[0][0], pairs[0][1] + 100), *pairs[1:]], test


def no_samples() -> Any:
    pairs, test = own_data()
    return [*pairs[:-1], (pairs[0][0][:0], pairs[0][1][:0])], test


def too_few() -> Any:
    pairs, test = own_data()
    return pairs[:3], test


def wrong_shape() -> Any:
    pairs, test = own_data()
    return [(pairs[0][0][:, :, :20], pairs[0][1]), *pairs[1:]], test


def no_test_set() -> Any:
    pairs, _ = own_data()
    return pairs, (pairs[0][0][:0], pairs[0][1][:0])


def nonsense() -> Any:
    return 7


def raising() -> Any:
    raise OSError("the camera is off")


def broken_generator() -> Any:
    pairs, test = own_data()
    return (1 / 0 for _ in pairs), test


def float_labels() -> Any:
    pairs, test = own_data()
    return [(samples, labels.astype(np.float32)) for samples, labels in pairs], test


def test_own_data_is_trained_on() -> None:
    done = small_run(None, 'data.name="tests.runs.test_training:own_data"', rounds=2)
    assert done.holding.histogram.sum() == 360
    assert done.confusion.sum() == 20
    table = done.holding.table()
    assert table["partition"] is None
    assert all(device["asked"] == device["held"] == 20 for device in table["devices"])


def three_classes() -> Any:
    pairs, _ = own_data()
    pairs = [(samples, labels % 3) for samples, labels in pairs]
    return pairs, pairs[0]


THREE_CLASSES = ('data.name="tests.runs.test_training:three_classes"', "model.name=mlp", "model.classes=3")


def test_own_data_may_have_fewer_classes_than_devices_ask_for() -> None:
    asked = max(floor.classes_per_device or 0 for floor in fedfloor.load("quick", overrides=THREE_CLASSES).floors)
    assert asked > 3
    done = small_run(None, *THREE_CLASSES, rounds=1)
    assert done.confusion.shape == (3, 3)
    assert (done.holding.histogram > 0).any(axis=0).all()


@pytest.mark.slow
def test_check_says_that_devices_hold_all_classes_if_there_are_few(fedfloor_command: Callable[..., Any]) -> None:
    settings = [part for setting in THREE_CLASSES for part in ("--set", setting)]
    done = fedfloor_command("check", "quick", *settings)
    assert done.returncode == 0, done.stderr
    assert "classes_per_device up to 10, but 3 classes exist: their devices hold all that there are." in done.stdout
    assert "classes exist" not in fedfloor_command("check", "quick").stdout


def test_check_leaves_the_samples_of_own_data_open(fedfloor_command: Callable[..., Any]) -> None:
    own = ("check", "quick", "--set", 'data.name="tests.runs.test_training:own_data"')
    text = fedfloor_command(*own).stdout
    assert "read by your own code when `fedfloor run` trains" in " ".join(text.split())
    assert "costs here use `samples` of the scenario" in " ".join(text.split())
    assert "samples held by devices" not in text
    assert json.loads(fedfloor_command(*own, "--format", "json").stdout)["figures"]["samples"] is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("wrong_labels", r"assembly\.camera-1: labels must be integers from 0 to 9, got 100\.\."),
        ("no_samples", r"hall-5\.camera-3 holds no sample"),
        ("too_few", "has 3 devices, the scenario has 18"),
        ("wrong_shape", r"assembly\.camera-1: samples must be \(n, 1, 28, 28\)"),
        ("no_test_set", "the test set is empty"),
        ("nonsense", r"returned a int, must return \(\[\(samples, labels\)"),
        ("raising", r"your function raised OSError: the camera is off \(.*test_training\.py, line \d+\)"),
        ("broken_generator", r"your function raised ZeroDivisionError: .*test_training\.py, line \d+\)"),
        ("float_labels", "labels must be integers from 0 to 9, got float32"),
    ],
)
def test_wrong_data_of_ones_own_is_named(name: str, expected: str) -> None:
    with pytest.raises(DataError, match=expected):
        small_run(None, f'data.name="tests.runs.test_training:{name}"', rounds=1)


@pytest.mark.parametrize("preset", ["paper-cifar10", "paper-svhn"])
def test_real_data_is_trained_on(preset: str) -> None:
    folder = os.environ.get("FEDFLOOR_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("FEDFLOOR_DATA does not name a folder with CIFAR-10 and SVHN")
    few = ["model.width=0.1", "costs.width=1.0", "participation.rates=uniform", "training.evaluate_every=1000"]
    done = fedfloor.run(preset, "round_robin", rounds=2, overrides=few, workers=1)
    assert done.confusion is not None
    assert done.confusion.shape == (10, 10)
    assert np.isfinite(done.loss)


def test_a_model_that_does_not_fit_its_layer_list_is_named() -> None:
    layers = '[{name="a", kind="linear", input=[784], output=[16]}, {name="b", kind="linear", input=[16], output=[10]}]'
    with pytest.raises(fedfloor.FedfloorError, match=r"has 6 layers, but model\.layers lists 2"):
        small_run(None, f"model.layers={layers}", "baseline.cut=0", rounds=1)


def test_a_model_whose_shapes_are_listed_wrongly_is_named() -> None:
    layers = '[{name="a", kind="linear", input=[784], output=[17]}, {name="b", kind="linear", input=[17], output=[10]}]'
    with pytest.raises(fedfloor.FedfloorError, match=r"is listed as 'a', linear \[784\] -> \[17\], in model\.layers"):
        small_run(None, "model.name=mlp", f"model.layers={layers}", rounds=1)


def test_the_command_ends_in_a_sentence(fedfloor_command: Callable[..., Any], tmp_path: Path) -> None:
    arguments = [part for entry in SMALL for part in ("--set", entry)]
    done = fedfloor_command("run", "quick", "--policy", "random", "--rounds", "2", "--out", "run", *arguments)
    assert done.returncode == 0, done.stderr
    assert "after 2 rounds" in done.stdout
    assert "no sample left its floor." in done.stdout.splitlines()[-2]
    assert all(row in done.stdout for row in ("last accuracy", "best accuracy"))
    assert re.search(r"test accuracy \S+% \(1,000 samples; guessing: 10%\)", " ".join(done.stdout.split()))
    shutil.rmtree(tmp_path / "run")
