"""Achieved and target participation of every floor, Fig. 6 of the paper."""

__all__ = ["FIGURE", "Participation", "draw", "measure", "plot"]

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.reports.arrays import SeriesArrays
from fedfloor.reports.cells import OWN_RATES
from fedfloor.reports.drawing.figure import Figure, Panel, panels_of
from fedfloor.reports.drawing.pairs import Pair, are_dots, plot_pairs
from fedfloor.reports.drawing.paper import (
    BARS,
    COLUMN,
    PAGE,
    bar_style,
    legend_above,
    legend_name,
    line_style,
    mark_every,
    name_floors,
    one_panel,
)
from fedfloor.reports.measures.seeds import floors_of, mean_per_floor
from fedfloor.reports.palette import Look
from fedfloor.reports.results import Results
from fedfloor.reports.sections import PARTICIPATION

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True, slots=True, eq=False)
class Participation:
    """How often floors take part, mean over seeds, each array (M,)."""

    floors: tuple[str, ...]
    target: Floats  #: [1]
    achieved: Floats  #: [1] share of rounds in which the floor's model was averaged


def measure(series: SeriesArrays) -> Participation:
    """Achieved and target participation of every floor."""
    floors = floors_of(series)
    return Participation(
        floors,
        target=mean_per_floor(series, floors, lambda run: run.target.mean(axis=0)),
        achieved=mean_per_floor(series, floors, lambda run: run.completed.mean(axis=0)),
    )


def draw(results: Results) -> "Drawing | None":
    """For papers: bars for the achieved share, a line across each for the target."""
    measures = results.measured(measure)
    floors = measures[0][1].floors
    comparable = [(look, entry) for look, entry in measures if entry.floors == floors]
    if len(floors) > BARS:
        return _draw_sorted(comparable)
    page_width = COLUMN if len(floors) * len(comparable) <= 48 else PAGE
    figure, axes = one_panel(2.5, page_width)
    width = 0.84 / len(comparable)
    for number, (look, entry) in enumerate(comparable):
        at = np.arange(len(floors)) + (number - (len(comparable) - 1) / 2) * width
        axes.bar(at, entry.achieved, width * 0.94, label=legend_name(look.label), **bar_style(look))
        label = "target rate" if number == len(comparable) - 1 else "_nolegend_"
        axes.hlines(entry.target, at - width / 2, at + width / 2, color="black", linewidth=1.0, label=label)
    name_floors(axes, floors, page_width - 0.5)
    axes.set(ylabel="share of rounds completed", ylim=(0, None))
    legend_above(figure, axes)
    return figure


def _draw_sorted(measures: Sequence[tuple[Look, Participation]]) -> "Drawing":
    """Lines over the floors in ascending order."""
    figure, axes = one_panel()
    floors = len(measures[0][1].floors)
    at, markers = np.arange(1, floors + 1), max(1, floors // 12)
    for look, entry in measures:
        name, every = legend_name(look.label), mark_every(look, markers)
        axes.plot(at, np.sort(entry.achieved), label=name, markevery=every, **line_style(look))
    axes.plot(at, np.sort(measures[0][1].target), color="black", linewidth=0.8, label="target rate")
    axes.set(xlabel="floors, the least served first", ylabel="share of rounds completed", ylim=(0, None))
    legend_above(figure, axes)
    return figure


def plot(results: Results) -> tuple[Panel, ...]:
    """For the page."""
    pairs = [
        (look, Pair(entry.floors, bars=entry.achieved, marks=entry.target)) for look, entry in results.measured(measure)
    ]
    note = "Bars: achieved. Dashes: target."
    if are_dots(pairs):
        note = "Each dot is a floor; dots below the line fall short of their target."
    if results.collection.has_own_rates:
        note = f"{note} {OWN_RATES}"
    return panels_of(plot_pairs(pairs, bar="achieved", mark="target", quantity="share of rounds"), note=note)


FIGURE = Figure(
    name="participation",
    position=40,
    section=PARTICIPATION,
    title="Achieved and target participation",
    caption="Share of rounds in which the floor's model was averaged, and the share that is its target.",
    draw=draw,
    plot=plot,
)
