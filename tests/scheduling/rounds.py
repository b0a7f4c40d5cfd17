"""Rounds made by hand: one device per floor trains the whole network in a given time, and transfers take no time."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedfloor.costs.plant import Band, Devices, Gateways, PlantArrays, Workload
from fedfloor.scenario.file import Baseline
from fedfloor.scheduling.history import HistoryBuilder, RoundResult
from fedfloor.scheduling.state import RoundState
from fedfloor.weather.draws import Weather


def made_round(delays: Sequence[float], channels: int, *, data: Sequence[int] = (), **fields: Any) -> RoundState:
    """A round in which floor m takes delays[m] seconds on any channel; `data` are the batches of the floors."""
    floors = len(delays)
    batch = np.array(data or [10] * floors, float)
    links = np.ones((floors, channels))
    state: dict[str, Any] = {
        "index": 0,
        "seed": 1,
        "plant": PlantArrays(
            workload=Workload.from_layers(
                np.array([1.0]), np.array([0.0]), np.array([0.0]), local_iterations=1, model_bits=1e-9, min_cut=0
            ),
            band=Band(1e6, 1e6, 4e-21, 1.0),
            gateways=Gateways(
                names=tuple(f"g{m}" for m in range(floors)),
                flops_per_cycle=np.ones(floors),
                switched_capacitance=np.full(floors, 1e-27),
                min_frequency=np.zeros(floors),
                max_frequency=np.full(floors, 1e9),
                memory_bytes=np.full(floors, 1e9),
                max_power=np.full(floors, 0.2),
            ),
            devices=Devices(
                names=tuple(f"d{m}" for m in range(floors)),
                floor=np.arange(floors),
                batch=batch,
                flops_per_cycle=np.ones(floors),
                switched_capacitance=np.full(floors, 1e-27),
                frequency=batch / np.array(delays, float),
                memory_bytes=np.full(floors, 1e9),
            ),
        ),
        "weather": Weather(
            uplink_gain=links,
            downlink_gain=links,
            uplink_interference=0.0 * links,
            downlink_interference=0.0 * links,
            gateway_energy=np.full(floors, 1e9),
            device_energy=np.full(floors, 1e9),
        ),
        "queue": np.zeros(floors),
        "target_rate": np.full(floors, 0.5),
        "last_loss": np.full(floors, np.nan),
        "baseline": Baseline(cut=1, frequency_share=1.0),
    }
    return RoundState(**{**state, **fields})


def past(floors: int, *rounds: dict[int, dict[str, float]]) -> HistoryBuilder:
    """The history of rounds, each with the floors that were selected: `{floor: {"delay": 2.0, "failed": 1}}`."""
    builder = HistoryBuilder(floors)
    for entries in rounds:
        numbers = {
            name: np.array([entries.get(m, {}).get(name, missing) for m in range(floors)])
            for name, missing in (("delay", 0.0), ("loss", np.nan), ("rms_loss", np.nan), ("energy", 0.0))
        }
        selected = np.array([m in entries for m in range(floors)])
        failed = np.array([bool(entries.get(m, {}).get("failed", 0)) for m in range(floors)])
        builder.add(RoundResult(selected=selected, completed=selected & ~failed, **numbers))
    return builder
