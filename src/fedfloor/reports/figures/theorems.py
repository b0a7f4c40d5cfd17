"""What was measured beside the bounds of Theorems 1 and 2."""

__all__ = ["divergence", "tradeoff"]

from typing import TYPE_CHECKING, Any

import numpy as np

from fedfloor.reports import measures
from fedfloor.reports.figures.canvas import Laid, blank, legend_above, longest, look, one_panel
from fedfloor.reports.palette import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def divergence(laid: Laid) -> "Figure | None":
    """Theorem 1: nothing should lie above the diagonal."""
    found = [(i, name, seen) for i, name, s in laid.each() if (seen := measures.divergence(s)) is not None]
    measured = np.concatenate([entry.measured for _, _, entry in found] or [np.zeros(0)])
    bound = np.concatenate([entry.bound for _, _, entry in found] or [np.zeros(0)])
    if not ((measured > 0) & (bound > 0)).any():
        return None
    figure, axes = one_panel(2.7)
    low, high = float(measured[measured > 0].min()) / 1.5, float(max(measured.max(), bound.max())) * 1.5
    axes.plot([low, high], [low, high], color="#888888", linewidth=0.8, linestyle=":", label="measured = bound")
    for index, name, entry in found:
        dots = look(index) | {"linestyle": "none", "alpha": 0.6}
        axes.plot(entry.bound, entry.measured, label=f"{name}: {entry.broken} of {entry.bound.size} above", **dots)
    limits: dict[str, Any] = {"xlim": (float(bound[bound > 0].min()) / 1.5, high), "ylim": (low, high)}
    axes.set(xlabel="bound of Theorem 1", ylabel="measured divergence", xscale="log", yscale="log", **limits)
    legend_above(figure, axes)
    return figure


def tradeoff(laid: Laid) -> "Figure | None":
    """Theorem 2: delay and shortfall over V, with the bounds where there are any."""
    found = measures.tradeoffs(laid.collection)
    if not found:
        return None
    figure = blank(3.6)
    upper, lower = figure.subplots(2, 1, sharex=True)
    least = min((float(v) for entry in found for v in entry.v if v > 0), default=1.0)
    for index, entry in enumerate(found):
        v = np.where(entry.v > 0, entry.v, least / 10)
        panels = ((upper, entry.delay, entry.delay_bound), (lower, entry.shortfall, entry.shortfall_bound))
        for axes, values, bound in panels:
            axes.plot(v, np.where(np.isfinite(values), values, np.nan), label=entry.name, **look(index))
            if np.isfinite(bound).any():
                dots: dict[str, Any] = {"color": COLOURS[index % len(COLOURS)], "linestyle": ":", "linewidth": 1.0}
                axes.plot(v, np.where(np.isfinite(bound), bound, np.nan), label="bound of Theorem 2", **dots)
    upper.set(ylabel="mean delay [s]", ylim=(0, 1.6 * longest([entry.delay for entry in found]) or None))
    zero = any((entry.v == 0).any() for entry in found)
    lower.set(ylabel="worst shortfall", xscale="log", ylim=(0, None))
    lower.set_xlabel(f"V (V = 0 is drawn at {least / 10:g})" if zero else "V")
    legend_above(figure, upper)
    return figure
