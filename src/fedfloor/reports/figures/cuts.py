"""Where the network of every device is cut, round by round; on the page its script draws it."""

__all__ = ["FIGURE", "Cuts", "draw", "explore", "measure", "plot"]

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.reports.arrays import RunArrays
from fedfloor.reports.drawing.figure import Figure, Panel, panels_of
from fedfloor.reports.drawing.paper import colour_bar, legend_name, name_devices, one_panel
from fedfloor.reports.drawing.plots import BY_SCRIPT, ROWS
from fedfloor.reports.measures.seeds import mean_over_runs
from fedfloor.reports.results import Results
from fedfloor.reports.sections import RUN
from fedfloor.reports.statistics import reference_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """How many layers stay on each device."""

    cut: Floats  #: (N, T) nan where the floor was not selected
    mean: Floats  #: (N,) over the rounds in which it was; nan if it never was


def measure(run: RunArrays) -> Cuts:
    """Cut of every device in every round."""
    return Cuts(run.cut.T, mean_over_runs(run.cut))


def draw(results: Results) -> "Drawing | None":
    """For papers: the first run of the series that others are compared with; white where a floor was not selected."""
    index = results.collection.series.index(reference_of(results.collection.series))
    run = results.series[index].runs[0]
    cut = measure(run).cut
    if not np.isfinite(cut).any():
        return None
    figure, axes = one_panel(min(6.0, 1.0 + 0.15 * len(run.devices)))
    place = (-0.5, run.rounds[-1] - 0.5, len(run.devices) - 0.5, -0.5)
    layers = len(run.run.scenario.layers)
    image = axes.imshow(cut, aspect="auto", interpolation="nearest", extent=place, cmap="viridis", vmin=0, vmax=layers)
    name_devices(axes, run.devices)
    name = legend_name(results.looks[index].label)
    axes.set(xlabel="round", title=f"{name}, seed {run.run.scenario.seed}")
    colour_bar(figure, axes, image, "layers on the device")
    return figure


def explore(run: RunArrays, at: Ints) -> dict[str, object]:
    """Cuts in these rounds, -1 where not selected; means of floors if devices are very many."""
    cuts = measure(run)
    by_floor = len(run.devices) > ROWS
    if by_floor:
        cuts = _means_of_floors(cuts, run)
    cut = cuts.cut[:, at]
    return {
        "cuts": np.where(np.isnan(cut), -1.0, cut),
        "mean": cuts.mean,
        "byFloor": by_floor,
        "layers": len(run.run.scenario.layers),
    }


def _means_of_floors(cuts: Cuts, run: RunArrays) -> Cuts:
    """The same with floors in place of devices."""
    first = np.searchsorted(run.plant.devices.floor, np.arange(len(run.floors)))
    count = run.plant.devices.on_floor(len(run.floors))
    cut = np.add.reduceat(cuts.cut, first, axis=0) / count[:, None]  # (M, T)
    return Cuts(cut, np.add.reduceat(cuts.mean, first) / count)


def plot(results: Results) -> tuple[Panel, ...]:
    """For the page."""
    crowded = any(len(run.devices) > ROWS for series in results.series for run in series.runs)
    omission = "Cuts of very many devices are shown as means of their floors." if crowded else ""
    return panels_of(replace(BY_SCRIPT, omission=omission))


FIGURE = Figure(
    name="cuts",
    position=100,
    section=RUN,
    title="Cuts over rounds",
    caption="How many layers each device trains itself; gaps are rounds in which its floor was not selected.",
    wide=True,
    draw=draw,
    plot=plot,
    explore=explore,
)
