"""Runs that were interrupted: what is left of them, and going on from there."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.api import what_is_left
from fedfloor.errors import RunLogError
from fedfloor.rounds.listeners.checkpoint import signed
from tests.conftest import Table
from tests.runs.small import SMALL, assert_equal_runs, small_run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    small_run(folder, rounds=2)
    return folder


@pytest.mark.slow
def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    small_run(tmp_path / "whole")
    small_run(tmp_path / "parts", rounds=3)
    small_run(tmp_path / "parts", rounds=5, resume=True)
    with (tmp_path / "parts" / "rounds.jsonl").open("a") as log:
        log.write('{"round": 5, "pol')  # torn by a crash
    done = small_run(tmp_path / "parts", resume=True)
    assert done.resumed == 5
    assert len(done.records) == 6
    assert_equal_runs(tmp_path / "whole", tmp_path / "parts")
    assert small_run(tmp_path / "parts", resume=True).records == done.records  # nothing is left to do


@pytest.mark.slow
def test_a_battery_and_loss_driven_choices_survive_a_resume(tmp_path: Path) -> None:
    battery = ("battery.gateway_capacity_j=1.0", "battery.device_capacity_j=0.1")
    small_run(tmp_path / "whole", *battery, policy="loss_driven")
    small_run(tmp_path / "parts", *battery, policy="loss_driven", rounds=3)
    small_run(tmp_path / "parts", *battery, policy="loss_driven", resume=True)
    assert_equal_runs(tmp_path / "whole", tmp_path / "parts")


def test_rates_of_updates_survive_a_resume(tmp_path: Path) -> None:
    settings = ("participation.rates=updates", "precision.upload=8")
    whole = small_run(tmp_path / "whole", *settings, policy="round_robin")
    small_run(tmp_path / "parts", *settings, policy="round_robin", rounds=3)
    small_run(tmp_path / "parts", *settings, policy="round_robin", resume=True)
    assert_equal_runs(tmp_path / "whole", tmp_path / "parts")
    rates = [{gateway.target_rate for gateway in record.gateways} for record in whole.records]
    assert [len(different) > 1 for different in rates] == [False, False, True, True, True, True]
    for record in whole.records:  # J = 3 channels are shared out
        assert sum(gateway.target_rate for gateway in record.gateways) <= 3.0 + 1e-9


@pytest.mark.parametrize(
    ("participation", "theorems"),
    [
        ({"rates": "uniform"}, ["Theorem 2"]),  # rates that the run meets in enough rounds for a bound
        pytest.param(
            {"rates": "estimated", "estimate_every": 6, "observe_every": 5},
            ["Theorem 1", "Theorem 4"],
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda part: part["rates"] if isinstance(part, dict) else "",
)
def test_the_theorems_say_the_same_of_a_run_however_often_it_was_resumed(
    participation: Table, theorems: list[str], table: Table, write: Callable[[Table], Path], tmp_path: Path
) -> None:
    del table["model"]["layers"]
    table["radio"]["channels"] = 1
    table |= {"participation": participation, "training": {"checkpoint_every": 4, "evaluate_every": 1}}
    plant = write(table)

    def bounds(name: str, rounds: int, **options: Any) -> bytes:
        fedfloor.run(plant, "ddsra:v=1", rounds=rounds, out=tmp_path / name, workers=1, **options)
        return (tmp_path / name / "bounds.json").read_bytes()

    whole = bounds("whole", 16)
    numbers = [entry["theorem"] for entry in json.loads(whole) if entry["bound"] is not None]
    assert set(theorems) <= set(numbers)
    assert bounds("parts", 7) != whole
    assert bounds("parts", 16, resume=True) == whole
    assert bounds("parts", 16, resume=True) == whole, "nothing was left to do"


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("precision.upload=8", "precision.boundary=8", "baseline.cut=2")], ids=str)
def test_killed_at_any_moment_a_run_can_be_resumed(more: tuple[str, ...], tmp_path: Path) -> None:
    arguments = ["run", "quick", "--policy", "random", "--workers", "2", "--quiet"]
    arguments += [part for entry in (*SMALL, *more) for part in ("--set", entry)]
    command = [sys.executable, "-m", "fedfloor", *arguments]
    small_run(tmp_path / "whole", *more)
    seed = int(time.time())  # other moments every time
    print("moments from seed", seed)
    rng = np.random.default_rng(seed)
    for _ in range(4):
        process = subprocess.Popen([*command, "--out", str(tmp_path / "killed"), "--resume"], cwd=tmp_path)
        time.sleep(rng.uniform(1.0, 9.0))
        process.kill()
        process.wait()
    subprocess.run([*command, "--out", str(tmp_path / "killed"), "--resume"], cwd=tmp_path, check=True)
    assert_equal_runs(tmp_path / "whole", tmp_path / "killed")


def test_a_changed_scenario_is_not_resumed(tmp_path: Path) -> None:
    small_run(tmp_path / "run", rounds=2)
    with pytest.raises(RunLogError, match=r"training\.learning_rate \(0\.05 -> 0\.1\)"):
        small_run(tmp_path / "run", "training.learning_rate=0.1", resume=True)
    with pytest.raises(RunLogError, match=r"policy\.name \('random' -> 'round_robin'\)"):
        small_run(tmp_path / "run", policy="round_robin", resume=True)
    with pytest.raises(RunLogError, match="is not empty"):
        small_run(tmp_path / "run")


def test_fewer_rounds_than_have_been_run_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    small_run(folder, "participation.rates=uniform", rounds=4)
    before = (folder / "scenario.toml").read_text()
    with pytest.raises(RunLogError, match=r"4 rounds, but only 2 are asked for\. Ask for at least 4 rounds"):
        small_run(folder, "participation.rates=uniform", rounds=2, resume=True)
    assert (folder / "scenario.toml").read_text() == before
    assert len(small_run(folder, "participation.rates=uniform", rounds=4, resume=True).records) == 4
    assert len(small_run(folder, "participation.rates=uniform", rounds=5, resume=True).records) == 5


def test_damaged_checkpoints_are_named(tmp_path: Path) -> None:
    small_run(tmp_path / "run", rounds=2)
    folder = tmp_path / "run" / "checkpoint"
    (weights,) = folder.glob("*.safetensors")
    content = weights.read_bytes()
    weights.write_bytes(content[:100])
    with pytest.raises(RunLogError, match=r"weights-000002\.safetensors: is damaged"):
        small_run(tmp_path / "run", resume=True)
    weights.unlink()
    with pytest.raises(RunLogError, match=r"\.safetensors: is missing"):
        small_run(tmp_path / "run", resume=True)
    weights.write_bytes(content)
    (tmp_path / "run" / "rounds.jsonl").write_text("")
    with pytest.raises(
        RunLogError, match=r"state\.json: was taken after 2 rounds, but rounds\.jsonl has 0 whole lines"
    ):
        small_run(tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("queue", [1.0], "does not fit the scenario: queue must be 6 numbers >= 0"),
        ("target_rate", [-1.0] * 6, "does not fit the scenario: target_rate must be 6 numbers >= 0"),
        ("device_level_j", ["x"] * 18, "does not fit the scenario: device_level_j must be 18 numbers >= 0"),
        ("last_loss", None, "does not fit the scenario: last_loss must be 6 numbers >= 0"),
        ("inputs", {"mean": {}, "deviation": [1.0]}, r"does not fit the scenario: inputs\.mean must be 1 numbers"),
        (
            "weights",
            "../../elsewhere.safetensors",
            "is damaged: weights and round do not match: got .*elsewhere",
        ),
        ("round", 1, "is damaged: weights and round do not match: got 'weights-000002.safetensors' and 1"),
        ("clock_s", -1.0, "is damaged: clock_s: must be a number >= 0, got -1.0"),
        ("version", 7, "version must be 2, got 7"),
        ("figures", {"sigma": [1.0]}, "does not fit the scenario: sigma must be 18 numbers >= 0"),
        ("figures", [], "does not fit the scenario: figures must be a table or null"),
        ("gradient_square", "x", "does not fit the scenario: gradient_square must be a number or null"),
        ("gradient_square", 10**400, "does not fit the scenario: "),
        ("clock_s", 10**400, "is damaged: "),
    ],
)
def test_an_edited_checkpoint_is_not_resumed_and_its_folder_stays_as_it_is(
    key: str, value: Any, expected: str, finished: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished, tmp_path / "run")
    path = tmp_path / "run" / "checkpoint" / "state.json"
    path.write_bytes(signed({**json.loads(path.read_text()), key: value}))
    before = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}
    with pytest.raises(RunLogError, match=rf"run/checkpoint/state\.json: {expected}"):
        small_run(tmp_path / "run", resume=True)
    assert {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()} == before


def test_what_no_training_run_left_is_not_resumed(tmp_path: Path) -> None:
    fedfloor.simulate("quick", "random", rounds=3, out=tmp_path / "run")
    log = (tmp_path / "run" / "rounds.jsonl").read_text()
    with pytest.raises(RunLogError):
        small_run(tmp_path / "run", resume=True)
    with pytest.raises(RunLogError, match="is not empty"):
        fedfloor.run(tmp_path / "run" / "scenario.toml", out=tmp_path / "run", resume=True, workers=1)
    assert (tmp_path / "run" / "rounds.jsonl").read_text() == log


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_says_in_a_line_what_is_left_whatever_its_processes_did(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "fedfloor", "run", "quick", "--policy", "random", "--workers", "2", "--out", "run"]
    command += ["--set", "training.checkpoint_every=1", "--set", "participation.rates=uniform"]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            stderr=said,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  # ignored in the background
        )
        for _ in range(2400):  # until it trains
            if (tmp_path / "run" / "checkpoint" / "state.json").exists():
                break
            time.sleep(0.1)
        os.killpg(process.pid, number)
        assert process.wait(60) == code
    *rounds, last = (tmp_path / "said").read_text().splitlines()
    assert all(re.match(r"random: \d+ of 60 rounds done, accuracy |reading ", line) for line in rounds)
    found = re.fullmatch(
        r"interrupted: stopped after (\d+) rounds?; the checkpoint in run has (\d+) of them. "
        r"Resume with the same command and --resume",
        last,
    )
    assert found is not None, last
    assert int(found[1]) >= int(found[2]) >= 1


@pytest.mark.parametrize(
    ("done", "kept", "expected"),
    [
        (7, 5, "stopped after 7 rounds; the checkpoint in .* has 5 of them"),
        (0, 5, "stopped after 5 rounds; the checkpoint in .* has 5 of them"),
        (3, None, "stopped after 3 rounds, with no checkpoint in"),
        (0, None, "stopped before the first round ended"),
    ],
)
def test_what_is_left_of_a_stopped_run_is_told(done: int, kept: int | None, expected: str, tmp_path: Path) -> None:
    if kept is not None:
        (tmp_path / "checkpoint").mkdir()
        (tmp_path / "checkpoint" / "state.json").write_text(
            json.dumps({"round": kept, "weights": f"weights-{kept:06d}.safetensors"})
        )
    assert re.match(expected, what_is_left(tmp_path, done))


def test_a_filled_folder_of_a_training_run_can_be_gone_on_with(finished: Path) -> None:
    with pytest.raises(RunLogError, match=r"is not empty: it holds a training run\. Resume it with --resume"):
        small_run(finished)


@pytest.mark.slow
def test_going_on_is_told_of_first(finished: Path, tmp_path: Path, fedfloor_command: Callable[..., Any]) -> None:
    shutil.copytree(finished, tmp_path / "run")
    few = [part for entry in SMALL for part in ("--set", entry)]
    arguments = ["run", "quick", "--policy", "random", "--workers", "1", *few, "--rounds", "2", "--resume"]
    done = fedfloor_command(*arguments, "--out", "run")
    assert done.stderr.splitlines()[-1] == "resuming after 2 of 2 rounds"  # after a slow start it tells what it reads
    assert "(resumed after 2)" in " ".join(done.stdout.split())
    assert "time to decide" in done.stdout
    assert re.search(r"time to decide +- ", done.stdout)
    assert done.stdout.splitlines()[-1] == "log: run"
    anew = fedfloor_command(*arguments, "--out", "other")
    first, *_, last = (line for line in anew.stderr.splitlines() if not line.startswith("reading "))
    assert first == "other: nothing to resume; starting a new run"
    assert re.fullmatch(r"random: 2 of 2 rounds done, accuracy \S+%, training loss \S+, clock \S+ s", last)
    assert fedfloor_command(*arguments, "--out", "run", "--quiet").stderr == ""


def test_the_end_of_a_run_is_tested_in_every_round_and_more_rounds_keep_those_tests(tmp_path: Path) -> None:
    seldom = ("training.evaluate_every=100",)
    first = small_run(tmp_path / "run", *seldom, rounds=10)
    assert [record.accuracy is not None for record in first.records] == [False] * 8 + [True] * 2
    more = small_run(tmp_path / "run", *seldom, rounds=15, resume=True)
    assert [record.round for record in more.records if record.accuracy is not None] == [8, 9, 12, 13, 14]
