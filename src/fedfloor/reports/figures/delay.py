"""Cumulative delay of the rounds, Fig. 5 of the paper."""

__all__ = ["FIGURE", "draw", "measure", "plot"]

from typing import TYPE_CHECKING

import numpy as np

from fedfloor.reports.arrays import SeriesArrays
from fedfloor.reports.cells import time_unit
from fedfloor.reports.drawing.figure import Figure, Panel, panels_of
from fedfloor.reports.drawing.lines import ROUNDS, Lines, band_note, draw_lines, plot_lines
from fedfloor.reports.drawing.scales import greatest
from fedfloor.reports.measures.curves import Curve, band
from fedfloor.reports.results import Results
from fedfloor.reports.sections import DELAY

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def measure(series: SeriesArrays) -> Curve:
    """Time [s] that all rounds have taken at the end of every round."""
    rounds = max((run.rounds for run in series.runs), key=len)
    values = np.full((len(series.runs), rounds.size), np.nan)
    for row, run in zip(values, series.runs, strict=True):
        row[: run.clock.size] = run.clock
    return band(rounds.astype(float), values)


def _lines(results: Results) -> Lines:
    curves = results.measured(measure)
    seconds, unit = time_unit(greatest(curve.mean for _, curve in curves))
    scaled = [(look, curve.divided(y=seconds)) for look, curve in curves]
    return Lines(scaled, x=ROUNDS, y=f"cumulative delay [{unit}]", unit=unit)


def draw(results: Results) -> "Drawing | None":
    """For papers."""
    figure = draw_lines(_lines(results))
    if figure is not None:
        figure.axes[0].set_ylim(0, None)
    return figure


def plot(results: Results) -> tuple[Panel, ...]:
    """For the page."""
    return panels_of(plot_lines(_lines(results)), note=band_note(results))


FIGURE = Figure(
    name="delay",
    position=30,
    section=DELAY,
    title="Cumulative delay",
    caption="Time that all rounds so far have taken; flatter is faster.",
    wide=True,
    draw=draw,
    plot=plot,
)
