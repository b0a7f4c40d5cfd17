"""Floors as SuperNodes: the same messages as over grpc, the same weights as a simulation, and mistakes that are said."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("flwr")

from flwr.app import Context, Message, RecordDict

import fedfloor
from fedfloor.deploy.coding import encode, pack
from fedfloor.deploy.messages import Order, Turn
from fedfloor.deploy.orders import expected_orders, order_message
from fedfloor.deploy.station import Station
from fedfloor.deploy.tasks import floor_tasks
from fedfloor.errors import DeploymentError
from fedfloor.flower.floors import FloorsConfig, GridFloors, client_app_for, run_over, server_app_for
from fedfloor.rounds.listeners.checkpoint import load_checkpoint
from fedfloor.runs.planned import planned_run
from fedfloor.training.network.built import Inputs
from tests.conftest import known
from tests.deploy.floors import INPUTS, Loop
from tests.flower.fleet import fleet

PLANT = (
    "radio.channels=2",
    "floors.0.devices.0.count=2",
    "floors.1.count=1",
    "floors.1.devices.0.count=2",
    "training.min_cut=1",
    "training.evaluate_every=1",
    "baseline.cut=2",
    "participation.rates=uniform",
    "participation.simulated_rates=uniform",
    "limits=false",
)


def config(*more: str, **keys: Any) -> dict[str, Any]:
    """Configuration of an app for a plant of two floors."""
    return {"scenario": "quick", "set": "; ".join([*PLANT, *more]), "inputs": "scenario", "wait": 20.0} | keys


def weights_of(folder: Path) -> dict[str, npt.NDArray[np.generic]]:
    return dict(known(load_checkpoint(folder)).state.weights)


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("precision.upload=8", "precision.download=16", "precision.boundary=16"),
        ("participation.rates=estimated", "participation.estimate_every=2", "deploy.allow_gradients=true"),
    ],
    ids=["whole", "rounded", "estimated"],
)
def test_a_run_over_flower_is_that_of_a_simulation(tmp_path: Path, more: tuple[str, ...]) -> None:
    keys = config(*more, policy="ddsra", rounds=3)
    with fleet(client_app_for(keys), 2) as grid:
        done = run_over(grid, FloorsConfig.of(keys, {"out": str(tmp_path / "flower")}))
    alone = fedfloor.run("quick", "ddsra", 3, overrides=[*PLANT, *more], out=tmp_path / "alone", workers=1)
    exact = "participation.rates=estimated" not in more
    for ours, theirs in zip(done.records, alone.records, strict=True):
        assert [gateway.channel for gateway in ours.gateways] == [gateway.channel for gateway in theirs.gateways]
        assert [gateway.completed for gateway in ours.gateways] == [gateway.completed for gateway in theirs.gateways]
        for one, other in zip(ours.gateways, theirs.gateways, strict=True):
            assert one.queue == pytest.approx(other.queue, rel=0.0 if exact else 1e-4, abs=0.0)
        assert ours.clock == pytest.approx(theirs.clock, rel=0.0 if exact else 1e-4, abs=0.0)
    ours, theirs = weights_of(tmp_path / "flower"), weights_of(tmp_path / "alone")
    assert ours.keys() == theirs.keys()
    assert len(ours) > 0
    for name, tensor in ours.items():
        assert np.abs(tensor.astype(float) - theirs[name]).max() <= 1e-5
    assert any(entry.completed for record in done.records for entry in record.gateways)
