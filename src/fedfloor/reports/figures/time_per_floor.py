"""Where the time of a floor's round goes."""

__all__ = ["FIGURE", "draw", "measure", "plot"]

from typing import TYPE_CHECKING

from fedfloor.reports.arrays import SeriesArrays
from fedfloor.reports.drawing.figure import Figure, Panel
from fedfloor.reports.drawing.stacks import CAPTION, MISSING, Stacks, draw_stacks, plot_stacks
from fedfloor.reports.measures.phases import PHASES, phase_times
from fedfloor.reports.measures.splits import Split, split_of, without
from fedfloor.reports.palette import PART_COLOURS
from fedfloor.reports.results import Results
from fedfloor.reports.sections import WHERE

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def measure(series: SeriesArrays) -> Split:
    """Time [s] of every floor in each phase of a round."""
    return split_of(series, PHASES, phase_times)


def _stacks(results: Results) -> Stacks:
    splits = results.measured(measure)
    if not results.has_links:
        splits = [(look, without(split, "link")) for look, split in splits]
    return Stacks(splits, quantity="time", unit="s", colours=PART_COLOURS)


def draw(results: Results) -> "Drawing | None":
    """For papers."""
    return draw_stacks(_stacks(results))


def plot(results: Results) -> tuple[Panel, ...]:
    """For the page."""
    return plot_stacks(_stacks(results))


FIGURE = Figure(
    name="time-per-floor",
    position=60,
    section=WHERE,
    title="Time per floor",
    caption=CAPTION,
    missing=MISSING,
    draw=draw,
    plot=plot,
)
