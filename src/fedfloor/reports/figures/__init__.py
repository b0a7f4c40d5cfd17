"""Pictures for papers: one column wide, legible in print, told apart by colour, dash and marker alike."""

__all__ = ["FIGURES", "draw_figures"]

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedfloor.errors import MissingExtraError
from fedfloor.reports.arrays import lay_out
from fedfloor.reports.figures.canvas import STYLE, Laid
from fedfloor.reports.figures.curves import accuracy_over_rounds, accuracy_over_time, delay
from fedfloor.reports.figures.devices import cuts, data_held
from fedfloor.reports.figures.floors import energies, failures, participation, rates_compared, times
from fedfloor.reports.figures.theorems import divergence, tradeoff
from fedfloor.reports.reading import Collection
from fedfloor.reports.saving import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 200
_LETTERS = 52  #: of a name
#: name of the file -> what draws it, or finds that there is nothing to draw
FIGURES: Mapping[str, Callable[[Laid], "Figure | None"]] = {
    "accuracy-rounds": accuracy_over_rounds,
    "accuracy-time": accuracy_over_time,
    "delay": delay,
    "participation": participation,
    "rates": rates_compared,
    "time-per-floor": times,
    "energy-per-floor": energies,
    "cuts": cuts,
    "failures": failures,
    "tradeoff": tradeoff,
    "data": data_held,
    "divergence": divergence,
}


def draw_figures(
    collection: Collection, folder: Path, *, pdf: bool = False, on_figure: Callable[[str], None] = lambda _: None
) -> tuple[Path, ...]:
    """Write every figure there is data for into the folder, as PNG and if asked as PDF; returns the files written."""
    try:
        import matplotlib as mpl  # noqa: PLC0415  # only for figures, and an extra
    except ModuleNotFoundError as error:
        raise MissingExtraError("figures", "report") from error
    names = tuple(_short(series.label) for series in collection.series)
    laid = Laid(collection, lay_out(collection), names)
    written: list[Path] = []
    for name, draw in FIGURES.items():
        on_figure(name)
        with mpl.rc_context(STYLE):  # the reader's own settings come back afterwards
            figure = draw(laid)
            if figure is None:
                continue
            written.append(_saved(figure, folder / f"{name}.png", format="png", dpi=_DPI))
            if pdf:  # without a date equal runs give equal files
                path = folder / f"{name}.pdf"
                written.append(_saved(figure, path, format="pdf", metadata={"CreationDate": None}))
    return tuple(written)


def _saved(figure: "Figure", path: Path, **options: Any) -> Path:
    save(path, lambda part: figure.savefig(part, bbox_inches="tight", pad_inches=0.03, **options))
    return path


def _short(label: str) -> str:
    """A label as a legend has room for it."""
    plain = label.replace(",solver=exact", "").replace(",solver=", ", ").replace(":v=", ", V = ").replace("_", " ")
    short = plain if len(plain) <= _LETTERS else plain[: _LETTERS - 1] + "…"
    return short.replace("$", r"\$")  # no formula
