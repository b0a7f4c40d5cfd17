"""Floor by floor: how often they take part, where their rounds go, why they fail, which data they hold."""

__all__ = ["MANY", "data_figure", "failures_figure", "participation_figure", "rates_figure", "split_figure"]

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.reports.measures import DataHeld, Failures, Participation, Rates, Split
from fedfloor.reports.plots.drawing import CAUSES, PARTS, Figure, Style, Trace, diagonal, harmless, names_axis

MANY = 30  #: floors beyond which bars give way to dots
_ROWS = 300  #: devices that a grid shows one by one; beyond that floors take their place


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
    names = [harmless(name) for name in split.floors]
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
        "xaxis": names_axis(split.floors),
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
                "name": harmless(look.label),
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
    x_axis = {**names_axis(named), "range": [-spare, len(causes) - 1 + spare]}
    return Figure(data, {"barmode": "group", "xaxis": x_axis, "yaxis": y_axis}, height=280)


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
        "text": [[harmless(name)] * counts.shape[1] for name in rows],
        "hovertemplate": "%{text}<br>class %{x}: %{z} samples<extra></extra>",
        "xgap": 1,
        "ygap": 1 if len(rows) <= 60 else 0,
        "colorbar": {"title": {"text": "samples"}, "thickness": 12, "outlinewidth": 0},
        "meta": {"scale": "count"},
    }
    layout = {
        "xaxis": {"title": {"text": "class"}, "dtick": max(1, counts.shape[1] // 10), "showgrid": False},
        "yaxis": {**names_axis(rows, limit=40), "autorange": "reversed", "showgrid": False},
        "hovermode": "closest",
    }
    return Figure([grid], layout, height=min(900, 140 + 18 * len(rows)), thinned=thinned)


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
            "name": harmless(look.label),
            "customdata": [[harmless(name), one, two] for name, one, two in zip(floors, bars, marks, strict=True)],
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
        data.append(diagonal([0.0, 1.0]))
        x_axis = {"title": {"text": f"{mark} {y_title}"}, "range": [0, 1.02]}
        y_axis["title"] = {"text": f"{bar} {y_title}"}
        return Figure(data, {"xaxis": x_axis, "yaxis": y_axis, "hovermode": "closest"})
    layout = {"barmode": "group", "scattermode": "group", "bargap": 0.3, "hovermode": "closest"}
    return Figure(data, {"xaxis": names_axis(names), "yaxis": y_axis, **layout})
