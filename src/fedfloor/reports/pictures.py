"""The folder of figures for papers: one column wide, legible in print, told apart by colour, dash and marker alike."""

__all__ = ["in_print", "save_picture", "write_pictures"]

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedfloor.reports.drawing.paper import STYLE
from fedfloor.reports.registry import all_figures
from fedfloor.reports.results import Results
from fedfloor.reports.saving import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_DPI = 200


def write_pictures(
    results: Results, folder: Path, *, pdf: bool = False, on_figure: Callable[[str], None] = lambda _: None
) -> tuple[Path, ...]:
    """Write every figure that has data as PNG, and as PDF if asked for; returns the files. Needs the extra 'report'.

    Figures of an earlier report that this one does not have are removed.
    """
    figures = {figure.name: figure.draw for figure in all_figures() if figure.draw is not None}
    files: list[Path] = []
    for name, draw in figures.items():
        on_figure(name)
        with in_print():
            drawing = draw(results)
            if drawing is None:
                continue
            files.append(save_picture(drawing, folder / f"{name}.png"))
            if pdf:  # without a date, equal runs give equal files
                files.append(_save(drawing, folder / f"{name}.pdf", format="pdf", metadata={"CreationDate": None}))
    _remove_others(folder, tuple(figures), files)
    return tuple(files)


@contextmanager
def in_print() -> Iterator[None]:
    """Draw in the style of papers until the block ends; the reader's own settings come back afterwards."""
    import matplotlib as mpl  # noqa: PLC0415  # an extra, which only figures need

    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()  # without those of a matplotlibrc in the working folder
        mpl.rcParams.update(STYLE)
        warnings.filterwarnings("ignore", message="Glyph")  # a box stands for it; the warning would print it raw
        yield


def save_picture(drawing: "Drawing", path: Path) -> Path:
    """Write a drawing as PNG; returns the file."""
    return _save(drawing, path, format="png", dpi=_DPI)


def _save(drawing: "Drawing", path: Path, **options: Any) -> Path:
    save(path, lambda part: drawing.savefig(part, bbox_inches="tight", pad_inches=0.03, **options))
    return path


def _remove_others(folder: Path, names: Sequence[str], files: Sequence[Path]) -> None:
    """Remove figures that were not written, so that none contradicts this report."""
    for path in (folder / f"{name}.{kind}" for name in names for kind in ("png", "pdf")):
        if path not in files:
            path.unlink(missing_ok=True)
