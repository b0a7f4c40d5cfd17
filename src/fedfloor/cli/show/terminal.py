"""The terminal: tables, amounts and progress, which every command shares."""

__all__ = ["ERR", "OUT", "amount", "columns", "print_table", "progress", "table_of"]

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from fedfloor.characters import printable


class _Terminal(Console):
    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Everything that is printed passes here; only rich's own control sequences reach the terminal as such."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))

    def render_str(self, text: str, **options: Any) -> Text:
        """The text as it will be shown, so that tables measure the right width."""
        return super().render_str(printable(text), **options)

    def on_broken_pipe(self) -> None:
        """Leave it to `cli.main`: a reader who stops early, as `| head` does, is not a failure."""
        raise BrokenPipeError


ERR = _Terminal(stderr=True, highlight=False, markup=False, emoji=False)


def _width() -> int | None:
    """Tables keep their lines whole in a pipe or a file, which has no width of its own, unless COLUMNS gives one."""
    has_width = os.environ.get("COLUMNS", "").isdigit() or (sys.stdout is not None and sys.stdout.isatty())
    return None if has_width else 160  # rich finds out


OUT = _Terminal(highlight=False, markup=False, emoji=False, width=_width())

_PREFIXES = (
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "u"),
    (1e-9, "n"),
)


def amount(value: float, unit: str) -> str:
    """A quantity with three digits and a prefix: 1.78 TFLOP."""
    if value == 0 or not np.isfinite(value):
        return f"{value:g} {unit}"
    scale, prefix = next((entry for entry in _PREFIXES if float(f"{abs(value):.3g}") >= entry[0]), _PREFIXES[-1])
    return f"{value / scale:.3g} {prefix}{unit}"


def table_of(title: str, *columns: str, left: int = 1) -> Table:
    """A table whose first columns are text and whose other columns are numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index < left else "right")
    return table


def print_table(table: Table) -> None:
    """Print a table of plain words; whatever the terminal's width, no word and no number is cut.

    If columns do not fit side by side, their gaps narrow first, then texts of several words take several lines. A table
    that is still too wide runs over the edge, and the terminal continues it on the next line.
    """
    cells = [[printable(str(cell)) for cell in (column.header, *column.cells)] for column in table.columns]
    most = [max(map(cell_len, texts)) for texts in cells]
    least = [
        high if column.no_wrap else max(cell_len(word) for text in texts for word in text.split() or [""])
        for column, texts, high in zip(table.columns, cells, most, strict=True)
    ]
    edge, gap = 2, 3  # what lies outside the columns, and between two of them
    if sum(most) + edge + gap * (len(most) - 1) > OUT.width:
        table.padding, gap = 0, 1
    room = OUT.width - edge - gap * (len(most) - 1)
    for column, low, high in zip(table.columns, least, most, strict=True):
        spare = max(0, min(high - low, room - sum(least)))
        column.width = low + spare
        room -= spare
    if room < sum(least):
        table.width = sum(least) + edge + gap * (len(least) - 1)
    OUT.print(table, crop=False)


class _Note(ProgressColumn):
    """Notes beside the bar, the most important first; as many as fit."""

    def render(self, task: Task) -> Text:
        """As many parts as the line has room for; a single text is cut at its end."""
        note = task.fields["note"]
        if isinstance(note, str):
            return Text(note, no_wrap=True, overflow="ellipsis")
        counts = len(f"{task.total:.0f}") * 2 + 1 if task.total is not None else 0
        room = ERR.width - min(len(task.description), _most_label()) - _bar_width() - counts - len("0:00:00") - 5
        parts: list[str] = []
        for part in note:
            if len("  ".join([*parts, part])) <= room:
                parts.append(part)
        return Text("  ".join(parts), no_wrap=True, overflow="ellipsis")


def _bar_width() -> int:
    return 20 if ERR.width >= 100 else 8


def _most_label() -> int:
    return max(10, ERR.width // 3)


def columns() -> list[ProgressColumn]:
    """The columns of a progress bar; on a narrow terminal only the note is shortened."""

    def whole() -> Column:
        return Column(no_wrap=True)

    label = Column(no_wrap=True, overflow="ellipsis", max_width=_most_label())
    return [
        TextColumn("{task.description}", markup=False, table_column=label),
        BarColumn(bar_width=_bar_width(), table_column=whole()),
        MofNCompleteColumn(table_column=whole()),
        TimeRemainingColumn(table_column=whole()),
        _Note(),
    ]


@contextmanager
def progress(label: str, total: int, *, quiet: bool, note: str = "") -> Iterator[tuple[Progress, TaskID]]:
    """A live bar on standard error, below the note; only the note without a terminal, and neither with `quiet`."""
    bar = Progress(*columns(), console=ERR, transient=True, disable=quiet or not ERR.is_terminal)
    if note and not quiet:
        ERR.print(note, soft_wrap=True)
    with bar:
        yield bar, bar.add_task(label, total=total, note="")
