"""The folder of figures for papers: one column wide, legible in print, told apart by colour, dash and marker alike."""

__all__ = ["draw_pictures", "in_print", "save_picture", "write_pictures"]

import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedfloor.reports.drawing.paper import STYLE
from fedfloor.reports.registry import all_figures
from fedfloor.reports.results import Results
from fedfloor.reports.saving import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_DPI = 200


def draw_pictures(
    results: Results, *, pdf: bool = False, on_figure: Callable[[str], None] = lambda _: None
) -> dict[str, bytes]:
    """Every figure that has data as PNG, and as PDF if asked for, by the name of its file. Needs the extra 'report'."""
    pictures: dict[str, bytes] = {}
    for figure in all_figures():
        if figure.draw is None:
            continue
        on_figure(figure.name)
        with in_print():
            drawing = figure.draw(results)
            if drawing is None:
                continue
            pictures[f"{figure.name}.png"] = _content(drawing, format="png", dpi=_DPI)
            if pdf:  # without a date, equal runs give equal files
                pictures[f"{figure.name}.pdf"] = _content(drawing, format="pdf", metadata={"CreationDate": None})
    return pictures


def write_pictures(pictures: Mapping[str, bytes], folder: Path) -> tuple[Path, ...]:
    """Write figures as files, which are returned; those of an earlier report that are not among them are removed."""
    for name, content in pictures.items():
        save(folder / name, partial(Path.write_bytes, data=content))
    names = [figure.name for figure in all_figures() if figure.draw is not None]
    for file in (f"{name}.{kind}" for name in names for kind in ("png", "pdf")):
        if file not in pictures:  # it would contradict this report
            (folder / file).unlink(missing_ok=True)
    return tuple(folder / name for name in pictures)


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
    content = _content(drawing, format="png", dpi=_DPI)
    save(path, partial(Path.write_bytes, data=content))
    return path


def _content(drawing: "Drawing", **options: Any) -> bytes:
    """A drawing as the bytes of a file."""
    file = io.BytesIO()
    drawing.savefig(file, bbox_inches="tight", pad_inches=0.03, **options)
    return file.getvalue()
