"""Floors as SuperNodes in the simulation runtime, with Ray: the same run as `fedfloor run`."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("ray")

import fedfloor
from fedfloor.rounds.listeners.checkpoint import load_checkpoint
from fedfloor.runs.folder import read_records
from tests.conftest import known
from tests.flower.superlinks import environment

SET = (
    "training.min_cut=1",
    "participation.rates=uniform",
    "participation.simulated_rates=uniform",
    "baseline.cut=1",
)
PROGRAM = """
import sys
from flwr.simulation import run_simulation
from fedfloor.flower.floors.client import client_app_for
from fedfloor.flower.floors.server import server_app_for
keys = {"set": sys.argv[1], "rounds": 10, "out": sys.argv[2], "inputs": "scenario", "patience": 300.0}
ray = {"num_cpus": 2, "include_dashboard": False, "log_to_driver": False}
resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0}, "init_args": ray}
run_simulation(server_app_for(keys), client_app_for(keys), num_supernodes=6, backend_config=resources)
"""


@pytest.mark.slow
def test_six_floors_in_the_simulation_runtime_are_those_of_a_run(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, "; ".join(SET), str(tmp_path / "flower")]
    done = subprocess.run(
        command, env=environment(tmp_path / "home"), cwd=tmp_path, capture_output=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    alone = fedfloor.run("quick", rounds=10, overrides=SET, out=tmp_path / "alone", workers=1)
    over_flower = read_records(tmp_path / "flower")
    assert len(over_flower) == 10
    for ours, theirs in zip(over_flower, alone.records, strict=True):
        assert ours.clock == theirs.clock
        for one, other in zip(ours.gateways, theirs.gateways, strict=True):
            assert (one.channel, one.completed, one.queue) == (other.channel, other.completed, other.queue)
            cuts = [[device.cut for device in gateway.devices] for gateway in (one, other)]
            assert cuts[0] == cuts[1]
    weights = known(load_checkpoint(tmp_path / "flower")).state.weights
    others = known(load_checkpoint(tmp_path / "alone")).state.weights
    assert weights.keys() == others.keys()
    assert max(float(np.abs(weights[name].astype(float) - others[name]).max()) for name in weights) <= 1e-5
