"""Measures -> Plotly figures as plain dictionaries, ready for JSON; names are harmless in Plotly's own markup."""

__all__ = [
    "CAUSES",
    "MANY",
    "PARTS",
    "Figure",
    "Style",
    "accuracy_figure",
    "bound_figure",
    "data_figure",
    "delay_figure",
    "failures_figure",
    "participation_figure",
    "plain",
    "rates_figure",
    "split_figure",
    "spread",
    "styles",
    "tradeoff_figures",
]

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedfloor.reporting.measures import (
    PHASES,
    SPENDERS,
    Curve,
    DataHeld,
    Divergence,
    Failures,
    Participation,
    Rates,
    Split,
    Tradeoff,
)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Trace = dict[str, Any]

MANY = 30  #: floors beyond which bars give way to dots
_POINTS = 800  #: of a line
_MARKED = 40  #: points up to which a line has markers
_DOTS = 1500  #: of a series in a cloud
_LABELS = 24  #: names along an axis
_ROWS = 300  #: devices that a grid shows one by one; beyond that floors take their place
_LONG = 22  #: letters of a name along an axis
_HOURS = 20_000.0  #: [s] beyond which time is shown in hours

#: Okabe and Ito, safe for the colour-blind; their black and yellow vanish on one of the two backgrounds
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A8F98")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star")
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
    return tuple(
        Style(label, _COLOURS[at % len(_COLOURS)], _DASHES[at % len(_DASHES)], _SYMBOLS[at % len(_SYMBOLS)])
        for at, label in enumerate(labels)
    )


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


def accuracy_figure(curves: Sequence[Curve | None], looks: Sequence[Style], *, over_time: bool) -> Figure | None:
    """Test accuracy, mean and band over seeds; None if nothing was tested."""
    known = [curve for curve in curves if curve is not None]
    if not known:
        return None
    unit, scale = _time_unit(max(_top(curve.x) for curve in known)) if over_time else ("", 1.0)
    title = f"simulated time [{unit}]" if over_time else "round"
    return _lines(curves, looks, x_title=title, y_title="test accuracy", form=".1%", x_scale=scale)


def delay_figure(curves: Sequence[Curve], looks: Sequence[Style]) -> Figure:
    """Simulated time that rounds have taken together."""
    unit, scale = _time_unit(max(_top(curve.mean) for curve in curves))
    form = f",.4~g;{unit}"
    return _lines(curves, looks, x_title="round", y_title=f"simulated time [{unit}]", form=form, y_scale=scale)


def participation_figure(found: Sequence[Participation], looks: Sequence[Style]) -> Figure:
    """Share of rounds achieved (bars) and wanted (marks) of every floor."""
    pairs = [(entry.floors, entry.target, entry.achieved) for entry in found]
    return _against(pairs, looks, bar="achieved", mark="target", y_title="share of rounds")


def rates_figure(found: Sequence[Rates | None], looks: Sequence[Style]) -> Figure | None:
    """Rates derived from the bound (bars) and from observed divergence (marks), paper Fig. 2; None without any."""
    if not any(found):
        return None
    pairs = [None if entry is None else (entry.floors, entry.observed, entry.derived) for entry in found]
    return _against(pairs, looks, bar="derived", mark="observed", y_title="participation rate")


def split_figure(split: Split, index: int, top: float, unit: str) -> Figure:
    """Where a floor's round goes, stacked; `top` is the axis that panels of several series share."""
    x = np.arange(len(split.floors))
    names = [_text(name) for name in split.floors]
    custom = [[name, int(count)] for name, count in zip(names, split.picked, strict=True)]
    data = [
        {
            "type": "bar",
            "name": part,
            "x": x,
            "y": values,
            "customdata": custom,
            "marker": {"color": PARTS[part]},
            "hovertemplate": f"%{{customdata[0]}}: %{{y:.3~g}} {unit}<br>mean of %{{customdata[1]}} rounds",
            "meta": {"s": index},
        }
        for part, values in zip(split.parts, split.values, strict=True)
    ]
    layout = {
        "barmode": "stack",
        "bargap": 0.25,
        "xaxis": _names_axis(split.floors),
        "yaxis": {
            "title": {"text": "time [s]" if unit == "s" else "energy [J]"},
            "range": [0, top * 1.05 if top > 0 else 1],
        },
        "showlegend": True,
        "legend": {"traceorder": "normal"},
    }
    return Figure(data, layout, height=300)


