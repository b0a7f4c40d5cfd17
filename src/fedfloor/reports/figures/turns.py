"""What every floor did in every round: done, failed and why, or waited; on the page its script draws it."""

__all__ = ["FIGURE", "draw", "explore", "measure", "plot"]

from typing import TYPE_CHECKING

import numpy as np

from fedfloor.arrays import Ints
from fedfloor.reports.arrays import RunArrays
from fedfloor.reports.drawing.figure import Figure, Panel, panels_of
from fedfloor.reports.drawing.paper import legend_above, legend_name, name_devices, one_panel
from fedfloor.reports.drawing.plots import BY_SCRIPT
from fedfloor.reports.palette import TURN_COLOURS
from fedfloor.reports.results import Results
from fedfloor.reports.sections import RUN
from fedfloor.reports.statistics import reference_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_TURNS = tuple(TURN_COLOURS)  #: what a floor can do in a round; the numbers of `measure` count in it


def measure(run: RunArrays) -> Ints:
    """What every floor did in every round, (M, T): places in the order waited, done, and the causes of failures."""
    turns = np.where(run.completed, _TURNS.index("done"), _TURNS.index("waited"))
    names = [f"failed: {cause}" for cause in run.causes]
    failed = [_TURNS.index(name if name in _TURNS else "failed") for name in names]  # logs are others' words
    return np.where(run.failure < 0, turns, np.array([*failed, 0])[run.failure]).T


def draw(results: Results) -> "Drawing | None":
    """For papers: the first run of the series that others are compared with."""
    from matplotlib.colors import ListedColormap  # noqa: PLC0415  # an extra, which only figures need

    index = results.collection.series.index(reference_of(results.collection.series))
    run = results.series[index].runs[0]
    turns = measure(run)
    figure, axes = one_panel(min(6.0, 1.2 + 0.15 * len(run.floors)))
    place = (-0.5, run.rounds[-1] - 0.5, len(run.floors) - 0.5, -0.5)
    colours = ListedColormap(list(TURN_COLOURS.values()))
    axes.imshow(
        turns, aspect="auto", interpolation="nearest", extent=place, cmap=colours, vmin=-0.5, vmax=len(_TURNS) - 0.5
    )
    for turn in np.unique(turns).tolist():
        axes.plot([], [], "s", markersize=5, color=TURN_COLOURS[_TURNS[turn]], label=_TURNS[turn])
    name_devices(axes, run.floors)
    axes.set(xlabel=f"round ({legend_name(results.looks[index].label)}, seed {run.run.scenario.seed})")
    legend_above(figure, axes)
    return figure


def explore(run: RunArrays, at: Ints) -> dict[str, object]:
    """What every floor did in these rounds."""
    return {"turns": measure(run)[:, at]}


def plot(_: Results) -> tuple[Panel, ...]:
    """For the page."""
    return panels_of(BY_SCRIPT)


FIGURE = Figure(
    name="turns",
    position=75,
    section=RUN,
    title="Who took part when",
    caption="Every floor in every round: done, failed and why, or waited because it was not selected. Click a round, "
    "or use the arrow keys, to see what was decided in it.",
    wide=True,
    draw=draw,
    plot=plot,
    explore=explore,
)
