"""Matplotlib for figures in papers: one column wide, told apart by colour, dash, marker and hatch alike."""

__all__ = [
    "BARS",
    "COLUMN",
    "PAGE",
    "STYLE",
    "BarStyle",
    "LineStyle",
    "bar_style",
    "blank",
    "colour_bar",
    "dot_style",
    "in_percent",
    "legend_above",
    "legend_name",
    "line_style",
    "mark_every",
    "name_devices",
    "name_floors",
    "one_panel",
    "part_style",
]

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from fedfloor.reports.drawing.scales import spread
from fedfloor.reports.palette import COLOURS, Linestyle, Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure as Drawing
    from matplotlib.image import AxesImage
    from matplotlib.typing import RcKeyType


_HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++")
COLUMN, PAGE = 3.5, 7.16  #: [inch] width of a journal's column and of its page
_LINE = 0.14  #: [inch] height of a line of a legend
_LETTERS = 52  #: of a name in a legend
_ROWS = 40  #: names of devices beside the rows of a grid
BARS = 60  #: floors up to which each has a bar; more become a line or an area in ascending order
STYLE: "dict[RcKeyType, object]" = {
    "font.size": 8, "axes.labelsize": 8, "axes.titlesize": 8, "xtick.labelsize": 7, "ytick.labelsize": 7,
    "legend.fontsize": 7, "legend.frameon": False, "legend.handlelength": 2.8, "lines.linewidth": 1.3,
    "lines.markersize": 3.2, "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.6,
    "xtick.major.width": 0.6, "ytick.major.width": 0.6, "axes.grid": True, "grid.linewidth": 0.3,
    "grid.color": "#cccccc", "axes.axisbelow": True, "hatch.linewidth": 0.5, "pdf.fonttype": 42,
}  # fmt: skip


class LineStyle(TypedDict):
    """Matplotlib's names for the look of a line."""

    color: str
    linestyle: Linestyle
    marker: str


class BarStyle(TypedDict):
    """Matplotlib's names for the look of a bar."""

    facecolor: str
    hatch: str
    edgecolor: str
    linewidth: int


def line_style(look: Look) -> LineStyle:
    """Line and markers of a series."""
    return {"color": look.colour, "linestyle": look.linestyle, "marker": look.marker}


def dot_style(look: Look) -> LineStyle:
    """Markers of a series without a line."""
    return {"color": look.colour, "linestyle": "none", "marker": look.marker}


def bar_style(look: Look) -> BarStyle:
    """Colour and hatch of the bars of a series."""
    return part_style(look.colour, COLOURS.index(look.colour))


def part_style(colour: str, index: int) -> BarStyle:
    """Colour and hatch of the bars of a part, such as a stage of the round or a cause of failures."""
    return {"facecolor": colour, "hatch": _HATCHES[index % len(_HATCHES)], "edgecolor": "white", "linewidth": 0}


def mark_every(look: Look, points: int) -> tuple[int, int]:
    """First marker and distance between markers of a line; series start at different points."""
    return look.index * points // len(COLOURS) % points, points


def blank(height: float, width: float = COLUMN) -> "Drawing":
    """An empty figure of this size [inch]."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure as Drawing  # noqa: PLC0415

    figure = Drawing(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)  # not pyplot: no window, and the reader's choice of a backend stays
    return figure


def one_panel(height: float = 2.5, width: float = COLUMN) -> tuple["Drawing", "Axes"]:
    """A figure with one pair of axes."""
    figure = blank(height, width)
    return figure, figure.subplots()


def legend_name(label: str) -> str:
    """A series' label as on the page and in tables, short enough for a legend."""
    short = label if len(label) <= _LETTERS else label[: _LETTERS - 1] + "…"
    return short.replace("$", r"\$")  # not a formula


def legend_above(figure: "Drawing", axes: "Axes") -> None:
    """Add a legend above the axes, where it hides no line; a long one makes the figure higher, not the axes lower."""
    handles, labels = axes.get_legend_handles_labels()
    longest = max(map(len, labels))
    room = max(1, int(figure.get_figwidth() * 17 / (longest + 8)))  # about 17 letters an inch
    columns = min(room, 5, len(labels))
    figure.set_figheight(figure.get_figheight() + _LINE * max(0, math.ceil(len(labels) / columns) - 3))
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, columnspacing=1.2)


def in_percent(axis: "Axis") -> None:
    """Label an axis of shares with percent."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator  # noqa: PLC0415

    axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100.0 * share:.4g} %"))


def name_floors(axes: "Axes", floors: Sequence[str], inches: float) -> None:
    """Write names below their bars: upright if they would overlap, and only some of many."""
    at = spread(len(floors), int(inches * 7)).tolist()
    names = [floors[place] for place in at]
    upright = sum(len(name) + 1 for name in names) > inches * 15
    axes.set_xticks(at, names, rotation=90 if upright else 0)
    axes.grid(visible=False, axis="x")
    axes.tick_params(axis="x", length=0)


def name_devices(axes: "Axes", devices: Sequence[str]) -> None:
    """Write names beside their rows, only some of many."""
    at = spread(len(devices), _ROWS).tolist()
    axes.set_yticks(at, [devices[place] for place in at], fontsize=6)
    axes.grid(visible=False)


def colour_bar(figure: "Drawing", axes: "Axes", image: "AxesImage", label: str) -> "Colorbar":
    """Add the scale of an image's colours."""
    bar = figure.colorbar(image, ax=axes, pad=0.02, aspect=30)
    bar.set_label(label)
    return bar