def failures_figure(found: Sequence[Failures], looks: Sequence[Style]) -> Figure | None:
    """Share of picked floor-rounds that failed, by cause; None if none did."""
    causes = list(dict.fromkeys(cause for entry in found for cause in entry.counts))
    if not causes:
        return None
    data = []
    for index, (entry, look) in enumerate(zip(found, looks, strict=True)):
        counts = [entry.counts.get(cause, 0) for cause in causes]
        data.append(
            {
                "type": "bar",
                "name": _text(look.label),
                "x": list(range(len(causes))),
                "y": [count / max(entry.selected, 1) for count in counts],
                "customdata": [[count, entry.selected] for count in counts],
                "marker": {"color": look.colour},
                "hovertemplate": "%{y:.1%}: %{customdata[0]} of %{customdata[1]} picked floor-rounds",
                "meta": {"s": index},
            }
        )
    named = [CAUSES.get(cause, cause) for cause in causes]
    y_axis = {"title": {"text": "share of picked floor-rounds"}, "tickformat": ".0%", "rangemode": "tozero"}
    spare = max(0.6, (4 - len(causes)) / 2)  # one cause alone is no reason for a bar across the page
    x_axis = {**_names_axis(named), "range": [-spare, len(causes) - 1 + spare]}
    return Figure(data, {"barmode": "group", "xaxis": x_axis, "yaxis": y_axis}, height=280)


def bound_figure(found: Sequence[Divergence | None], looks: Sequence[Style]) -> Figure | None:
    """Measured divergence against Theorem 1's bound on logarithmic axes; None if nothing was measured."""
    known = [entry for entry in found if entry is not None]
    if not known:
        return None
    data: list[Trace] = []
    for index, (entry, look) in enumerate(zip(found, looks, strict=True)):
        if entry is None:
            continue
        at = spread(entry.measured.size, _DOTS)
        seeds = len(set(entry.seed.tolist())) > 1
        where = [
            f"{_text(entry.floors[entry.floor[n]])}, round {entry.round[n]}"
            + (f", seed {entry.seed[n]}" if seeds else "")
            for n in at
        ]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": _text(look.label),
                "x": entry.bound[at],
                "y": entry.measured[at],
                "text": where,
                "marker": {"color": look.colour, "symbol": look.symbol, "size": 8, "opacity": 0.75},
                "hovertemplate": "%{text}<br>bound %{x:.3~g}, measured %{y:.3~g}",
                "meta": {"s": index},
            }
        )
    bounds, measured = (np.concatenate([getattr(entry, of) for entry in known]) for of in ("bound", "measured"))
    least = [float(values[values > 0.0].min(initial=math.inf)) for values in (bounds, measured)]
    x_ends = [least[0] / 1.5, float(bounds.max()) * 1.5] if least[0] < math.inf else [0.1, 1.0]
    y_ends = [min(least[1] / 1.5, x_ends[0]), max(float(measured.max()) * 1.5, x_ends[1])]
    data.append(_diagonal(x_ends))
    layout = {
        "hovermode": "closest",
        "xaxis": {"title": {"text": "bound of Theorem 1"}, **_log_axis(x_ends)},
        "yaxis": {"title": {"text": "measured distance"}, **_log_axis(y_ends)},
    }
    lost = any(entry.measured.size > _DOTS for entry in known)
    return Figure(data, layout, thinned=f"At most {_DOTS} measurements per policy are drawn." if lost else "")


def tradeoff_figures(found: Sequence[Tradeoff], looks: Sequence[Style]) -> tuple[Figure, Figure] | None:
    """Mean delay and worst shortfall over V, each with its bound; None without a sweep."""
    if not found:
        return None
    every = np.concatenate([entry.v for entry in found])
    least = float(every[every > 0.0].min()) if (every > 0.0).any() else 1.0
    zero = 10.0 ** (math.floor(math.log10(least)) - 1)  # where V = 0 stands on a logarithmic axis
    axis = _v_axis(every, zero)
    delays: list[Trace] = []
    shortfalls: list[Trace] = []
    for entry in found:
        x = np.where(entry.v > 0.0, entry.v, zero)
        for traces, values, bound, form in (
            (delays, entry.delay, entry.delay_bound, "%{y:.4~g} s"),
            (shortfalls, entry.shortfall, entry.shortfall_bound, "%{y:.3~f}"),
        ):
            traces.extend(_sweep(entry, looks, x, values, form))
            if np.isfinite(bound).any():
                traces.append(_neutral(x, bound, "bound of Theorem 2", "dot", form, entry.v))
    y_delay = {"title": {"text": "mean delay of a round [s]"}, "rangemode": "tozero"}
    if any(_top(entry.delay_bound) > 5.0 * _top(entry.delay) for entry in found):
        y_delay = {"title": {"text": "mean delay of a round [s]"}, "type": "log"}  # the bound is far away for small V
    y_short = {"title": {"text": "worst shortfall [share of rounds]"}, "rangemode": "tozero"}
    legend = {"showlegend": True, "hovermode": "closest"}
    return (
        Figure(delays, {"xaxis": axis, "yaxis": y_delay, **legend}),
        Figure(shortfalls, {"xaxis": axis, "yaxis": y_short, **legend}),
    )


