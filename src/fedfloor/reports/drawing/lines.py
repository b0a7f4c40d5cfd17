"""Lines over rounds or time with their bands over seeds, in print and on the page."""

__all__ = ["ROUNDS", "Lines", "band_note", "draw_lines", "plot_lines"]

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedfloor.reports.drawing.paper import in_percent, legend_above, legend_name, line_style, mark_every, one_panel
from fedfloor.reports.drawing.plots import Axis, Plot, Trace, harmless, titled
from fedfloor.reports.drawing.scales import spread
from fedfloor.reports.measures.curves import Curve
from fedfloor.reports.palette import Look, shade_of
from fedfloor.reports.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

ROUNDS = "rounds done"  #: title of an axis of rounds: a point at 14 is what was known after 14 rounds
_MARKERS = 12  #: of a line in print
_POINTS = 800  #: of a line on the page
_MARKED = 40  #: points up to which a line on the page has markers


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Curves of all series, with their axes."""

    curves: Sequence[tuple[Look, Curve | None]]
    x: str  #: title of the axis
    y: str  #: title of the axis
    unit: str = ""  #: of y, where the pointer shows a value
    percent: bool = False  #: whether y is a share
    steps: bool = False  #: whether a value holds until the next point


def band_note(results: Results) -> str:
    """Sentence on what bands show; empty if there are none."""
    return "Bands span the seeds." if results.several_seeds else ""


def draw_lines(lines: Lines) -> "Drawing | None":
    """Lines through the means, with a dozen markers each, and bands; None if no value is finite."""
    curves = [(look, curve) for look, curve in lines.curves if curve is not None and np.isfinite(curve.mean).any()]
    if not curves:
        return None
    figure, axes = one_panel()
    for look, curve in curves:
        finite = np.isfinite(curve.mean)
        x, markers = curve.x[finite], mark_every(look, max(1, math.ceil(finite.sum() / _MARKERS)))
        drawstyle = "steps-post" if lines.steps else "default"
        name = legend_name(look.label)
        axes.plot(x, curve.mean[finite], label=name, markevery=markers, drawstyle=drawstyle, **line_style(look))
        if curve.runs.max() > 1:
            axes.fill_between(
                x,
                curve.low[finite],
                curve.high[finite],
                step="post" if lines.steps else None,
                color=look.colour,
                alpha=shade_of(len(curves)),
                linewidth=0,
            )
    axes.set(xlabel=lines.x, ylabel=lines.y, xlim=(0, None))
    legend_above(figure, axes)
    if lines.percent:
        in_percent(axes.yaxis)
    return figure


def plot_lines(lines: Lines) -> Plot | None:
    """Lines through the means, and bands; None if no series has a curve."""
    lengths = [curve.x.size for _, curve in lines.curves if curve is not None]
    if not lengths:
        return None
    mode = "lines+markers" if max(lengths) <= _MARKED else "lines"
    data: list[Trace] = []
    for look, curve in lines.curves:
        if curve is not None:
            data += _traces(lines, look, curve, mode)
    thousands: Axis = {"rangemode": "tozero", "separatethousands": True, "exponentformat": "none"}
    after: Axis = {"hoverformat": ",d", "unifiedhovertitle": {"text": "after %{x} rounds"}} if lines.x == ROUNDS else {}
    percent: Axis = {"tickformat": ".0%"} if lines.percent else {}
    layout = {
        "xaxis": titled(lines.x) | thousands | after,
        "yaxis": titled(lines.y) | thousands | percent,
        "hovermode": "x unified",
        "showlegend": True,
    }
    thinned = f"Long lines are drawn through {_POINTS} of their points, evenly spread; tables use all rounds."
    omission = thinned if max(lengths) > _POINTS else ""
    return Plot(data, layout, omission=omission)


def _traces(lines: Lines, look: Look, curve: Curve, mode: str) -> list[Trace]:
    """The edges of a series' band, if it has several runs, and its line."""
    at = spread(curve.x.size, _POINTS)
    x, mean, low, high = (values[at] for values in (curve.x, curve.mean, curve.low, curve.high))
    shape = "hv" if lines.steps else "linear"
    number, unit = ".1%" if lines.percent else ",.4~g", f" {lines.unit}" if lines.unit else ""
    value, least, most = (f"%{{{key}:{number}}}{unit}" for key in ("y", "customdata[0]", "customdata[1]"))
    several = int(curve.runs.max()) > 1
    edge: Trace = {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "hoverinfo": "skip",
        "meta": {"s": look.index},
        "line": {"width": 0, "color": look.colour, "shape": shape},
        "showlegend": False,
    }
    shade = _transparent(look.colour, shade_of(len(lines.curves)))
    band: list[Trace] = [{**edge, "y": low}, {**edge, "y": high, "fill": "tonexty", "fillcolor": shade}]
    line: Trace = {
        "type": "scatter",
        "mode": mode,
        "name": harmless(look.label),
        "x": x,
        "y": mean,
        "customdata": np.stack([low, high, curve.runs[at]], axis=1) if several else None,
        "line": {"color": look.colour, "dash": look.dash, "width": 2.4, "shape": shape},
        "marker": {"symbol": look.symbol, "size": 7, "color": look.colour},
        "hovertemplate": f"{value} ({least} to {most}, %{{customdata[2]}} runs)" if several else value,
        "meta": {"s": look.index},
    }
    return [*band, line] if several else [line]


def _transparent(colour: str, opacity: float) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"
