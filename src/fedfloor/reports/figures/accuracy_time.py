"""Test accuracy against the time of rounds."""

__all__ = ["FIGURE", "draw", "measure", "plot"]

import math
from typing import TYPE_CHECKING

import numpy as np

from fedfloor.reports.arrays import SeriesArrays
from fedfloor.reports.cells import time_unit
from fedfloor.reports.drawing.figure import Figure, Panel, panels_of
from fedfloor.reports.drawing.lines import Lines, draw_lines, plot_lines
from fedfloor.reports.drawing.scales import greatest
from fedfloor.reports.measures.accuracy import NOT_TESTED, NOT_TESTED_YET, evaluations
from fedfloor.reports.measures.curves import Curve, band
from fedfloor.reports.results import Results
from fedfloor.reports.sections import ACCURACY

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def measure(series: SeriesArrays, limit: int = 400) -> Curve | None:
    """Test accuracy over the time of rounds [s], at most `limit` points; None if the tested runs never overlap in time.

    Every run keeps its last tested value. The curve begins when the last run is first tested and ends when the first
    run ends, so that all its points are about the same runs. A run that is still running counts up to its last round.
    """
    runs = [run for run in series.runs if evaluations(run, run.clock)[0].size]
    if not runs:
        return None
    points = [evaluations(run, run.clock) for run in runs]
    ends = [float(run.clock[-1]) for run in runs]
    first_end = min((end for run, end in zip(runs, ends, strict=True) if run.run.ended), default=math.inf)
    grid = np.unique(np.concatenate([*(x for x, _ in points), [end for end in ends if end < math.inf]]))
    grid = grid[(grid >= max(x[0] for x, _ in points)) & (grid <= first_end)]
    if grid.size == 0:
        return None
    if grid.size > limit:
        grid = np.linspace(grid[0], grid[-1], limit)
    values = np.full((len(points), grid.size), np.nan)
    for row, (x, y), end in zip(values, points, ends, strict=True):
        is_reached = grid <= end
        row[is_reached] = y[np.searchsorted(x, grid[is_reached], side="right") - 1]
    return band(grid, values)


def _lines(results: Results) -> Lines:
    curves = results.measured(measure)
    seconds, unit = time_unit(greatest(curve.x for _, curve in curves if curve is not None))
    scaled = [(look, None if curve is None else curve.divided(x=seconds)) for look, curve in curves]
    return Lines(scaled, x=f"{results.collection.clock_name} [{unit}]", y="test accuracy", percent=True, steps=True)


def draw(results: Results) -> "Drawing | None":
    """For papers."""
    return draw_lines(_lines(results))


def plot(results: Results) -> tuple[Panel, ...]:
    """For the page."""
    return panels_of(plot_lines(_lines(results)))


FIGURE = Figure(
    name="accuracy-time",
    position=20,
    section=ACCURACY,
    title="Accuracy against time",
    caption="Test accuracy against the time that the rounds took; further left is faster.",
    missing=NOT_TESTED,
    missing_real=NOT_TESTED_YET,
    draw=draw,
    plot=plot,
)
