"""Measured divergence of the floors against the bound of Theorem 1."""

__all__ = ["FIGURE", "Divergence", "draw", "measure", "plot"]

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.reports.arrays import SeriesArrays
from fedfloor.reports.drawing.figure import Figure, Panel, panels_of
from fedfloor.reports.drawing.paper import dot_style, legend_above, legend_name, one_panel
from fedfloor.reports.drawing.plots import Plot, Trace, diagonal, harmless, log_axis, titled
from fedfloor.reports.drawing.scales import spread
from fedfloor.reports.measures.seeds import floors_of
from fedfloor.reports.palette import Look
from fedfloor.reports.results import Results
from fedfloor.reports.sections import BOUND

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_DOTS = 1500  #: of a series on the page


@dataclass(frozen=True, slots=True, eq=False)
class Divergence:
    """Bound and measurement of every floor in every observed round, each array (P,)."""

    floors: tuple[str, ...]  #: (M,)
    floor: Ints  #: index into floors
    round: Ints  #: from 0, as in the log
    seed: Ints
    measured: Floats
    bound: Floats

    @property
    def exceeded(self) -> int:
        """Number of measurements above their bound."""
        return int(np.sum(self.measured > self.bound))


def measure(series: SeriesArrays) -> Divergence | None:
    """Measured divergence and its bound; None if no round has both."""
    floors = floors_of(series)
    columns: list[Floats] = []
    for run in series.runs:
        t, m = np.nonzero(np.isfinite(run.divergence) & np.isfinite(run.bound))
        index = np.array([floors.index(name) for name in run.floors])
        seed = np.full(t.size, run.run.scenario.seed)
        columns.append(np.stack([index[m], run.rounds[t] - 1, seed, run.divergence[t, m], run.bound[t, m]]))
    floor, rounds, seeds, measured, bound = np.concatenate(columns, axis=1)
    if measured.size == 0:
        return None
    return Divergence(floors, floor.astype(int), rounds.astype(int), seeds.astype(int), measured, bound)


def _measures(results: Results) -> list[tuple[Look, Divergence]]:
    return [(look, entry) for look, entry in results.measured(measure) if entry is not None]


def draw(results: Results) -> "Drawing | None":
    """For papers, on logarithmic axes; no point should lie above the diagonal."""
    measures = _measures(results)
    measured = np.concatenate([entry.measured for _, entry in measures] or [np.zeros(0)])
    bound = np.concatenate([entry.bound for _, entry in measures] or [np.zeros(0)])
    if not ((measured > 0) & (bound > 0)).any():
        return None
    figure, axes = one_panel(2.7)
    low, high = float(measured[measured > 0].min()) / 1.5, float(max(measured.max(), bound.max())) * 1.5
    axes.plot([low, high], [low, high], color="#888888", linewidth=0.8, linestyle=":", label="measured = bound")
    for look, entry in measures:
        name = f"{legend_name(look.label)}: {entry.exceeded} of {entry.bound.size} above"
        axes.plot(entry.bound, entry.measured, label=name, alpha=0.6, **dot_style(look))
    axes.set(xlabel="bound of Theorem 1", ylabel="measured divergence", xscale="log", yscale="log")
    axes.set(xlim=(float(bound[bound > 0].min()) / 1.5, high), ylim=(low, high))
    legend_above(figure, axes)
    return figure


def plot(results: Results) -> tuple[Panel, ...]:
    """For the page, on logarithmic axes."""
    measures = _measures(results)
    if not measures:
        return ()
    bound = np.concatenate([entry.bound for _, entry in measures])
    measured = np.concatenate([entry.measured for _, entry in measures])
    least_bound, least_measured = (float(values[values > 0.0].min(initial=math.inf)) for values in (bound, measured))
    x_ends = [least_bound / 1.5, float(bound.max()) * 1.5] if least_bound < math.inf else [0.1, 1.0]
    y_ends = [min(least_measured / 1.5, x_ends[0]), max(float(measured.max()) * 1.5, x_ends[1])]
    data = [*(_trace(look, entry) for look, entry in measures), diagonal(x_ends, "measured = bound")]
    layout = {
        "hovermode": "closest",
        "showlegend": True,
        "xaxis": titled("bound of Theorem 1") | log_axis(x_ends),
        "yaxis": titled("measured divergence") | log_axis(y_ends),
    }
    crowded = any(entry.measured.size > _DOTS for _, entry in measures)
    omission = f"At most {_DOTS} measurements per policy are drawn." if crowded else ""
    exceeded = sum(entry.exceeded for _, entry in measures)
    note = f"The bound was exceeded in {exceeded} of {measured.size} measurements."
    return panels_of(Plot(data, layout, omission=omission), id="bound", note=note)


def _trace(look: Look, entry: Divergence) -> Trace:
    at = spread(entry.measured.size, _DOTS)
    several_seeds = len(set(entry.seed.tolist())) > 1
    places = [
        f"{harmless(entry.floors[entry.floor[n]])}, round {entry.round[n]}"
        + (f", seed {entry.seed[n]}" if several_seeds else "")
        for n in at
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": harmless(look.label),
        "x": entry.bound[at],
        "y": entry.measured[at],
        "text": places,
        "marker": {"color": look.colour, "symbol": look.symbol, "size": 8, "opacity": 0.75},
        "hovertemplate": "%{text}<br>bound %{x:.3~g}, measured %{y:.3~g}",
        "meta": {"s": look.index},
    }


FIGURE = Figure(
    name="divergence",
    position=140,
    section=BOUND,
    title="Divergence of the floors",
    caption="Each mark is a floor in an observed round; below the dashed line the bound holds.",
    missing="No divergence was measured: train with `--set participation.observe_every=10`, for example.",
    missing_real="Real machines do not measure the divergence, because that needs gradients of all data.",
    wide=True,
    draw=draw,
    plot=plot,
)
