"""Plants of real processes on this machine, over mutual TLS: what they learn, what they log, and what they survive."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import fedfloor
from fedfloor.reports.beside import holding_from
from fedfloor.rounds.listeners.checkpoint import load_checkpoint
from fedfloor.runs.folder import read_records
from tests.conftest import known
from tests.deploy.plants import distance, fields_of, one_floor, settings, simulated

ROUNDS = 3


def deployed(folder: Path, *more: str, file: Path | None = None, resume: bool = False) -> None:
    """Run the small plant as processes, or that of a file."""
    plant = ["quick", *settings(*more)] if file is None else [str(file)]
    arguments = [*plant, "--policy", "random", "--rounds", str(ROUNDS), "--together", "--workers", "1"]
    command = [sys.executable, "-m", "fedfloor", "local-plant", *arguments, "--out", str(folder)]
    command += ["--resume"] if resume else []
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert "3 rounds, test accuracy" in done.stdout


def compared(folder: Path, more: tuple[str, ...] = (), file: Path | None = None) -> None:
    """Compare a run of processes with the simulator's."""
    weights, records = simulated(folder, ROUNDS, more, file=file)
    state = known(load_checkpoint(folder)).state
    for name, tensor in weights.items():
        assert distance(state.weights[name], tensor) < 1e-5, name
    log = fedfloor.read(folder)
    assert log["accuracy"] == pytest.approx([record.accuracy for record in records], abs=2e-3)
    for mine, other in zip(read_records(folder, ROUNDS), records, strict=True):
        assert fields_of(mine) >= fields_of(other)
        assert [gateway.channel for gateway in mine.gateways] == [gateway.channel for gateway in other.gateways]
        assert all(gateway.completed and known(gateway.train_s) > 0.0 for gateway in mine.gateways)
        assert all(isinstance(gateway.predicted_s, float) for gateway in mine.gateways)


def test_processes_of_one_floor_learn_what_the_simulator_learns(tmp_path: Path) -> None:
    file = one_floor(tmp_path)
    deployed(tmp_path / "run", file=file)
    compared(tmp_path / "run", file=file)


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        pytest.param((), id="32 bits"),
        pytest.param(("precision.upload=8", "precision.boundary=8"), id="8 bits"),
        pytest.param(
            (
                "aggregation.rule=fedavgm",
                "aggregation.settings={momentum=0.5}",
                "aggregation.weights=fedau",
                "aggregation.averaged_decay=0.5",
                "training.momentum=0.5",
                "training.schedule=step",
                "training.schedule_rounds=1",
                "training.extra_iterations=2",
            ),
            id="levers",
        ),
        pytest.param(("precision.download=16", "baseline.cut=6"), id="whole network"),
        pytest.param(("training.min_cut=0", "baseline.cut=0", "deploy.allow_samples=true"), id="samples"),
    ],
)
def test_real_processes_learn_what_the_simulator_learns(more: tuple[str, ...], tmp_path: Path) -> None:
    deployed(tmp_path / "run", *more)
    compared(tmp_path / "run", more)


@pytest.mark.slow
def test_real_processes_estimate_the_rates_that_the_simulator_estimates(tmp_path: Path) -> None:
    more = ("participation.rates=estimated", "participation.estimate_every=2", "deploy.allow_gradients=true")
    deployed(tmp_path / "run", *more, "deploy.allow_class_counts=true")
    weights, records = simulated(tmp_path / "run", ROUNDS, more)
    first, *_ = read_records(tmp_path / "run", ROUNDS)
    for mine, other in zip(first.gateways, records[0].gateways, strict=True):  # both at the first weights
        assert mine.target_rate == pytest.approx(other.target_rate, rel=1e-5)
        assert mine.divergence_bound == pytest.approx(other.divergence_bound, rel=1e-5)
    state = known(load_checkpoint(tmp_path / "run")).state
    for name, tensor in weights.items():
        assert distance(state.weights[name], tensor) < 1e-5, name
    held = known(holding_from(tmp_path / "run" / "holding.json")).devices
    machines = json.loads((tmp_path / "run" / "machines.json").read_text())
    assert [device.name for device in held] == list(machines["devices"])
    assert len(machines["gateways"]) == 2
    assert all(sum(device.classes) == machines["devices"][device.name]["samples"] > 0 for device in held)
