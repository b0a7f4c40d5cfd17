"""Lines over rounds or time, with their bands over seeds."""

__all__ = ["accuracy_figure", "delay_figure"]

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedfloor.reports.cells import time_unit
from fedfloor.reports.measures import Curve
from fedfloor.reports.palette import shade_of
from fedfloor.reports.plots.drawing import Figure, Style, Trace, harmless, spread, top_of

_POINTS = 800  #: of a line
_MARKED = 40  #: points up to which a line has markers


def accuracy_figure(curves: Sequence[Curve | None], looks: Sequence[Style], *, over_time: bool) -> Figure | None:
    """Test accuracy, mean and band over seeds; None if nothing was tested."""
    known = [curve for curve in curves if curve is not None]
    if not known:
        return None
    seconds, unit = time_unit(max(top_of(curve.x) for curve in known)) if over_time else (1.0, "")
    title = f"simulated time [{unit}]" if over_time else "round"
    steps: Any = {"x_scale": 1.0 / seconds, "shape": "hv" if over_time else "linear"}
    return _lines(curves, looks, x_title=title, y_title="test accuracy", form=".1%", **steps)


def delay_figure(curves: Sequence[Curve], looks: Sequence[Style]) -> Figure:
    """Simulated time that rounds have taken together."""
    seconds, unit = time_unit(max(top_of(curve.mean) for curve in curves))
    form = f",.4~g;{unit}"
    return _lines(curves, looks, x_title="round", y_title=f"simulated time [{unit}]", form=form, y_scale=1.0 / seconds)


def _lines(
    curves: Sequence[Curve | None], looks: Sequence[Style], *, x_title: str, y_title: str, form: str,
    x_scale: float = 1.0, y_scale: float = 1.0, shape: str = "linear",
) -> Figure:  # fmt: skip
    """Lines with bands; `form` is a number format, or a format and its unit, `shape` how points are joined."""
    data: list[Trace] = []
    number, _, unit = form.partition(";")
    shown = [
        f"%{{{place}:{number}}}" + (f" {unit}" if unit else "") for place in ("y", "customdata[0]", "customdata[1]")
    ]
    few = max((curve.x.size for curve in curves if curve is not None), default=0) <= _MARKED
    thinned = ""
    for index, (curve, look) in enumerate(zip(curves, looks, strict=True)):
        if curve is None:
            continue
        at = spread(curve.x.size, _POINTS)
        if at.size < curve.x.size:
            thinned = f"Lines are drawn through {_POINTS} of their points."
        x, mean, low, high = (
            curve.x[at] * x_scale,
            *(part[at] * y_scale for part in (curve.mean, curve.low, curve.high)),
        )
        line = {"color": look.colour, "dash": look.dash, "width": 2.4, "shape": shape}
        several = int(curve.runs.max()) > 1
        if several:
            edge: Trace = {"type": "scatter", "mode": "lines", "x": x, "hoverinfo": "skip", "meta": {"s": index}}
            edge |= {"line": {"width": 0, "color": look.colour, "shape": shape}, "showlegend": False}
            data.append({**edge, "y": low})
            data.append({**edge, "y": high, "fill": "tonexty", "fillcolor": _clear(look.colour, shade_of(len(looks)))})
        spans = f"{shown[0]} ({shown[1]} to {shown[2]}, %{{customdata[2]}} runs)" if several else shown[0]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if few else "lines",
                "name": harmless(look.label),
                "x": x,
                "y": mean,
                "customdata": np.stack([low, high, curve.runs[at]], axis=1) if several else None,
                "line": line,
                "marker": {"symbol": look.symbol, "size": 7, "color": look.colour},
                "hovertemplate": spans,
                "meta": {"s": index},
            }
        )
    thousands: dict[str, Any] = {"rangemode": "tozero", "separatethousands": True, "exponentformat": "none"}
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": x_title}, **thousands},
        "yaxis": {"title": {"text": y_title}, **thousands},
        "hovermode": "x unified",
    }
    if number.endswith("%"):
        layout["yaxis"]["tickformat"] = ".0%"
    return Figure(data, layout, thinned=thinned)


def _clear(colour: str, opacity: float) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"
