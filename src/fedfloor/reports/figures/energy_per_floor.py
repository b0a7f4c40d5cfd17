"""Where the energy of a floor's round goes."""

__all__ = ["FIGURE", "SPENDERS", "draw", "measure", "plot"]

from typing import TYPE_CHECKING

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.costs.compute import floor_sum
from fedfloor.costs.radio import upload_energy
from fedfloor.reports.arrays import RunArrays, SeriesArrays
from fedfloor.reports.drawing.figure import Figure, Panel
from fedfloor.reports.drawing.stacks import CAPTION, MISSING, Stacks, draw_stacks, plot_stacks
from fedfloor.reports.measures.splits import Split, split_of
from fedfloor.reports.palette import PART_COLOURS
from fedfloor.reports.results import Results
from fedfloor.reports.sections import WHERE

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

#: of a floor's energy
SPENDERS = ("devices", "gateway computing", "gateway transmitting")


def measure(series: SeriesArrays) -> Split:
    """Energy [J] of every floor by spender; a gateway that ran out counts as having transmitted first."""
    return split_of(series, SPENDERS, _energies)


def _energies(run: RunArrays) -> Floats:
    """Energy [J] of every floor by SPENDERS, (3, T, M); 0 where not selected."""
    floors = run.plant.gateways.count
    devices = np.stack([floor_sum(row, run.plant.devices.floor, floors) for row in np.nan_to_num(run.device_energy)])
    gateway = np.nan_to_num(run.energy)
    is_sent = np.isfinite(run.power) & np.isfinite(run.upload)
    transmitting = upload_energy(np.where(is_sent, run.power, 0.0), np.where(is_sent, run.upload, 0.0))
    transmitting = np.minimum(transmitting, gateway)
    return np.stack([devices, np.asarray(gateway - transmitting), np.asarray(transmitting)])


def _stacks(results: Results) -> Stacks:
    colours = PART_COLOURS[1:]  # those of device, gateway and upload
    return Stacks(results.measured(measure), quantity="energy", unit="J", colours=colours)


def draw(results: Results) -> "Drawing | None":
    """For papers."""
    return draw_stacks(_stacks(results))


def plot(results: Results) -> tuple[Panel, ...]:
    """For the page."""
    return plot_stacks(_stacks(results))


FIGURE = Figure(
    name="energy-per-floor",
    position=70,
    section=WHERE,
    title="Energy per floor",
    caption=CAPTION,
    missing=MISSING,
    draw=draw,
    plot=plot,
)
