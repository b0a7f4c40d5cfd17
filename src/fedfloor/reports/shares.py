"""The figure of `fedfloor profile --compare`: shares of the layers by every cost model, side by side."""

__all__ = ["draw_shares", "write_shares"]

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedfloor.errors import MissingExtraError
from fedfloor.reports.drawing.paper import (
    PAGE,
    bar_style,
    in_percent,
    legend_above,
    legend_name,
    name_floors,
    one_panel,
)
from fedfloor.reports.palette import look_of
from fedfloor.reports.pictures import in_print, save_picture
from fedfloor.runs.shares import LayerShares

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def draw_shares(shares: LayerShares) -> "Drawing":
    """A group of bars for every layer, one bar per cost model or profile."""
    figure, axes = one_panel(2.8, PAGE)
    count = len(shares.labels)
    width = 0.8 / count
    at = np.arange(len(shares.layers))
    for index, (label, row) in enumerate(zip(shares.labels, shares.shares, strict=True)):
        offset = (index - (count - 1) / 2) * width
        axes.bar(at + offset, row, width, label=legend_name(label), **bar_style(look_of(index)))
    name_floors(axes, shares.layers, PAGE - 0.7)
    in_percent(axes.yaxis)
    axes.set_ylabel(f"share of a step with {shares.batch} samples")
    legend_above(figure, axes)
    return figure


def write_shares(shares: LayerShares, path: Path) -> None:
    """Write the figure as PNG. Needs the extra 'report'."""
    try:
        with in_print():
            save_picture(draw_shares(shares), path)
    except ModuleNotFoundError as error:
        raise MissingExtraError("the figure", "report") from error
