"""Accuracy and cumulative delay."""

__all__ = ["accuracy_over_rounds", "accuracy_over_time", "delay"]

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedfloor.reports import measures
from fedfloor.reports.cells import time_unit
from fedfloor.reports.figures.canvas import Laid, in_percent, legend_above, longest, look, one_panel
from fedfloor.reports.measures import Curve
from fedfloor.reports.palette import COLOURS, shade_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def accuracy_over_rounds(laid: Laid) -> "Figure | None":
    """Fig. 3 and 4 of the paper."""
    found = [(index, name, measures.accuracy_over_rounds(series)) for index, name, series in laid.each()]
    drawn = _curves(found, "round", "test accuracy")
    if drawn is None:
        return None
    in_percent(drawn[1].yaxis)
    return drawn[0]


def accuracy_over_time(laid: Laid) -> "Figure | None":
    """Test accuracy against simulated time."""
    found = [(index, name, measures.accuracy_over_time(series)) for index, name, series in laid.each()]
    scale, unit = time_unit(longest([curve.x for _, _, curve in found if curve is not None]))
    scaled = [(i, name, None if curve is None else replace(curve, x=curve.x / scale)) for i, name, curve in found]
    drawn = _curves(scaled, f"simulated time [{unit}]", "test accuracy", step=True)
    if drawn is None:
        return None
    in_percent(drawn[1].yaxis)
    return drawn[0]


def delay(laid: Laid) -> "Figure | None":
    """Fig. 5 of the paper."""
    found = [(index, name, measures.delay_over_rounds(series)) for index, name, series in laid.each()]
    scale, unit = time_unit(longest([curve.mean for _, _, curve in found]))
    scaled = [
        (i, name, replace(curve, mean=curve.mean / scale, low=curve.low / scale, high=curve.high / scale))
        for i, name, curve in found
    ]
    drawn = _curves(scaled, "round", f"cumulative delay [{unit}]")
    if drawn is None:
        return None
    drawn[1].set_ylim(0, None)
    return drawn[0]


def _curves(
    found: Sequence[tuple[int, str, Curve | None]], x: str, y: str, *, step: bool = False
) -> "tuple[Figure, Axes] | None":
    """Lines through the means with a dozen markers each, and a band from the least to the greatest of the seeds."""
    drawn = [entry for entry in found if entry[2] is not None and np.isfinite(entry[2].mean).any()]
    if not drawn:
        return None
    figure, axes = one_panel()
    for index, name, curve in drawn:
        assert curve is not None
        known = np.isfinite(curve.mean)
        every = max(1, math.ceil(known.sum() / 12))
        style: dict[str, Any] = {"drawstyle": "steps-post"} if step else {}
        marks = (index * every // len(COLOURS) % every, every)  # not all at the same place
        axes.plot(curve.x[known], curve.mean[known], label=name, markevery=marks, **look(index), **style)
        if curve.runs.max() > 1:
            band: dict[str, Any] = {"color": look(index)["color"], "alpha": shade_of(len(drawn)), "linewidth": 0}
            low, high = curve.low[known], curve.high[known]
            axes.fill_between(curve.x[known], low, high, step="post" if step else None, **band)
    axes.set(xlabel=x, ylabel=y, xlim=(0, None))
    legend_above(figure, axes)
    return figure, axes
