"""Test accuracy against rounds, Fig. 3 and 4 of the paper."""

__all__ = ["FIGURE", "draw", "measure", "plot"]

from typing import TYPE_CHECKING

from fedfloor.reports.arrays import SeriesArrays
from fedfloor.reports.cells import SMOOTHED
from fedfloor.reports.drawing.figure import Figure, Panel, panels_of
from fedfloor.reports.drawing.lines import ROUNDS, Lines, band_note, draw_lines, plot_lines
from fedfloor.reports.measures.accuracy import NOT_TESTED, NOT_TESTED_YET, over_rounds
from fedfloor.reports.measures.curves import Curve
from fedfloor.reports.results import Results
from fedfloor.reports.sections import ACCURACY

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def measure(series: SeriesArrays) -> Curve | None:
    """Test accuracy over rounds; None if no model was tested."""
    return over_rounds(series, lambda run: run.accuracy)


def _lines(results: Results) -> Lines:
    return Lines(results.measured(measure), x=ROUNDS, y="test accuracy", percent=True)


def draw(results: Results) -> "Drawing | None":
    """For papers."""
    return draw_lines(_lines(results))


def plot(results: Results) -> tuple[Panel, ...]:
    """For the page."""
    return panels_of(plot_lines(_lines(results)), note=band_note(results))


FIGURE = Figure(
    name="accuracy-rounds",
    position=10,
    section=ACCURACY,
    title="Accuracy against rounds",
    caption=f"Test accuracy; higher is better. {SMOOTHED}",
    missing=NOT_TESTED,
    missing_real=NOT_TESTED_YET,
    draw=draw,
    plot=plot,
    applies=lambda results: not results.predicts_numbers,
)
