"""The progress of a run: a live bar on a terminal, a line per evaluation in a file or a pipe."""

__all__ = ["WRITING", "View", "page_ready", "remark", "say_resumed", "simulating", "training", "working"]

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import Progress, TaskID
from rich.text import Text

from fedfloor.cli.show.terminal import ERR, progress
from fedfloor.errors import counted
from fedfloor.rounds.events import Event
from fedfloor.rounds.record import RoundRecord
from fedfloor.rounds.summary import result_of_test
from fedfloor.runs.planned import PlannedRun

WRITING = "drawing figures and writing the report"  #: what a report takes its time for
_PATIENCE = 2.0  #: [s] before a word is said about data that is being read, or a scenario that is being checked


def remark(planned: PlannedRun, *, quiet: bool) -> None:
    """Say on standard error where V of a run comes from, if its policy was named without one."""
    if planned.remark and not quiet:
        ERR.print(planned.remark, soft_wrap=True)


@contextmanager
def simulating(planned: PlannedRun, *, quiet: bool) -> Iterator[Callable[[RoundRecord], None]]:
    """What to call with every round of a simulation: a live bar on standard error."""
    rounds = planned.scenario.rounds
    remark(planned, quiet=quiet)
    with progress(planned.label, rounds, quiet=quiet, note=planned.first_delay) as (bar, task):
        yield lambda record: bar.update(task, advance=1, note=f"clock {record.clock_s or 0.0:.0f} s")


@contextmanager
def training(planned: PlannedRun, *, quiet: bool) -> Iterator["View"]:
    """The progress of a training run on standard error; `View.show` is called with its events."""
    rounds = planned.scenario.rounds
    remark(planned, quiet=quiet)
    with progress(planned.label, rounds, quiet=quiet, note=planned.first_delay) as (bar, task):
        view = View(bar, task, planned, quiet=quiet)
        try:
            yield view
        finally:
            view.loaded()


@contextmanager
def working(words: str) -> Iterator[Callable[[str], None]]:
    """Show on standard error what a command does, if that takes long; a spinner on a terminal, else a line.

    What it yields is to be called with how far the work has come, which the spinner shows.
    """
    note = f"{words} ..."
    status = ERR.status(Text(note))
    timer = threading.Timer(_PATIENCE, status.start if ERR.is_terminal else lambda: ERR.print(note, soft_wrap=True))
    timer.daemon = True
    timer.start()
    try:
        yield lambda step: status.update(Text(f"{words}: {step} ..."))
    finally:
        timer.cancel()
        timer.join()  # or the spinner could start after it was stopped
        status.stop()


def _said_later(name: str) -> threading.Timer:
    timer = threading.Timer(_PATIENCE, lambda: ERR.print(f"reading {name} ...", soft_wrap=True))
    timer.daemon = True
    timer.start()
    return timer


def say_resumed(planned: PlannedRun, rounds: int) -> None:
    """Say on standard error after how many rounds a run goes on, or that there is nothing to resume."""
    resumed = f"resuming after {rounds} of {counted(planned.scenario.rounds, 'round')}"
    nothing = f"{planned.folder}: nothing to resume; starting a new run"
    ERR.print(resumed if rounds else nothing, soft_wrap=True)


class View:
    """What is known of a run so far, and the bar that shows as much of it as there is room for."""

    def __init__(self, bar: Progress, task: TaskID, planned: PlannedRun, *, quiet: bool) -> None:
        self._bar, self._task, self._planned = bar, task, planned
        self._quiet, self._live = quiet, not quiet and ERR.is_terminal
        self._timer: threading.Timer | None = None
        self._result = self._loss = self._clock = ""
        self.done = 0  #: rounds

    def loaded(self) -> None:
        """Forget the data set that was being read."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def show(self, event: Event) -> None:
        """Show one event of the run."""
        if not event.reading:
            self.loaded()
        if event.resumed is not None:
            self._resume(event.resumed)
        for text in event.lost:
            ERR.print(f"round {self.done}: lost: {text}", soft_wrap=True)
        if event.record is not None:
            self._end_round(event.record)
        busy = "estimating rates" if event.estimating else ""
        if event.reading:
            busy = ": ".join(filter(None, (f"reading {event.reading}", event.step)))
        if event.reading and not self._live and not self._quiet and self._timer is None:
            self._timer = _said_later(event.reading)
        floors = f"training {', '.join(event.training)}" if event.training else ""
        note = tuple(filter(None, (busy, self._result, self._loss, self._clock, floors)))  # what matters most first
        self._bar.update(self._task, completed=self.done, note=note)

    def _resume(self, rounds: int) -> None:
        self.done = rounds
        self._bar.reset(self._task, completed=rounds)  # earlier rounds say nothing about the time that is left
        if not self._quiet:
            say_resumed(self._planned, rounds)

    def _end_round(self, record: RoundRecord) -> None:
        self.done = record.round + 1
        self._clock = f"clock {record.clock_s or 0.0:.4g} s"
        if record.training_loss is not None:
            self._loss = f"training loss {record.training_loss:.3f}"
        result = result_of_test(record, predicts_numbers=self._planned.scenario.training.predicts_numbers)
        if not result:
            return
        self._result = result
        if not self._live and not self._quiet:
            parts = filter(None, (self._result, self._loss, self._clock))
            rounds = f"{self.done} of {counted(self._planned.scenario.rounds, 'round')} done"
            ERR.print(f"{self._planned.label}: {rounds}, {', '.join(parts)}", soft_wrap=True)


def page_ready(url: str, *, as_json: bool) -> None:
    """Print the address of a page as the first line, or as one line of JSON; how to end is said on standard error."""
    print(json.dumps({"url": url}) if as_json else url, flush=True)
    if ERR.is_terminal or not as_json:
        ERR.print("Open this address in a browser. Ctrl-C ends the page; the run goes on.", soft_wrap=True)
