"""Stacked bars of every floor, one figure per series, in print and on the page."""

__all__ = ["Stacks", "draw_stacks", "plot_stacks", "stacks_figure"]

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from fedfloor.reports.arrays import SeriesArrays
from fedfloor.reports.drawing.figure import Figure, Panel
from fedfloor.reports.drawing.paper import (
    BARS,
    COLUMN,
    PAGE,
    blank,
    legend_above,
    legend_name,
    name_floors,
    part_style,
)
from fedfloor.reports.drawing.plots import Plot, Trace, harmless, names_axis, titled
from fedfloor.reports.drawing.scales import greatest
from fedfloor.reports.measures.splits import Split, without
from fedfloor.reports.palette import Look
from fedfloor.reports.results import Results
from fedfloor.reports.sections import WHERE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

_PANELS = 6  #: series in print


@dataclass(frozen=True, slots=True, eq=False)
class Stacks:
    """The same split of every series' rounds."""

    splits: Sequence[tuple[Look, Split]]
    quantity: str  #: that is split
    unit: str
    colours: Mapping[str, str]  #: of the parts


def stacks_figure(
    measure: Callable[[SeriesArrays], Split],
    *,
    quantity: str,
    unit: str,
    colours: Mapping[str, str],
    links: str,
    position: int,
) -> Figure:
    """The figure of a quantity that is split; `links` is the part that has no meaning where links cost nothing."""

    def stacks(results: Results) -> Stacks:
        splits = results.measured(measure)
        if not results.has_links:
            splits = [(look, without(split, links)) for look, split in splits]
        return Stacks(splits, quantity=quantity, unit=unit, colours=colours)

    def draw(results: Results) -> "Drawing | None":
        return draw_stacks(stacks(results))

    def plot(results: Results) -> tuple[Panel, ...]:
        return plot_stacks(stacks(results))

    return Figure(
        name=f"{quantity}-per-floor",
        position=position,
        section=WHERE,
        title=f"{quantity.capitalize()} per floor",
        caption="Mean over the rounds in which a floor was selected; all policies share the axis.",
        missing="This policy has selected no floor so far.",
        draw=draw,
        plot=plot,
    )


def draw_stacks(stacks: Stacks) -> "Drawing | None":
    """A panel for each of the first series; None if no floor was selected."""
    splits = [(look, split) for look, split in stacks.splits if np.isfinite(split.values).any()][:_PANELS]
    if not splits:
        return None
    columns = 1 if len(splits) == 1 else 2
    rows = math.ceil(len(splits) / columns)
    width = (COLUMN, PAGE)[columns - 1]
    figure = blank(0.4 + 1.8 * rows, width)
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel().tolist()
    for panel, entry in zip_longest(panels, splits):
        if entry is None:
            panel.set_visible(False)
            continue
        look, split = entry
        panel.set_title(legend_name(look.label))
        if len(split.floors) > BARS:
            _draw_areas(panel, split, stacks.colours)
        else:
            _draw_bars(panel, split, stacks.colours, width / columns - 0.5)
    for panel in panels[::columns]:
        panel.set_ylabel(f"mean of a round [{stacks.unit}]")
    legend_above(figure, panels[0])
    return figure


def _draw_areas(axes: "Axes", split: Split, colours: Mapping[str, str]) -> None:
    """Areas over the floors in ascending order."""
    total = np.nansum(split.values, axis=0)
    areas = np.nan_to_num(split.values[:, np.argsort(total)], posinf=0.0)
    axes.stackplot(
        np.arange(1, len(total) + 1),
        areas,
        labels=split.parts,
        colors=[colours[part] for part in split.parts],
        linewidth=0,
    )
    axes.set_xlabel("floors, the least first")


def _draw_bars(axes: "Axes", split: Split, colours: Mapping[str, str], inches: float) -> None:
    """A bar for every floor."""
    below, at = np.zeros(len(split.floors)), np.arange(len(split.floors))
    for index, (part, values) in enumerate(zip(split.parts, split.values, strict=True)):
        height = np.where(np.isfinite(values), values, 0.0)
        axes.bar(at, height, 0.72, bottom=below, label=part, **part_style(colours[part], index))
        below += height
    name_floors(axes, split.floors, inches)


def plot_stacks(stacks: Stacks) -> tuple[Panel, ...]:
    """A panel for every series, all with the same axis."""
    top = greatest(split.values.sum(axis=0) for _, split in stacks.splits)
    return tuple(
        Panel(
            _plot(stacks, look, split, top) if split.selected.any() else None,
            id=f"{stacks.quantity}-{look.index}",
            title=f"{stacks.quantity.capitalize()}: {look.label}",
            series=look.index,
        )
        for look, split in stacks.splits
    )


def _plot(stacks: Stacks, look: Look, split: Split, top: float) -> Plot:
    names = [harmless(name) for name in split.floors]
    data: list[Trace] = [
        {
            "type": "bar",
            "name": part,
            "x": np.arange(len(split.floors)),
            "y": values,
            "customdata": [[name, int(count)] for name, count in zip(names, split.selected, strict=True)],
            "marker": {"color": stacks.colours[part]},
            "hovertemplate": f"%{{customdata[0]}}: %{{y:.3~g}} {stacks.unit}<br>mean of %{{customdata[1]}} rounds",
            "meta": {"s": look.index},
        }
        for part, values in zip(split.parts, split.values, strict=True)
    ]
    layout = {
        "barmode": "stack",
        "bargap": 0.25,
        "xaxis": names_axis(split.floors),
        "yaxis": titled(f"{stacks.quantity} [{stacks.unit}]") | {"range": [0, top * 1.05 if top > 0 else 1]},
        "showlegend": True,
        "legend": {"traceorder": "normal"},
    }
    return Plot(data, layout, height=300)
