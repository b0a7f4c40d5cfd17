"""The terminal: tables, amounts, JSON and progress, which every command shares."""

__all__ = ["ERR", "OUT", "amount", "columns", "print_json", "progress", "table_of", "working"]

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table


class _Terminal(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to `cli.main`, where a reader who leaves early is no failure."""
        raise BrokenPipeError


ERR = _Terminal(stderr=True, highlight=False, markup=False, emoji=False)
#: a pipe or a file has no width of its own: tables keep their lines whole there
OUT = _Terminal(
    highlight=False, markup=False, emoji=False, width=None if sys.stdout is not None and sys.stdout.isatty() else 160
)

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


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(_finite(value), indent=2, default=_plain, allow_nan=False))


def _finite(value: Any) -> Any:
    """The same with null for what JSON has no number for."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else str(value)


def table_of(title: str, *columns: str, left: int = 1) -> Table:
    """A table whose first columns are text and whose others are figures."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index < left else "right", no_wrap=index < left)
    return table


def columns() -> list[ProgressColumn]:
    """What a progress bar shows."""
    return [
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    ]


@contextmanager
def progress(label: str, total: int, *, quiet: bool, note: str = "") -> Iterator[tuple[Progress, TaskID]]:
    """A live bar on standard error; none when quiet or when nobody looks, then only the note."""
    bar = Progress(*columns(), console=ERR, transient=True, disable=quiet or not ERR.is_terminal)
    if note and not quiet and not ERR.is_terminal:
        ERR.print(note)
    with bar:
        yield bar, bar.add_task(label, total=total, note=note)


@contextmanager
def working(note: str = "") -> Iterator[None]:
    """A turning sign on standard error while a single decision is made; when nobody looks, only the note."""
    if not ERR.is_terminal:
        if note:
            ERR.print(note)
        yield
        return
    with ERR.status(f"deciding; {note}" if note else "deciding"):
        yield