def data_figure(held: DataHeld) -> Figure:
    """Samples of every class on every device; floors take the devices' place where there are very many."""
    rows, counts, thinned = list(held.devices), held.counts, ""
    if len(rows) > _ROWS:
        floors = list(dict.fromkeys(held.floors))
        counts = np.array([held.counts[[name == floor for name in held.floors]].sum(axis=0) for floor in floors])
        thinned = f"{len(rows)} devices are too many for one picture: rows are floors."
        rows = floors
    grid = {
        "type": "heatmap",
        "z": [[count or None for count in row] for row in counts.tolist()],
        "hoverongaps": False,
        "x": np.arange(counts.shape[1]),
        "y": np.arange(len(rows)),
        "text": [[_text(name)] * counts.shape[1] for name in rows],
        "hovertemplate": "%{text}<br>class %{x}: %{z} samples<extra></extra>",
        "xgap": 1,
        "ygap": 1 if len(rows) <= 60 else 0,
        "colorbar": {"title": {"text": "samples"}, "thickness": 12, "outlinewidth": 0},
        "meta": {"scale": "count"},
    }
    layout = {
        "xaxis": {"title": {"text": "class"}, "dtick": max(1, counts.shape[1] // 10), "showgrid": False},
        "yaxis": {**_names_axis(rows, limit=40), "autorange": "reversed", "showgrid": False},
        "hovermode": "closest",
    }
    return Figure([grid], layout, height=min(900, 140 + 18 * len(rows)), thinned=thinned)


def _digits(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def _text(name: str) -> str:
    """A user's name, harmless in Plotly's markup."""
    return name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _short(name: str) -> str:
    return name if len(name) <= _LONG else name[: _LONG - 1] + "…"


def _names_axis(names: Sequence[str], limit: int = _LABELS) -> dict[str, Any]:
    """An axis of numbers that shows names; of many only some."""
    at = spread(len(names), limit).tolist()
    labels = [_text(_short(names[n])) for n in at]
    return {"tickmode": "array", "tickvals": at, "ticktext": labels, "automargin": True, "zeroline": False}


def _top(values: Floats) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.max()) if finite.size else 0.0


def _time_unit(longest: float) -> tuple[str, float]:
    return ("h", 1.0 / 3600.0) if longest > _HOURS else ("s", 1.0)


def _clear(colour: str, opacity: float) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def _lines(
    curves: Sequence[Curve | None], looks: Sequence[Style], *, x_title: str, y_title: str, form: str,
    x_scale: float = 1.0, y_scale: float = 1.0,
) -> Figure:  # fmt: skip
    """Lines with bands; `form` is a number format, or a format and its unit."""
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
        line = {"color": look.colour, "dash": look.dash, "width": 2.4}
        several = int(curve.runs.max()) > 1
        if several:
            edge: Trace = {"type": "scatter", "mode": "lines", "x": x, "hoverinfo": "skip", "meta": {"s": index}}
            edge |= {"line": {"width": 0, "color": look.colour}, "showlegend": False}
            data.append({**edge, "y": low})
            data.append({**edge, "y": high, "fill": "tonexty", "fillcolor": _clear(look.colour, 0.16)})
        spans = f"{shown[0]} ({shown[1]} to {shown[2]}, %{{customdata[2]}} runs)" if several else shown[0]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if few else "lines",
                "name": _text(look.label),
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


def _against(
    found: Sequence[tuple[tuple[str, ...], Floats, Floats] | None], looks: Sequence[Style], *, bar: str, mark: str,
    y_title: str,
) -> Figure:  # fmt: skip
    """Two figures per floor: bars with marks on them, or for many floors one against the other."""
    names = tuple(dict.fromkeys(name for entry in found if entry is not None for name in entry[0]))
    place = {name: at for at, name in enumerate(names)}
    data: list[Trace] = []
    for index, (entry, look) in enumerate(zip(found, looks, strict=True)):
        if entry is None:
            continue
        floors, marks, bars = entry
        shared = {
            "name": _text(look.label),
            "customdata": [[_text(name), one, two] for name, one, two in zip(floors, bars, marks, strict=True)],
            "hovertemplate": f"%{{customdata[0]}}<br>{bar} %{{customdata[1]:.3f}}, {mark} %{{customdata[2]:.3f}}",
            "meta": {"s": index},
        }
        if len(names) > MANY:
            dots = {"color": look.colour, "symbol": look.symbol, "size": 6, "opacity": 0.7}
            data.append({"type": "scatter", "mode": "markers", "x": marks, "y": bars, "marker": dots, **shared})
            continue
        x = [place[name] for name in floors]
        group = {"x": x, "offsetgroup": str(index), **shared}
        data.append({"type": "bar", "y": bars, "marker": {"color": look.colour, "opacity": 0.85}, **group})
        tick: dict[str, Any] = {
            "symbol": "line-ew" if mark == "target" else "diamond",
            "size": 11 if mark == "target" else 8,
        }
        tick |= {"color": look.colour, "line": {"width": 2.5 if mark == "target" else 1.5}}
        ink = {**group, "meta": {"s": index, "ink": True}}
        data.append({"type": "scatter", "mode": "markers", "y": marks, "marker": tick, "cliponaxis": False, **ink})
    y_axis: dict[str, Any] = {"title": {"text": y_title}, "range": [0, 1.02]}
    if len(names) > MANY:
        data.append(_diagonal([0.0, 1.0]))
        x_axis = {"title": {"text": f"{mark} {y_title}"}, "range": [0, 1.02]}
        y_axis["title"] = {"text": f"{bar} {y_title}"}
        return Figure(data, {"xaxis": x_axis, "yaxis": y_axis, "hovermode": "closest"})
    layout = {"barmode": "group", "scattermode": "group", "bargap": 0.3, "hovermode": "closest"}
    return Figure(data, {"xaxis": _names_axis(names), "yaxis": y_axis, **layout})


def _diagonal(ends: Sequence[float]) -> Trace:
    line = {"color": "#8A8F98", "width": 1.5, "dash": "dash"}
    return {"type": "scatter", "mode": "lines", "x": list(ends), "y": list(ends), "line": line, "hoverinfo": "skip"}


def _log_axis(ends: Sequence[float]) -> dict[str, Any]:
    low, high = (math.log10(end) for end in ends)
    return {"type": "log", "range": [low, high], "dtick": 1 if high - low > 2.5 else "D2"}


def _v_axis(values: Floats, zero: float) -> dict[str, Any]:
    """A logarithmic axis on which 0 has a place."""
    positive = values[values > 0.0]
    powers: list[int] = []
    if positive.size:
        low, high = math.floor(math.log10(positive.min())), math.ceil(math.log10(positive.max()))
        powers = list(range(low, high + 1, max(1, (high - low) // 6)))
    ticks = [(zero, "0")] * bool((values == 0.0).any()) + [(10.0**power, f"{10.0**power:g}") for power in powers]
    where = {"tickmode": "array", "tickvals": [at for at, _ in ticks], "ticktext": [label for _, label in ticks]}
    return {"title": {"text": "V, weight of the delay"}, "type": "log", **where}


def _neutral(x: Floats, y: Floats, name: str, dash: str, form: str, v: Floats) -> Trace:
    line = {"color": "#8A8F98", "width": 1.8, "dash": dash}
    hover = f"V = %{{customdata:~g}}: {form}"
    marks = {"symbol": "circle", "size": 5}
    return {"type": "scatter", "mode": "lines+markers", "name": name, "x": x, "y": y, "line": line,
            "marker": marks, "customdata": v, "hovertemplate": hover}  # fmt: skip


def _sweep(entry: Tradeoff, looks: Sequence[Style], x: Floats, values: Floats, form: str) -> list[Trace]:
    """A grey line over V, and where its points are series of this report, a mark for each."""
    found = [_neutral(x, values, _text(entry.name), "solid", form, entry.v)]
    places = {look.label: index for index, look in enumerate(looks)}
    for at, label in enumerate(entry.labels):
        index = places[label]
        marks = {"color": looks[index].colour, "symbol": looks[index].symbol, "size": 11}
        found.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": _text(label),
                "x": [x[at]],
                "y": [values[at]],
                "customdata": [entry.v[at]],
                "marker": marks,
                "showlegend": False,
                "hovertemplate": f"V = %{{customdata:~g}}: {form}",
                "meta": {"s": index},
            }
        )
    return found
