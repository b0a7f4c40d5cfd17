"""The progress of a training run: a live bar for who looks on, a line per evaluation for a file or a pipe."""

__all__ = ["View", "reading", "training"]

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import Progress, TaskID

from fedfloor.cli.show.terminal import ERR, progress
from fedfloor.runs.folder import training_loss

_PATIENCE = 2.0  #: [s] before a word is said about data that is being read


@contextmanager
def training(label: str, rounds: int, folder: Path, *, quiet: bool, note: str = "") -> Iterator["View"]:
    """Who shows a training run on standard error; `View.show` is called with its events."""
    with progress(label, rounds, quiet=quiet, note=note) as (bar, task):
        view = View(bar, task, label, rounds, folder, quiet=quiet)
        try:
            yield view
        finally:
            view.loaded()


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Says on standard error that a data set is being read, if that takes long."""
    timer = _said_later(name)
    try:
        yield
    finally:
        timer.cancel()


def _said_later(name: str) -> threading.Timer:
    timer = threading.Timer(_PATIENCE, lambda: ERR.print(f"reading {name} ...", soft_wrap=True))
    timer.daemon = True
    timer.start()
    return timer


class View:
    """What is known of a run so far, and the bar that shows as much of it as there is room for."""

    def __init__(self, bar: Progress, task: TaskID, label: str, rounds: int, folder: Path, *, quiet: bool) -> None:
        self._bar, self._task, self._label, self._rounds, self._folder = bar, task, label, rounds, folder
        self._quiet, self._live = quiet, not quiet and ERR.is_terminal
        self._timer: threading.Timer | None = None
        self._accuracy = self._loss = self._clock = ""
        self.done = 0  #: rounds

    def loaded(self) -> None:
        """No data is being read any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def show(self, event: Any) -> None:
        """Show what a run tells."""
        self.loaded()
        if event.resumed is not None:
            self._going_on(event.resumed)
        if event.record is not None:
            self._ended(event.record)
        busy = f"reading {event.reading}" if event.reading else "estimating rates" if event.estimating else ""
        if event.reading and not self._live and not self._quiet:
            self._timer = _said_later(event.reading)
        floors = f"training {', '.join(event.training)}" if event.training else ""
        note = tuple(filter(None, (busy, self._accuracy, self._loss, self._clock, floors)))  # what matters most first
        self._bar.update(self._task, completed=self.done, note=note)

    def _going_on(self, rounds: int) -> None:
        self.done = rounds
        self._bar.reset(self._task, completed=rounds)  # earlier rounds say nothing of the time that is left
        left = f"going on after round {rounds} of {self._rounds}"
        if not self._quiet:
            ERR.print(left if rounds else f"no checkpoint in {self._folder}: starting anew", soft_wrap=True)

    def _ended(self, entry: dict[str, Any]) -> None:
        self.done = entry["round"] + 1
        loss = training_loss(entry)
        self._clock = f"clock {entry['clock_s'] or 0.0:.4g} s"
        if loss is not None:
            self._loss = f"training loss {loss:.3f}"
        if entry["accuracy"] is None:
            return
        self._accuracy = f"accuracy {entry['accuracy']:.1%}"
        if not self._live and not self._quiet:
            parts = filter(None, (self._accuracy, self._loss, self._clock))
            ERR.print(f"{self._label}: round {self.done} of {self._rounds}, {', '.join(parts)}", soft_wrap=True)
