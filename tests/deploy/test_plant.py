"""Plants of real processes on this machine, over mutual TLS: what they learn, what they log, and what they survive."""

import subprocess
import sys
from pathlib import Path

import pytest

import fedfloor
from fedfloor.rounds.listeners.checkpoint import load_checkpoint
from fedfloor.runs.folder import read_records
from tests.conftest import known
from tests.deploy.plants import distance, fields_of, settings, simulated

ROUNDS = 3


def deployed(folder: Path, *more: str) -> None:
    """Run the small plant as processes."""
    arguments = ["local-plant", "quick", "--policy", "random", "--rounds", str(ROUNDS), "--together", "--workers", "1"]
    command = [sys.executable, "-m", "fedfloor", *arguments, "--out", str(folder), *settings(*more)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "3 rounds, test accuracy" in done.stdout


@pytest.mark.parametrize(
    "more",
    [
        pytest.param((), id="32 bits"),
        pytest.param(("precision.upload=8", "precision.boundary=8"), id="8 bits", marks=pytest.mark.slow),
        pytest.param(("precision.download=16", "baseline.cut=6"), id="whole network", marks=pytest.mark.slow),
        pytest.param(
            ("training.min_cut=0", "baseline.cut=0", "deploy.allow_samples=true"), id="samples", marks=pytest.mark.slow
        ),
    ],
)
def test_real_processes_learn_what_the_simulator_learns(more: tuple[str, ...], tmp_path: Path) -> None:
    deployed(tmp_path / "run", *more)
    weights, records = simulated(tmp_path / "run", ROUNDS, more)
    state = known(load_checkpoint(tmp_path / "run")).state
    for name, tensor in weights.items():
        assert distance(state.weights[name], tensor) < 1e-5, name
    log = fedfloor.read(tmp_path / "run")
    assert log["accuracy"] == pytest.approx([record.accuracy for record in records], abs=2e-3)
    for mine, other in zip(read_records(tmp_path / "run", ROUNDS), records, strict=True):
        assert fields_of(mine) >= fields_of(other)
        assert [gateway.channel for gateway in mine.gateways] == [gateway.channel for gateway in other.gateways]
        assert all(gateway.completed and known(gateway.train_s) > 0.0 for gateway in mine.gateways)
        assert all(isinstance(gateway.predicted_s, float) for gateway in mine.gateways)
