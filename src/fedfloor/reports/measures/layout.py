"""Where floors and devices stand, and which data they hold."""

__all__ = ["DataHeld", "PlantMap", "data_held", "plant_map"]

import math
from dataclasses import dataclass

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.reports.arrays import RunArrays
from fedfloor.scenario import Scenario

_RING = 8  #: devices that stand in one circle around their gateway; more fill a disc


@dataclass(frozen=True, slots=True, eq=False)
class DataHeld:
    """Who holds which data."""

    devices: tuple[str, ...]
    floors: tuple[str, ...]  #: of each device
    counts: Ints  #: (N, C) samples of each class


@dataclass(frozen=True, slots=True, eq=False)
class PlantMap:
    """Where things stand [m], the base station at (0, 0): true distances, angles made up."""

    floors: tuple[str, ...]
    floor_xy: Floats  #: (M, 2)
    distance: Floats  #: (M,)
    devices: tuple[str, ...]
    device_xy: Floats  #: (N, 2)
    floor_of: Ints  #: (N,)


def data_held(run: RunArrays) -> DataHeld | None:
    """Samples per device and class; None without training."""
    if not run.run.holding:
        return None
    return DataHeld(
        devices=tuple(device.name for device in run.run.holding),
        floors=tuple(device.floor for device in run.run.holding),
        counts=np.array([device.classes for device in run.run.holding], dtype=np.int64),
    )


def plant_map(scenario: Scenario) -> PlantMap:
    """Floors at their true distance, evenly around the base station; devices around their floor."""
    distance = np.array([floor.gateway.distance for floor in scenario.floors])
    angle = np.pi / 2 - 2.0 * np.pi * np.arange(distance.size) / distance.size  # from the top, clockwise
    floor_xy = distance[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    apart = 2.0 * distance.min() * math.sin(math.pi / max(distance.size, 2))
    reach = min(0.4 * apart, 0.2 * float(distance.max()))
    counts = [len(floor.devices) for floor in scenario.floors]
    floor_of = np.repeat(np.arange(distance.size), counts)
    around = np.concatenate([_around(count, start) for count, start in zip(counts, angle.tolist(), strict=True)])
    return PlantMap(
        floors=tuple(floor.name for floor in scenario.floors),
        floor_xy=floor_xy,
        distance=distance,
        devices=tuple(device.name for device in scenario.devices),
        device_xy=floor_xy[floor_of] + reach * around,
        floor_of=floor_of,
    )


def _around(count: int, start: float) -> Floats:
    """Places of a floor's devices in the unit disc, (count, 2): a circle, or a sunflower of many; the first aside."""
    n = np.arange(count, dtype=float)
    ring = count <= _RING
    radius: Floats = np.ones(count) if ring else np.sqrt((n + 0.5) / count)
    angle: Floats = start + math.pi / 2.0 + n * (2.0 * math.pi / count if ring else math.pi * (3.0 - math.sqrt(5.0)))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
