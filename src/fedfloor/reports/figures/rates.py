"""Participation rates derived from the bound and from the observed divergence, Fig. 2 of the paper."""

__all__ = ["FIGURE", "draw", "plot"]

import math
from typing import TYPE_CHECKING

import numpy as np

from fedfloor.reports.drawing.figure import Figure, Panel, panels_of
from fedfloor.reports.drawing.pairs import Pair, are_dots, plot_pairs
from fedfloor.reports.drawing.paper import dot_style, legend_above, legend_name, one_panel
from fedfloor.reports.measures.rates import Rates, rates
from fedfloor.reports.results import Results
from fedfloor.reports.sections import PARTICIPATION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

_NAMES = 12  #: floors that are named in print


def draw(results: Results) -> "Drawing | None":
    """For papers: the observed rate of every floor against the derived one."""
    measures = [(look, entry) for look, entry in results.measured(rates) if entry is not None]
    if not measures:
        return None
    figure, axes = one_panel(3.0)
    top = 1.08 * max(float(np.nanmax([entry.derived, entry.observed])) for _, entry in measures)
    axes.plot([0, top], [0, top], color="#888888", linewidth=0.8, linestyle=":", label="equal")
    for look, entry in measures:
        axes.plot(entry.derived, entry.observed, label=legend_name(look.label), **dot_style(look))
    _name_floors(axes, measures[0][1], top)
    axes.set(xlabel="derived participation rate", ylabel="observed participation rate")
    axes.set(aspect="equal", xlim=(0, top), ylim=(0, top))
    legend_above(figure, axes)
    return figure


def _name_floors(axes: "Axes", entry: Rates, top: float) -> None:
    """Write names beside the panel, from below, so that they do not overlap."""
    points = [point for point in zip(entry.observed, entry.derived, entry.floors, strict=True) if np.isfinite(point[0])]
    line = {"arrowstyle": "-", "linewidth": 0.4, "color": "#999999"}
    place = -math.inf
    for y, x, floor in sorted(points[:_NAMES]):
        place = max(y, place + 0.05 * top)
        axes.annotate(
            floor,
            (x, y),
            (1.03 * top, place),
            arrowprops=line,
            annotation_clip=False,
            fontsize=6,
            color="#444444",
            verticalalignment="center",
        )


def plot(results: Results) -> tuple[Panel, ...]:
    """For the page."""
    pairs = [
        (look, None if entry is None else Pair(entry.floors, bars=entry.derived, marks=entry.observed))
        for look, entry in results.measured(rates)
    ]
    if all(pair is None for _, pair in pairs):
        return ()
    note = "Each dot is a floor." if are_dots(pairs) else "Bars: derived. Diamonds: observed."
    chart = plot_pairs(pairs, bar="derived", mark="observed", quantity="participation rate", diamonds=True)
    return panels_of(chart, note=note)


FIGURE = Figure(
    name="rates",
    position=50,
    section=PARTICIPATION,
    title="Derived and observed rates",
    caption="Rates derived from the bound of Theorem 1, and the rates that the divergence measured in training would "
    "have given (paper, Fig. 2).",
    missing="No run observed its divergence: train with `--set participation.observe_every=10`, for example.",
    missing_real="Real machines do not measure the divergence, because that needs gradients of all data.",
    draw=draw,
    plot=plot,
)
