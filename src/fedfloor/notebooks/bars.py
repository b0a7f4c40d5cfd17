"""Progress of Python functions: a bar in a notebook or on a terminal, and a line per tenth anywhere else."""

__all__ = ["Bar", "bar"]

import html
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

_BETWEEN = 0.2  #: [s] between two changes of a bar in a notebook


class Bar(Protocol):
    """Shows how much of a piece of work is done."""

    def show(self, done: int, note: str = "") -> None:
        """So many steps are done."""


@contextmanager
def bar(label: str, total: int, *, progress: bool = True) -> Iterator[Bar]:
    """A bar on standard error, or below the cell of a notebook, until the block ends; none without `progress`."""
    if not progress:
        yield _Silent()
    elif _in_notebook():
        with _notebook_bar(label, total) as shown:
            yield shown
    elif sys.stderr is not None and sys.stderr.isatty():
        with _terminal_bar(label, total) as shown:
            yield shown
    else:
        yield _Lines(label, total)


def _in_notebook() -> bool:
    """Whether this process is the kernel of a notebook; nobody else has loaded IPython's kernel."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython  # noqa: PLC0415

    return hasattr(get_ipython(), "kernel")


class _Silent:
    def show(self, done: int, note: str = "") -> None:
        """Show nothing."""


class _Lines:
    """A line for every tenth, for files and pipes."""

    def __init__(self, label: str, total: int) -> None:
        self._label, self._total, self._tenths = label, total, 0

    def show(self, done: int, note: str = "") -> None:
        """Print a line if another tenth is done."""
        tenths = 10 * done // max(self._total, 1)
        if tenths > self._tenths and sys.stderr is not None:
            self._tenths = tenths
            print(", ".join(filter(None, (f"{self._label}: {done} of {self._total}", note))), file=sys.stderr)


class _InNotebook:
    """A line of HTML with a bar, which is replaced in place."""

    def __init__(self, label: str, total: int, handle: Any) -> None:
        self._label, self._total, self._handle = label, total, handle
        self._last, self._begun = 0.0, time.monotonic()

    def show(self, done: int, note: str = "") -> None:
        """Replace the line, but not too often."""
        now = time.monotonic()
        if now - self._last >= _BETWEEN:
            self._last = now
            self._handle.update(_html(self.markup(done, note)))

    def markup(self, done: int, note: str = "") -> str:
        """The line: label, bar, steps, time that is left, note."""
        left = (time.monotonic() - self._begun) * (self._total - done) / done if done else 0.0
        words = f"{done} of {self._total}{f', {left:.0f} s left' if 0 < done < self._total else ''}"
        line = " ".join(filter(None, (words, note)))
        return (
            f"<div>{html.escape(self._label)} <progress value='{done}' max='{max(self._total, 1)}'></progress> "
            f"{html.escape(line)}</div>"
        )


@contextmanager
def _notebook_bar(label: str, total: int) -> Iterator[Bar]:
    from IPython.display import display  # noqa: PLC0415

    handle = display(_html(""), display_id=True)
    try:
        yield _InNotebook(label, total, handle)
    finally:
        handle.update(_html(""))  # the result follows


def _html(markup: str) -> Any:
    from IPython.display import HTML  # noqa: PLC0415

    return HTML(markup)


class _OnTerminal:
    def __init__(self, progress: Any, task: Any) -> None:
        self._progress, self._task = progress, task

    def show(self, done: int, note: str = "") -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=done, note=note)


@contextmanager
def _terminal_bar(label: str, total: int) -> Iterator[Bar]:
    from rich.console import Console  # noqa: PLC0415  # takes long to load
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    words = [TextColumn(f"{{task.{name}}}", markup=False) for name in ("description", "fields[note]")]
    columns = [words[0], BarColumn(bar_width=20), MofNCompleteColumn(), TimeRemainingColumn(), words[1]]
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as progress:
        yield _OnTerminal(progress, progress.add_task(label, total=total, note=""))
