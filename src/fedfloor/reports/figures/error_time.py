"""Test error of models that predict numbers against the time of rounds."""

__all__ = ["FIGURE", "draw", "measure", "plot"]

from typing import TYPE_CHECKING

from fedfloor.reports.arrays import SeriesArrays
from fedfloor.reports.cells import time_unit
from fedfloor.reports.drawing.figure import Figure, Panel, panels_of
from fedfloor.reports.drawing.lines import Lines, draw_lines, plot_lines
from fedfloor.reports.drawing.scales import greatest
from fedfloor.reports.measures.accuracy import NOT_TESTED, NOT_TESTED_YET, over_time
from fedfloor.reports.measures.curves import Curve
from fedfloor.reports.results import Results
from fedfloor.reports.sections import ERROR

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def measure(series: SeriesArrays, limit: int = 400) -> Curve | None:
    """Root mean square error over the time of rounds [s], at most `limit` points; None if no model was tested."""
    return over_time(series, lambda run: run.error, limit)


def _lines(results: Results) -> Lines:
    curves = results.measured(measure)
    seconds, unit = time_unit(greatest(curve.x for _, curve in curves if curve is not None))
    scaled = [(look, None if curve is None else curve.divided(x=seconds)) for look, curve in curves]
    return Lines(scaled, x=f"{results.collection.clock_name} [{unit}]", y="test error", steps=True)


def draw(results: Results) -> "Drawing | None":
    """For papers."""
    return draw_lines(_lines(results))


def plot(results: Results) -> tuple[Panel, ...]:
    """For the page."""
    return panels_of(plot_lines(_lines(results)))


FIGURE = Figure(
    name="error-time",
    position=22,
    section=ERROR,
    title="Error against time",
    caption="Root mean square error on the test set against the time that the rounds took; further left is faster.",
    missing=NOT_TESTED,
    missing_real=NOT_TESTED_YET,
    draw=draw,
    plot=plot,
    applies=lambda results: results.predicts_numbers,
)
