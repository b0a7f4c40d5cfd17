"""A plant of two floors with two devices each, for tests of floors that are SuperNodes."""

import time
from typing import Any

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedfloor.deploy.tasks import FloorTask, floor_tasks
from fedfloor.flower.floors.grid import GridFloors
from fedfloor.rounds.plants.backhaul import FloorOrder, Parts
from fedfloor.runs.planned import planned_run
from fedfloor.training.network.built import BuiltNetwork

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


def plant(*more: str) -> tuple[tuple[FloorTask, ...], BuiltNetwork]:
    scenario = planned_run("quick", "random", 1, overrides=[*PLANT, *more], training=True).scenario
    return floor_tasks(scenario), BuiltNetwork(scenario.model, scenario.seed)


def an_order(task: FloorTask, deadline: float = 60.0) -> FloorOrder:
    count = len(task.devices)
    parts = Parts(0.25, 1.5, 0.125)
    return FloorOrder(task.number, 0, 0.1, np.arange(1, count + 1), np.full(count, 1e9), parts, 1e6, 2e6, deadline, 3)


def told(real: ClientApp, **node_config: str) -> ClientApp:
    """The app of SuperNodes that were started with this --node-config."""
    return told_each(real, *(8 * [node_config]))


def told_each(real: ClientApp, *node_configs: dict[str, str]) -> ClientApp:
    """The app of SuperNodes, of which each was started with a --node-config of its own."""
    app = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        context.node_config.update(node_configs[int(context.node_config["partition-id"])])
        return real(message, context)

    app.query("hello")(answer)
    app.query("sums")(answer)
    return app


def meet(floors: GridFloors, count: int) -> None:
    """Look for SuperNodes until so many floors are there."""
    end = time.monotonic() + 60.0
    while len(floors._nodes) < count:
        assert time.monotonic() < end
        floors._meet()
        time.sleep(0.02)
