"""Where the network of every device is cut, round by round; on the page its script draws it."""

__all__ = ["FIGURE", "Cuts", "draw", "explore", "measure", "plot"]

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.reports.arrays import RunArrays
from fedfloor.reports.drawing.figure import Figure, Panel, panels_of
from fedfloor.reports.drawing.paper import colour_bar, legend_above, legend_name, name_devices, one_panel
from fedfloor.reports.drawing.plots import BY_SCRIPT, ROWS
from fedfloor.reports.palette import RAW_COLOUR
from fedfloor.reports.results import Results
from fedfloor.reports.sections import RUN
from fedfloor.reports.statistics import reference_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """How many layers stay on each device."""

    cut: Floats  #: (N, T) nan where the floor was not selected
    usual: Floats  #: (N,) the most frequent one, the least of several; nan if it never was
    raw_share: Floats  #: (N,) [1] of the rounds with a cut, share of those with cut 0; nan if there are none


def measure(run: RunArrays, *, by_floor: bool = False) -> Cuts:
    """Cut of every device in every round, or the least cut on every floor, (M, T) and (M,), which shows any cut 0."""
    cut = run.cut.T
    if by_floor:
        cut = np.minimum.reduceat(cut, np.searchsorted(run.plant.devices.floor, np.arange(len(run.floors))))
    counts = np.stack([(cut == layer).sum(axis=1) for layer in range(len(run.run.scenario.layers) + 1)])  # (L + 1, N)
    served = counts.sum(axis=0)
    with np.errstate(invalid="ignore"):
        return Cuts(cut, np.where(served > 0, counts.argmax(axis=0), np.nan), counts[0] / served)


def draw(results: Results) -> "Drawing | None":
    """For papers: the first run of the series that others are compared with; white where a floor was not selected."""
    from matplotlib import colormaps  # noqa: PLC0415  # an extra, which only figures need
    from matplotlib.colors import ListedColormap  # noqa: PLC0415

    index = results.collection.series.index(reference_of(results.collection.series))
    run = results.series[index].runs[0]
    cut = measure(run).cut
    if not np.isfinite(cut).any():
        return None
    figure, axes = one_panel(min(6.0, 1.0 + 0.15 * len(run.devices)))
    place = (-0.5, run.rounds[-1] - 0.5, len(run.devices) - 0.5, -0.5)
    layers = len(run.run.scenario.layers)
    colours = ListedColormap([RAW_COLOUR, *colormaps["Greens"](np.linspace(0.25, 1.0, layers))])
    image = axes.imshow(
        cut, aspect="auto", interpolation="nearest", extent=place, cmap=colours, vmin=-0.5, vmax=layers + 0.5
    )
    if (cut == 0.0).any():
        axes.plot([], [], "s", markersize=5, color=RAW_COLOUR, label="cut 0: raw samples leave the device")
    if np.isnan(cut).any():
        axes.plot([], [], "s", markersize=5, color="white", markeredgecolor="#888888", label="not selected")
    name_devices(axes, run.devices)
    axes.set(xlabel=f"round ({legend_name(results.looks[index].label)}, seed {run.run.scenario.seed})")
    colour_bar(figure, axes, image, "layers on the device")
    if axes.get_legend_handles_labels()[0]:
        legend_above(figure, axes)
    return figure


def explore(run: RunArrays, at: Ints) -> dict[str, object]:
    """Cuts in these rounds, -1 where not selected, and over the whole run."""
    by_floor = len(run.devices) > ROWS
    cuts = measure(run, by_floor=by_floor)
    cut = cuts.cut[:, at]
    return {
        "cuts": np.where(np.isnan(cut), -1.0, cut),
        "usual": cuts.usual,
        "rawShare": cuts.raw_share,
        "byFloor": by_floor,
        "layers": len(run.run.scenario.layers),
    }


def plot(results: Results) -> tuple[Panel, ...]:
    """For the page."""
    crowded = any(len(run.devices) > ROWS for series in results.series for run in series.runs)
    omission = "Of very many devices, the least cut on every floor is shown." if crowded else ""
    return panels_of(replace(BY_SCRIPT, omission=omission))


FIGURE = Figure(
    name="cuts",
    position=100,
    section=RUN,
    title="Cuts over rounds",
    caption="How many layers each device trains itself. With cut 0 it sends its raw samples to the gateway. Gaps are "
    "rounds in which its floor was not selected. Click a round to see what was decided in it.",
    wide=True,
    draw=draw,
    plot=plot,
    explore=explore,
)
