"""Plotly for figures on the page: plots as plain values, ready for JSON; names are harmless in Plotly's own markup."""

__all__ = [
    "BY_SCRIPT",
    "NEUTRAL",
    "ROWS",
    "Axis",
    "Plot",
    "Trace",
    "diagonal",
    "harmless",
    "log_axis",
    "names_axis",
    "plain",
    "titled",
]

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedfloor.characters import printable
from fedfloor.reports.drawing.scales import spread

Trace = dict[str, object]
Axis = dict[str, object]

_LABELS = 24  #: names along an axis
_LONG = 22  #: letters of a name along an axis
ROWS = 300  #: devices up to which a grid has a row for each; beyond that its rows are floors
NEUTRAL = "#8A8F98"  #: of lines that belong to no series


@dataclass(frozen=True, slots=True, eq=False)
class Plot:
    """Input of Plotly; `meta.s` of a trace is the index of its series, which the page can hide."""

    data: Sequence[Trace]
    layout: Mapping[str, object]
    height: int = 340  #: [px]
    omission: str = ""  #: sentence on what was left out, if anything


#: a plot that the page's script draws from the run and round that the reader chooses
BY_SCRIPT = Plot([], {}, height=200)


def plain(value: object) -> object:
    """A value as the page can hold it: five digits, null for nan and inf, no control characters."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {plain(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, str):
        return printable(value)
    return _digits(value) if isinstance(value, float) else value


def harmless(name: str) -> str:
    """A user's name, escaped for Plotly's markup."""
    return name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def titled(title: str) -> Axis:
    """An axis with a title."""
    return {"title": {"text": title}}


def names_axis(names: Sequence[str], limit: int = _LABELS) -> Axis:
    """An axis with names in place of the numbers 0, 1, ...; of many names it shows some."""
    at = spread(len(names), limit).tolist()
    labels = [harmless(_short(names[n])) for n in at]
    ticks: Axis = {"tickmode": "array", "tickvals": at, "ticktext": labels}
    return {**ticks, "ticklabeloverflow": "allow", "automargin": True, "zeroline": False}  # slanted names reach out


def log_axis(ends: Sequence[float]) -> Axis:
    """A logarithmic axis between two values."""
    low, high = (math.log10(end) for end in ends)
    return {"type": "log", "range": [low, high], "dtick": 1 if high - low > 2.5 else "D2"}


def diagonal(ends: Sequence[float], name: str) -> Trace:
    """A dashed line where both axes are equal; `name` stands in the legend."""
    line = {"color": NEUTRAL, "width": 1.5, "dash": "dash"}
    shape: Trace = {"type": "scatter", "mode": "lines", "x": list(ends), "y": list(ends), "line": line, "name": name}
    return {**shape, "hoverinfo": "skip"}


def _short(name: str) -> str:
    return name if len(name) <= _LONG else name[: _LONG - 1] + "…"


def _digits(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
