"""Delay and shortfall over V, with the bounds of Theorem 2."""

__all__ = ["FIGURE", "Tradeoff", "draw", "measure", "plot"]

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.reports.drawing.figure import Figure, Panel
from fedfloor.reports.drawing.paper import blank, legend_above, line_style
from fedfloor.reports.drawing.plots import NEUTRAL, Axis, Plot, Trace, harmless, titled
from fedfloor.reports.drawing.scales import greatest
from fedfloor.reports.palette import Look, look_of
from fedfloor.reports.policies import solver_of, tradeoff_of
from fedfloor.reports.reading import Collection, Series
from fedfloor.reports.results import Results
from fedfloor.reports.sections import TRADEOFF

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_LABELS = 5  #: powers of ten along V, so that they stand side by side; the largest is always among them
_DOTTED = "Dotted lines are bounds of Theorem 2."


@dataclass(frozen=True, slots=True, eq=False)
class Tradeoff:
    """Delay and participation over V, each array (X,), V ascending."""

    name: str
    v: Floats
    delay: Floats  #: [s] mean of the rounds
    shortfall: Floats  #: [1] the worst of all floors
    delay_bound: Floats  #: [s] nan where there is none
    shortfall_bound: Floats  #: [1] nan where there is none
    labels: tuple[str, ...] = ()  #: (X,) series behind each point, if the points are series of this report


def measure(collection: Collection) -> tuple[Tradeoff, ...]:
    """What `fedfloor tradeoff` measured, and the series of this report that differ in V only."""
    sweeps = [_from_file(collection)] if collection.tradeoff else []
    groups: dict[str, dict[float, Series]] = {}
    for series in collection.series:
        v = tradeoff_of(series.runs[0].policy)
        if v is not None:
            groups.setdefault(_name_without_v(series), {})[v] = series
    sweeps += [_from_series(name, by_v) for name, by_v in groups.items() if len(by_v) > 1]
    return tuple(sweeps)


def _from_file(collection: Collection) -> Tradeoff:
    points = sorted(collection.tradeoff, key=lambda point: point.v)
    return Tradeoff(
        "fedfloor tradeoff",
        v=_column([point.v for point in points]),
        delay=_column([point.mean_delay_s for point in points]),
        shortfall=_column([point.shortfall for point in points]),
        delay_bound=_column([point.delay_bound_s for point in points]),
        shortfall_bound=_column([point.shortfall_bound for point in points]),
    )


def _column(values: Sequence[float | None]) -> Floats:
    return np.array(values, dtype=float)  # None becomes nan


def _from_series(name: str, by_v: dict[float, Series]) -> Tradeoff:
    order = sorted(by_v)
    points = [by_v[v] for v in order]
    no_bound = np.full(len(points), np.nan)
    return Tradeoff(
        f"these runs of {name}",
        v=np.array(order),
        delay=np.array([np.mean([run.summary.mean_delay for run in series.runs]) for series in points]),
        shortfall=np.array([np.mean([run.summary.shortfall for run in series.runs]) for series in points]),
        delay_bound=no_bound,
        shortfall_bound=no_bound,
        labels=tuple(series.label for series in points),
    )


def _name_without_v(series: Series) -> str:
    """Policy, solver and variant of a series that has a V, without V and the exact solver."""
    run = series.runs[0]
    solver = solver_of(run.policy)
    name = run.policy.partition(":")[0] + (f":solver={solver}" if solver not in (None, "exact") else "")
    return f"{name} [{run.variant}]" if run.variant else name


def draw(results: Results) -> "Drawing | None":
    """For papers: delay above, shortfall below."""
    sweeps = measure(results.collection)
    if not sweeps:
        return None
    figure = blank(3.6)
    upper, lower = figure.subplots(2, 1, sharex=True)
    least = min((float(v) for sweep in sweeps for v in sweep.v if v > 0), default=1.0)
    for index, sweep in enumerate(sweeps):
        look = look_of(index)
        v = np.where(sweep.v > 0, sweep.v, least / 10)
        panels = ((upper, sweep.delay, sweep.delay_bound), (lower, sweep.shortfall, sweep.shortfall_bound))
        for axes, values, bound in panels:
            axes.plot(v, np.where(np.isfinite(values), values, np.nan), label=sweep.name, **line_style(look))
            if np.isfinite(bound).any():
                finite = np.where(np.isfinite(bound), bound, np.nan)
                axes.plot(v, finite, label="bound of Theorem 2", color=look.colour, linestyle=":", linewidth=1.0)
    upper.set(ylabel="mean delay [s]", ylim=(0, 1.6 * greatest(sweep.delay for sweep in sweeps) or None))
    lower.set(ylabel="worst shortfall", xscale="log", ylim=(0, None))
    has_zero = any((sweep.v == 0).any() for sweep in sweeps)
    lower.set_xlabel(f"V (V = 0 is drawn at {least / 10:g})" if has_zero else "V")
    legend_above(figure, upper)
    return figure


