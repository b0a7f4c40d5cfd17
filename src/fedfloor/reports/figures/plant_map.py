"""Map of floors and devices; the page's script draws it."""

__all__ = ["FIGURE", "PlantMap", "explore", "measure", "plot"]

import math
from dataclasses import dataclass

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.costs.plant import floor_of_devices
from fedfloor.reports.arrays import RunArrays
from fedfloor.reports.drawing.figure import Figure, Panel
from fedfloor.reports.drawing.plots import BY_SCRIPT
from fedfloor.reports.results import Results
from fedfloor.reports.sections import RUN
from fedfloor.scenario import Scenario

_RING = 8  #: devices up to which they form a circle around their gateway; more fill a disc


@dataclass(frozen=True, slots=True, eq=False)
class PlantMap:
    """Places [m] with the base station at (0, 0): distances are true, angles are not."""

    floors: tuple[str, ...]
    floor_xy: Floats  #: (M, 2)
    distance: Floats  #: (M,)
    devices: tuple[str, ...]
    device_xy: Floats  #: (N, 2)
    floor_of: Ints  #: (N,)


def measure(scenario: Scenario) -> PlantMap:
    """Floors at their true distance, evenly around the base station, and devices around their floor."""
    distance = np.array([floor.gateway.distance for floor in scenario.floors])
    angle = np.pi / 2 - 2.0 * np.pi * np.arange(distance.size) / distance.size  # from the top, clockwise
    floor_xy = distance[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    apart = 2.0 * distance.min() * math.sin(math.pi / max(distance.size, 2))
    reach = min(0.4 * apart, 0.2 * float(distance.max()))
    counts = [len(floor.devices) for floor in scenario.floors]
    floor_of = floor_of_devices(scenario.floors)
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
    """Places of a floor's devices in the unit disc, (count, 2): a circle, or a sunflower of many."""
    n = np.arange(count, dtype=float)
    ring = count <= _RING
    radius: Floats = np.ones(count) if ring else np.sqrt((n + 0.5) / count)
    step = 2.0 * math.pi / count if ring else math.pi * (3.0 - math.sqrt(5.0))
    angle: Floats = start + math.pi / 2.0 + n * step
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def explore(run: RunArrays, _: Ints) -> dict[str, object]:
    """The plant of a run, which is the same in all its rounds."""
    places = measure(run.run.scenario)
    reach = np.abs(np.concatenate([places.floor_xy, places.device_xy])).max()
    plant = {
        "floors": places.floors,
        "devices": places.devices,
        "of": places.floor_of,
        "fx": places.floor_xy[:, 0],
        "fy": places.floor_xy[:, 1],
        "dx": places.device_xy[:, 0],
        "dy": places.device_xy[:, 1],
        "distance": places.distance,
        "reach": float(reach),
    }
    return {"plant": plant}


def plot(_: Results) -> tuple[Panel, ...]:
    """For the page; its script knows the choices by their order."""
    return (Panel(None, choices=(("cuts of the whole run", BY_SCRIPT), ("cuts of the chosen round", BY_SCRIPT))),)


FIGURE = Figure(
    name="map",
    position=90,
    section=RUN,
    title="Map of floors and devices",
    caption="Distances of floors to the base station are true; directions, and the places of devices around their "
    "gateway, are not. The colour shows how many layers a device trains itself: its most frequent cut in the run, or "
    "its cut in the chosen round. A device that sent raw samples in any round that is shown is yellow or has a yellow "
    "rim. Lines and squares always show the chosen round.",
    wide=True,
    draw=None,
    plot=plot,
    explore=explore,
)
