"""What was measured beside the bounds of Theorems 1 and 2."""

__all__ = ["bound_figure", "tradeoff_figures"]

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.reports.measures import Divergence, Tradeoff
from fedfloor.reports.plots.drawing import Figure, Style, Trace, diagonal, harmless, log_axis, spread, top_of

_DOTS = 1500  #: of a series in a cloud


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
            f"{harmless(entry.floors[entry.floor[n]])}, round {entry.round[n]}"
            + (f", seed {entry.seed[n]}" if seeds else "")
            for n in at
        ]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": harmless(look.label),
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
    data.append(diagonal(x_ends))
    layout = {
        "hovermode": "closest",
        "xaxis": {"title": {"text": "bound of Theorem 1"}, **log_axis(x_ends)},
        "yaxis": {"title": {"text": "measured distance"}, **log_axis(y_ends)},
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
    if any(top_of(entry.delay_bound) > 5.0 * top_of(entry.delay) for entry in found):
        y_delay = {"title": {"text": "mean delay of a round [s]"}, "type": "log"}  # the bound is far away for small V
    y_short = {"title": {"text": "worst shortfall [share of rounds]"}, "rangemode": "tozero"}
    legend = {"showlegend": True, "hovermode": "closest"}
    return (
        Figure(delays, {"xaxis": axis, "yaxis": y_delay, **legend}),
        Figure(shortfalls, {"xaxis": axis, "yaxis": y_short, **legend}),
    )


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
    found = [_neutral(x, values, harmless(entry.name), "solid", form, entry.v)]
    places = {look.label: index for index, look in enumerate(looks)}
    for at, label in enumerate(entry.labels):
        index = places[label]
        marks = {"color": looks[index].colour, "symbol": looks[index].symbol, "size": 11}
        found.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": harmless(label),
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
