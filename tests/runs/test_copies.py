"""Run folders of plants with hardware profiles: they contain what their costs follow from."""

import json
from pathlib import Path
from typing import Any

import pytest

import fedfloor
from fedfloor.api import evaluate
from fedfloor.costs.hardware import profile_text
from fedfloor.errors import ProfileError, RunLogError
from fedfloor.runs.folder import claimed
from fedfloor.runs.mirror import Mirror, write_changes
from fedfloor.scenario.profiles import copy_name
from tests.conftest import Table
from tests.costs.profiles import profile_of
from tests.costs.test_measured import Write, with_profiles
from tests.runs.small import small_run


def slower(path: Path, factor: float = 3.0) -> None:
    """Multiply all times of a profile."""
    raw = json.loads(path.read_text())
    for entry in raw["layers"]:
        for timing in entry["timings"]:
            for key in ("forward_s", "backward_s"):
                timing[key] *= factor
    path.write_text(json.dumps(raw))


@pytest.fixture
def simulated(table: Table, write: Write, tmp_path: Path) -> Path:
    """A simulated run of a plant whose first device and first gateway are measured."""
    run = tmp_path / "run"
    fedfloor.simulate(with_profiles(table, write, profile_of(), profile_of(step=1e-4)), "ddsra:v=10", 2, out=run)
    return run


def logged_delay(run: Path, index: int) -> float:
    return float(json.loads((run / "rounds.jsonl").read_text().splitlines()[index])["delay_s"])


def test_a_run_folder_contains_its_profiles_and_names_no_other_file(simulated: Path, tmp_path: Path) -> None:
    assert len(list((simulated / "profiles").iterdir())) == 2
    assert str(tmp_path) not in (simulated / "scenario.toml").read_text()


@pytest.mark.parametrize("change", [slower, Path.unlink], ids=["changed", "removed"])
def test_rounds_are_decided_again_and_reported_from_the_copies(simulated: Path, tmp_path: Path, change: Any) -> None:
    for name in ("device.json", "gateway.json"):
        change(tmp_path / name)
    moved = simulated.rename(tmp_path / "elsewhere")
    assert fedfloor.plan(moved, round=1)["delay_s"] == logged_delay(moved, 1)
    assert fedfloor.report(moved, out=tmp_path / "report").page.is_file()
    fedfloor.simulate(moved / "scenario.toml", "ddsra:v=10", 2, out=tmp_path / "again")
    assert (tmp_path / "again" / "rounds.jsonl").read_bytes() == (moved / "rounds.jsonl").read_bytes()


def test_a_copy_that_was_changed_is_refused(simulated: Path) -> None:
    (copy, *_) = sorted((simulated / "profiles").iterdir())
    slower(copy)
    with pytest.raises(ProfileError, match=rf"{copy.name}: was changed since the run wrote it.*Restore the file"):
        fedfloor.plan(simulated, round=1)


def test_a_run_that_never_began_leaves_no_copies(tmp_path: Path) -> None:
    text = profile_text(profile_of())
    with claimed(tmp_path / "run") as folder:
        folder.begin("rounds = 1", copies={copy_name(text): text.encode()})
        assert (tmp_path / "run" / copy_name(text)).read_text() == text
    assert not (tmp_path / "run" / "profiles").exists()


def test_a_mirrored_folder_has_the_copies_too(simulated: Path, tmp_path: Path) -> None:
    write_changes(tmp_path / "mirror", Mirror(simulated).changes())
    assert fedfloor.plan(tmp_path / "mirror", round=1)["delay_s"] == logged_delay(simulated, 1)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A profile of the network of `quick`."""
    layers = fedfloor.load("quick").layers
    path = tmp_path / "machine.json"
    path.write_text(profile_text(profile_of(layers, rates=("conv", "linear", "max_pooling"))))
    return path


def test_training_goes_on_only_with_the_profile_it_began_with(machine: Path, tmp_path: Path) -> None:
    run, setting = tmp_path / "run", f"floors.0.gateway.profile={machine}"
    small_run(run, setting, rounds=2)
    log, original = (run / "rounds.jsonl").read_bytes(), machine.read_bytes()
    slower(machine)
    with pytest.raises(RunLogError, match=r"changed scenario: floors\[0\]\.gateway\.profile .*Restore the hardware pr"):
        small_run(run, setting, rounds=4, resume=True)
    assert (run / "rounds.jsonl").read_bytes() == log
    machine.unlink()
    assert 0.0 <= (evaluate(run)["accuracy"] or 0.0) <= 1.0
    machine.write_bytes(original)
    (copy,) = (run / "profiles").iterdir()
    slower(copy)
    with pytest.raises(ProfileError, match=f"{copy.name}: was changed since the run wrote it"):
        small_run(run, setting, rounds=4, resume=True)
    copy.unlink()
    assert small_run(run, setting, rounds=4, resume=True).resumed == 2
    assert copy.is_file()
