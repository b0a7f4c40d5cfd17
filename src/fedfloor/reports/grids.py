"""The figure of `fedfloor simulate --vary`: delay, energy and participation over the values of the first setting."""

__all__ = ["draw_grid", "write_grid"]

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedfloor.reports.drawing.paper import PAGE, blank, legend_above, legend_name, line_style
from fedfloor.reports.drawing.scales import greatest, spread
from fedfloor.reports.palette import looks_of
from fedfloor.reports.pictures import in_print, save_picture
from fedfloor.rounds.summary import RunSummary
from fedfloor.runs.vary import Cell, Grid, value_text
from fedfloor.scheduling.registry import shown_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_LONGEST = 24  #: characters of a value
_NAMED = 12  #: values below a panel; of more, some are named, with the first and the last

#: what the panels show, from left to right and from top to bottom
_PANELS: tuple[tuple[str, Callable[[RunSummary], float]], ...] = (
    ("mean delay of a round [s]", lambda summary: summary.mean_delay),
    ("floors completed per round", lambda summary: summary.completed / summary.rounds),
    ("energy per round [J]", lambda summary: summary.mean_energy),
    ("worst shortfall", lambda summary: summary.shortfall),
)


def draw_grid(grid: Grid) -> "Drawing":
    """Four panels; the values of the first setting stand side by side, and all else that varies has its own line."""
    first = grid.keys[0]
    values = list(dict.fromkeys(value_text(cell.settings[first]) for cell in grid.cells))
    place = {value: at for at, value in enumerate(values)}
    named = spread(len(values), _NAMED).tolist()
    ticks = [values[at] for at in named]
    labels = list(dict.fromkeys(_label(cell, grid) for cell in grid.cells))
    figure = blank(4.8, PAGE)
    panels = figure.subplots(2, 2).ravel()
    for axes, (title, measure) in zip(panels, _PANELS, strict=True):
        for look in looks_of(labels):
            cells = [cell for cell in grid.cells if _label(cell, grid) == look.label]
            at = [place[value_text(cell.settings[first])] for cell in cells]
            heights = [measure(cell.summary) for cell in cells]
            axes.plot(at, heights, label=look.label.replace("$", r"\$"), **line_style(look))
        axes.set_xticks(named, map(_tick, ticks), rotation=30 if max(map(len, ticks)) > 6 else 0)
        axes.set_xlabel(first)
        axes.set_ylabel(title)
        axes.set_ylim(0, 1.08 * greatest([np.array([measure(cell.summary) for cell in grid.cells])]) or None)
        axes.margins(x=0.08)
    legend_above(figure, panels[0])
    return figure


def write_grid(grid: Grid, path: Path) -> Path:
    """Write the figure as PNG; returns the file. Needs the extra 'report'."""
    with in_print():
        return save_picture(draw_grid(grid), path)


def _tick(value: str) -> str:
    """A value below its place; a long one is shortened, because it would leave no room for the lines."""
    return (value if len(value) <= _LONGEST else f"{value[: _LONGEST - 3]}...").replace("$", r"\$")


def _label(cell: Cell, grid: Grid) -> str:
    """What a line stands for: the settings but for the first, and the policy if there are several."""
    parts = [f"{key} = {value_text(cell.settings[key])}" for key in grid.keys[1:]]
    several = len({other.policy for other in grid.cells}) > 1
    return ", ".join([*parts, *([legend_name(shown_name(cell.policy))] if several or not parts else [])])
