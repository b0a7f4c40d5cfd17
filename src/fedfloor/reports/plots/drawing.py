"""What the page's figures have in common: their look, their axes, and how they become JSON."""

__all__ = [
    "CAUSES",
    "PARTS",
    "Figure",
    "Style",
    "Trace",
    "diagonal",
    "harmless",
    "log_axis",
    "names_axis",
    "plain",
    "spread",
    "styles",
    "top_of",
]

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.reports.measures import PHASES, SPENDERS
from fedfloor.reports.palette import look_of

Trace = dict[str, Any]
_LABELS = 24  #: names along an axis
_LONG = 22  #: letters of a name along an axis
#: Tol's light scheme, apart from the colours of policies
PARTS = {
    **dict(zip(PHASES, ("#77AADD", "#EEDD88", "#44BB99", "#EE8866"), strict=True)),
    **dict(zip(SPENDERS, ("#EEDD88", "#44BB99", "#EE8866"), strict=True)),
}
CAUSES = {"energy": "short of energy", "memory": "short of memory", "lost": "lost: the link was dead"}


@dataclass(frozen=True, slots=True)
class Style:
    """How a series looks wherever it is shown."""

    label: str
    colour: str
    dash: str
    symbol: str


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """What Plotly is given; `meta.s` of a trace is the series it belongs to."""

    data: list[Trace]
    layout: dict[str, Any]
    height: int = 340  #: [px]
    thinned: str = ""  #: what is left out, if anything


def styles(labels: Sequence[str]) -> tuple[Style, ...]:
    """A look for every series: colour, dash and marker differ."""
    looks = ((label, look_of(at)) for at, label in enumerate(labels))
    return tuple(Style(label, look.colour, look.dash, look.symbol) for label, look in looks)


def plain(value: Any) -> Any:
    """Anything of ours as JSON can hold it: numbers of five digits, null for what is no number."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return _digits(value)
    return value


def spread(count: int, limit: int) -> Ints:
    """At most so many of 0..count-1, evenly, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, limit)).round().astype(np.int64))


def harmless(name: str) -> str:
    """A user's name, harmless in Plotly's markup."""
    return name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def names_axis(names: Sequence[str], limit: int = _LABELS) -> dict[str, Any]:
    """An axis of numbers that shows names; of many only some."""
    at = spread(len(names), limit).tolist()
    labels = [harmless(_short(names[n])) for n in at]
    return {"tickmode": "array", "tickvals": at, "ticktext": labels, "automargin": True, "zeroline": False}


def diagonal(ends: Sequence[float]) -> Trace:
    """A dashed line where both axes are equal."""
    line = {"color": "#8A8F98", "width": 1.5, "dash": "dash"}
    return {"type": "scatter", "mode": "lines", "x": list(ends), "y": list(ends), "line": line, "hoverinfo": "skip"}


def log_axis(ends: Sequence[float]) -> dict[str, Any]:
    """A logarithmic axis between two values."""
    low, high = (math.log10(end) for end in ends)
    return {"type": "log", "range": [low, high], "dtick": 1 if high - low > 2.5 else "D2"}


def top_of(values: Floats) -> float:
    """The greatest finite value, 0 if there is none."""
    finite = values[np.isfinite(values)]
    return float(finite.max()) if finite.size else 0.0


def _short(name: str) -> str:
    return name if len(name) <= _LONG else name[: _LONG - 1] + "…"


def _digits(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