def plot(results: Results) -> tuple[Panel, ...]:
    """For the page: a panel for the delay and one for the shortfall."""
    sweeps = measure(results.collection)
    if not sweeps:
        return ()
    every_v = np.concatenate([sweep.v for sweep in sweeps])
    least = float(every_v[every_v > 0.0].min()) if (every_v > 0.0).any() else 1.0
    zero = 10.0 ** (math.floor(math.log10(least)) - 1)  # place of V = 0 on a logarithmic axis
    delays: list[Trace] = []
    shortfalls: list[Trace] = []
    for sweep in sweeps:
        x = np.where(sweep.v > 0.0, sweep.v, zero)
        for traces, values, bound, number in (
            (delays, sweep.delay, sweep.delay_bound, "%{y:.4~g} s"),
            (shortfalls, sweep.shortfall, sweep.shortfall_bound, "%{y:.3~f}"),
        ):
            traces.extend(_traces(sweep, results.looks, x, values, number))
            if np.isfinite(bound).any():
                traces.append(_neutral_line(x, bound, "bound of Theorem 2", "dot", number, sweep.v))
    # For small V the bound is far above the delay.
    far = any(greatest([sweep.delay_bound]) > 5.0 * greatest([sweep.delay]) for sweep in sweeps)
    delay_axis = titled("mean delay of a round [s]") | ({"type": "log"} if far else {"rangemode": "tozero"})
    shortfall_axis = titled("worst shortfall [share of rounds]") | {"rangemode": "tozero"}
    shared: dict[str, object] = {"xaxis": _v_axis(every_v, zero), "showlegend": True, "hovermode": "closest"}
    return (
        Panel(
            Plot(delays, {**shared, "yaxis": delay_axis}),
            id="tradeoff-delay",
            title="Delay over V",
            note=_delay_note(sweeps, swept=bool(results.collection.tradeoff)),
        ),
        Panel(
            Plot(shortfalls, {**shared, "yaxis": shortfall_axis}),
            id="tradeoff-shortfall",
            title="Shortfall over V",
            note="The worst shortfall of any floor; should grow with V."
            + (f" {_DOTTED}" if _has_bound(sweep.shortfall_bound for sweep in sweeps) else ""),
        ),
    )


def _delay_note(sweeps: Sequence[Tradeoff], *, swept: bool) -> str:
    """How to read the panel of the delay; `swept`: whether bounds were looked for, which only `tradeoff` does."""
    if _has_bound(sweep.delay_bound for sweep in sweeps):
        return f"Should fall as V grows, and stay below its bound. {_DOTTED}"
    return "Should fall as V grows." + (" No bounds: no run met its rates." if swept else "")


def _has_bound(bounds: Iterable[Floats]) -> bool:
    return any(bool(np.isfinite(bound).any()) for bound in bounds)


def _traces(sweep: Tradeoff, looks: Sequence[Look], x: Floats, values: Floats, number: str) -> list[Trace]:
    """A grey line over V, and a mark for every point that is a series of this report."""
    traces = [_neutral_line(x, values, harmless(sweep.name), "solid", number, sweep.v)]
    by_label = {look.label: look for look in looks}
    for at, label in enumerate(sweep.labels):
        look = by_label[label]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": harmless(label),
                "x": [x[at]],
                "y": [values[at]],
                "customdata": [sweep.v[at]],
                "marker": {"color": look.colour, "symbol": look.symbol, "size": 11},
                "showlegend": False,
                "hovertemplate": f"V = %{{customdata:~g}}: {number}",
                "meta": {"s": look.index},
            }
        )
    return traces


def _neutral_line(x: Floats, y: Floats, name: str, dash: str, number: str, v: Floats) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": x,
        "y": y,
        "line": {"color": NEUTRAL, "width": 1.8, "dash": dash},
        "marker": {"symbol": "circle", "size": 5},
        "customdata": v,
        "hovertemplate": f"V = %{{customdata:~g}}: {number}",
    }


def _v_axis(values: Floats, zero: float) -> Axis:
    """A logarithmic axis on which 0 has a place."""
    positive = values[values > 0.0]
    powers: list[int] = []
    if positive.size:
        low, high = math.floor(math.log10(positive.min())), math.ceil(math.log10(positive.max()))
        powers = list(range(high, low - 1, -math.ceil(max(high - low, 1) / (_LABELS - 1))))[::-1]
    ticks = [(zero, "0")] * bool((values == 0.0).any()) + [(10.0**power, f"{10.0**power:g}") for power in powers]
    places: Axis = {"tickvals": [at for at, _ in ticks], "ticktext": [label for _, label in ticks]}
    return titled("V, weight of the delay") | {"type": "log", "tickmode": "array", "tickangle": 0} | places


FIGURE = Figure(
    name="tradeoff",
    position=120,
    section=TRADEOFF,
    title="Delay and shortfall over V",
    caption="Every point is a run with this V.",
    missing="There is no sweep over V here: save the output of `fedfloor tradeoff SCENARIO --format json` as "
    "`tradeoff.json` beside the runs, or compare ddsra with several V.",
    draw=draw,
    plot=plot,
)
