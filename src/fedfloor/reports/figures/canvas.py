"""What the figures for papers have in common: one column wide, told apart by colour, dash, marker and hatch alike."""

__all__ = [
    "BARS",
    "COLUMN",
    "PAGE",
    "STYLE",
    "Laid",
    "blank",
    "fill",
    "in_percent",
    "legend_above",
    "longest",
    "look",
    "name_devices",
    "name_floors",
    "one_panel",
    "scale_beside",
]

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.reports.arrays import SeriesArrays
from fedfloor.reports.palette import COLOURS, look_of
from fedfloor.reports.reading import Collection

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++")
COLUMN, PAGE = 3.5, 7.16  #: [inch] width of a journal's column and of its page
_LINE = 0.14  #: [inch] of a legend
BARS = 60  #: floors that have a bar each; more become a line or an area, in ascending order
STYLE: dict[Any, Any] = {
    "font.size": 8, "axes.labelsize": 8, "axes.titlesize": 8, "xtick.labelsize": 7, "ytick.labelsize": 7,
    "legend.fontsize": 7, "legend.frameon": False, "legend.handlelength": 2.8, "lines.linewidth": 1.3,
    "lines.markersize": 3.2, "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.6,
    "xtick.major.width": 0.6, "ytick.major.width": 0.6, "axes.grid": True, "grid.linewidth": 0.3,
    "grid.color": "#cccccc", "axes.axisbelow": True, "hatch.linewidth": 0.5, "pdf.fonttype": 42,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Laid:
    """What figures are drawn from."""

    collection: Collection
    series: tuple[SeriesArrays, ...]
    names: tuple[str, ...]  #: of the series, short

    def each(self) -> Iterator[tuple[int, str, SeriesArrays]]:
        """Index, name and arrays; a series looks the same in every figure."""
        return zip(range(len(self.names)), self.names, self.series, strict=True)


def blank(height: float, width: float = COLUMN) -> "Figure":
    """An empty figure, so high and wide [inch]."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)  # not pyplot: no window, and the reader's choice of a backend stays
    return figure


def one_panel(height: float = 2.5, width: float = COLUMN) -> tuple["Figure", "Axes"]:
    """A figure with one pair of axes."""
    figure = blank(height, width)
    return figure, figure.subplots()


def legend_above(figure: "Figure", axes: "Axes") -> None:
    """Above the axes, where it hides no line; a long one makes the figure higher, not the axes lower."""
    handles, labels = axes.get_legend_handles_labels()
    longest = max(map(len, labels))
    fitting = max(1, int(figure.get_figwidth() * 17 / (longest + 8)))  # about 17 letters an inch
    columns = min(fitting, 4, len(labels))
    figure.set_figheight(figure.get_figheight() + _LINE * max(0, math.ceil(len(labels) / columns) - 3))
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, columnspacing=1.2)


def look(index: int) -> dict[str, Any]:
    """Line and marker of a series, the same in every figure."""
    found = look_of(index)
    return {"color": found.colour, "linestyle": found.linestyle, "marker": found.marker}


def fill(index: int) -> dict[str, Any]:
    """Colour and hatch of a bar."""
    part = index % len(COLOURS)
    return {"facecolor": COLOURS[part], "hatch": _HATCHES[part], "edgecolor": "white", "linewidth": 0}


def longest(values: Sequence[Floats]) -> float:
    """The greatest finite value of several arrays."""
    return max((float(part[np.isfinite(part)].max(initial=0.0)) for part in values), default=0.0)


def in_percent(axis: Any) -> None:
    """Label an axis of shares with percent."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator  # noqa: PLC0415

    axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100.0 * share:.4g} %"))


def name_floors(axes: "Axes", floors: Sequence[str], inches: float) -> None:
    """Names below their bars; upright where they would run into each other, of many only some."""
    step = math.ceil(len(floors) / (inches * 7))
    shown = list(floors)[::step]
    turned = sum(len(name) + 1 for name in shown) > inches * 15
    axes.set_xticks(np.arange(len(floors))[::step], shown, rotation=90 if turned else 0)
    axes.grid(visible=False, axis="x")
    axes.tick_params(axis="x", length=0)


def name_devices(axes: "Axes", devices: Sequence[str]) -> None:
    """Names beside their rows; of many only some."""
    step = math.ceil(len(devices) / 40)
    axes.set_yticks(range(0, len(devices), step), list(devices)[::step], fontsize=6)
    axes.grid(visible=False)


def scale_beside(figure: "Figure", axes: "Axes", image: Any, label: str) -> Any:
    """A colour bar for a picture."""
    bar = figure.colorbar(image, ax=axes, pad=0.02, aspect=30)
    bar.set_label(label)
    return bar
