"""Floor by floor: how often they take part, where their rounds go, and why they fail."""

__all__ = ["energies", "failures", "participation", "rates_compared", "times"]

import math
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from fedfloor.reports import measures
from fedfloor.reports.arrays import SeriesArrays
from fedfloor.reports.figures.canvas import (
    BARS,
    COLUMN,
    PAGE,
    Laid,
    blank,
    fill,
    in_percent,
    legend_above,
    look,
    name_floors,
    one_panel,
)
from fedfloor.reports.palette import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def participation(laid: Laid) -> "Figure | None":
    """Fig. 6 of the paper: bars for what was achieved, a line across each for the wanted rate."""
    found = [(index, name, measures.participation(series)) for index, name, series in laid.each()]
    floors = found[0][2].floors
    shown = [entry for entry in found if entry[2].floors == floors]  # others have other floors
    if len(floors) > BARS:
        return _sorted_participation(shown)
    wide = COLUMN if len(floors) * len(shown) <= 48 else PAGE
    figure, axes = one_panel(2.5, wide)
    width = 0.84 / len(shown)
    for number, (index, name, entry) in enumerate(shown):
        at = np.arange(len(floors)) + (number - (len(shown) - 1) / 2) * width
        axes.bar(at, entry.achieved, width * 0.94, label=name, **fill(index))
        label = "target rate" if number == len(shown) - 1 else "_nolegend_"
        axes.hlines(entry.target, at - width / 2, at + width / 2, color="black", linewidth=1.0, label=label)
    name_floors(axes, floors, wide - 0.5)
    axes.set(ylabel="share of rounds completed", ylim=(0, None))
    legend_above(figure, axes)
    return figure


def rates_compared(laid: Laid) -> "Figure | None":
    """Fig. 2 of the paper: every floor's derived rate against the observed one."""
    found = [(i, name, rates) for i, name, series in laid.each() if (rates := measures.rates(series)) is not None]
    if not found:
        return None
    figure, axes = one_panel(3.0)
    top = 1.08 * max(float(np.nanmax([entry.derived, entry.observed])) for _, _, entry in found)
    axes.plot([0, top], [0, top], color="#888888", linewidth=0.8, linestyle=":", label="equal")
    for index, name, entry in found:
        axes.plot(entry.derived, entry.observed, label=name, **(look(index) | {"linestyle": "none"}))
    first = found[0][2]
    named = [entry for entry in zip(first.observed, first.derived, first.floors, strict=True) if np.isfinite(entry[0])]
    line = {"arrowstyle": "-", "linewidth": 0.4, "color": "#999999"}
    written: dict[str, Any] = {"fontsize": 6, "color": "#444444", "verticalalignment": "center"}
    place = -math.inf
    for y, x, floor in sorted(named[:12]):  # beside the panel, from below, so that names do not cover each other
        place = max(y, place + 0.05 * top)
        axes.annotate(floor, (x, y), (1.03 * top, place), arrowprops=line, annotation_clip=False, **written)
    limits: dict[str, Any] = {"xlim": (0, top), "ylim": (0, top)}
    axes.set(xlabel="derived participation rate", ylabel="observed participation rate", aspect="equal", **limits)
    legend_above(figure, axes)
    return figure


def times(laid: Laid) -> "Figure | None":
    """Where a round's time goes."""
    return _stacked(laid, measures.time_split, "s")


def energies(laid: Laid) -> "Figure | None":
    """Where a round's energy goes."""
    return _stacked(laid, measures.energy_split, "J")


def failures(laid: Laid) -> "Figure | None":
    """What went wrong, by cause."""
    shown = [(name, measures.failures(series)) for _, name, series in laid.each()]
    causes = sorted({cause for _, entry in shown for cause in entry.counts})
    if not causes:
        return None
    figure, axes = one_panel(0.8 + 0.24 * len(shown))
    left = np.zeros(len(shown))
    for index, cause in enumerate(causes):
        share = np.array([entry.counts.get(cause, 0) / max(1, entry.selected) for _, entry in shown])
        axes.barh(np.arange(len(shown)), share, 0.65, left=left, label=cause, **fill(index))
        left += share
    axes.set_yticks(range(len(shown)), [name for name, _ in shown])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    in_percent(axes.xaxis)
    axes.set(xlabel="failed, of the floors picked", xlim=(0, None))
    legend_above(figure, axes)
    return figure


def _sorted_participation(shown: Sequence[tuple[int, str, measures.Participation]]) -> "Figure":
    """Of many floors, how many take part how often."""
    figure, axes = one_panel()
    for index, name, entry in shown:
        at = np.arange(1, len(entry.floors) + 1)
        every = max(1, len(entry.floors) // 12)
        axes.plot(
            at,
            np.sort(entry.achieved),
            label=name,
            markevery=(index * every // len(COLOURS) % every, every),
            **look(index),
        )
    axes.plot(at, np.sort(shown[0][2].target), color="black", linewidth=0.8, label="target rate")
    axes.set(xlabel="floors, the least served first", ylabel="share of rounds completed", ylim=(0, None))
    legend_above(figure, axes)
    return figure


def _stacked(laid: Laid, of: Callable[[SeriesArrays], measures.Split], unit: str, most: int = 6) -> "Figure | None":
    """A panel for each of the first series, stacked bars per floor."""
    shown = [(name, split) for _, name, series in laid.each() if np.isfinite((split := of(series)).values).any()][:most]
    if not shown:
        return None
    columns = 1 if len(shown) == 1 else 2
    rows = math.ceil(len(shown) / columns)
    width = (COLUMN, PAGE)[columns - 1]
    figure = blank(0.4 + 1.8 * rows, width)
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel().tolist()
    for panel, entry in zip_longest(panels, shown):
        if entry is None:
            panel.set_visible(False)
            continue
        name, split = entry
        panel.set_title(name)
        if len(split.floors) > BARS:
            total = np.nansum(split.values, axis=0)
            areas = np.nan_to_num(split.values[:, np.argsort(total)], posinf=0.0)
            panel.stackplot(np.arange(1, len(total) + 1), areas, labels=split.parts, colors=COLOURS, linewidth=0)
            panel.set_xlabel("floors, the least first")
            continue
        below, at = np.zeros(len(split.floors)), np.arange(len(split.floors))
        for index, (part, values) in enumerate(zip(split.parts, split.values, strict=True)):
            height = np.where(np.isfinite(values), values, 0.0)
            panel.bar(at, height, 0.72, bottom=below, label=part, **fill(index))
            below += height
        name_floors(panel, split.floors, width / columns - 0.5)
    for panel in panels[::columns]:
        panel.set_ylabel(f"mean of a round [{unit}]")
    legend_above(figure, panels[0])
    return figure
