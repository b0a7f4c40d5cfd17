"""The contract of a figure: what every module of `reports/figures` describes in one value."""

__all__ = ["Figure", "Panel", "panels_of"]

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedfloor.arrays import Ints
from fedfloor.reports.arrays import RunArrays
from fedfloor.reports.drawing.plots import Plot
from fedfloor.reports.results import Results
from fedfloor.reports.sections import Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """One card of a figure on the page; id and title are the figure's if they are empty."""

    plot: Plot | None  #: None shows the figure's sentence for missing data, unless there are choices
    id: str = ""
    title: str = ""
    note: str = ""  #: after the figure's caption: what holds for these runs or for this panel
    series: int | None = None  #: index of the only series it shows
    choices: tuple[tuple[str, Plot], ...] = ()  #: named plots that the reader chooses from, in place of one


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Figure:
    """A figure of the report, in print and on the page."""

    name: str  #: of its files in the folder of figures; also its id on the page
    position: int  #: on the page and in the folder; unique
    section: Section
    title: str
    caption: str  #: what it shows and how to read it
    missing: str = ""  #: sentence in place of the figure if there is nothing to draw: why, and what to do
    missing_real: str = ""  #: the same for runs on real machines; empty if `missing` fits them too
    wide: bool = False  #: whether it takes the full width of the page
    draw: "Callable[[Results], Drawing | None] | None"  #: for papers; None if there is no such form
    plot: Callable[[Results], tuple[Panel, ...]] | None  #: for the page; None if there is no such form
    #: what the page's script needs of a run at these rounds, indices from 0
    explore: Callable[[RunArrays, Ints], Mapping[str, object]] | None = None
    applies: Callable[[Results], bool] = lambda _: True  #: whether it has a meaning for these runs


def panels_of(plot: Plot | None, *, id: str = "", note: str = "") -> tuple[Panel, ...]:  # noqa: A002
    """Return the only panel of a figure; none if there is nothing to draw."""
    return () if plot is None else (Panel(plot, id=id, note=note),)
