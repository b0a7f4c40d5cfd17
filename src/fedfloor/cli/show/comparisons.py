"""The progress of a comparison: one bar for all rounds, and one for every run that is under way."""

__all__ = ["comparing"]

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.progress import Progress, TaskID

from fedfloor.cli.show.terminal import ERR, columns
from fedfloor.cli.show.watching import WRITING
from fedfloor.errors import counted
from fedfloor.reports.making import STEPS
from fedfloor.runs import tradeoff
from fedfloor.runs.compare import Watch
from fedfloor.runs.planned import PlannedRun


@contextmanager
def comparing(*, quiet: bool) -> Iterator[Watch]:
    """The progress of a comparison on standard error: bars on a terminal, otherwise a line per tenth of a run."""
    live = not quiet and ERR.is_terminal
    with Progress(*columns(), console=ERR, transient=True, disable=not live) as bar:
        view = _View(bar, lines=not quiet and not live, quiet=quiet)
        yield Watch(
            on_start=view.start,
            on_round=view.round,
            on_reading=view.reading,
            on_test=view.test,
            on_trouble=lambda run, problem: _print_trouble(run, problem, quiet=quiet),
            on_tradeoff=view.tradeoff,
            on_report=view.report,
        )


def _print_trouble(run: PlannedRun, problem: str, *, quiet: bool) -> None:
    if not quiet:
        ERR.print(f"{_name(run)}: {problem}", soft_wrap=True)


def _name(run: PlannedRun) -> str:
    assert run.folder is not None
    return run.folder.name


def _label(run: PlannedRun) -> str:
    return f"{run.label} seed {run.scenario.seed}"


class _View:
    """The bars, or the lines."""

    def __init__(self, bar: Progress, *, lines: bool, quiet: bool) -> None:
        self._bar, self._lines, self._quiet = bar, lines, quiet
        self._all: TaskID | None = None
        self._tradeoff: TaskID | None = None
        self._report: TaskID | None = None
        self._done: dict[str, int] = {}
        self._tasks: dict[str, TaskID] = {}
        self._results: dict[str, str] = {}
        self._read: set[str] = set()  # data sets
        self._runs: Sequence[PlannedRun] = ()

    def start(self, runs: Sequence[PlannedRun]) -> None:
        """All runs are known."""
        self._runs = runs
        for text in dict.fromkeys(run.remark for run in runs if run.remark and not self._quiet):
            ERR.print(text, soft_wrap=True)
        note = next((run.first_delay for run in runs if run.first_delay), "")
        if note and self._lines:
            ERR.print(note)
        note = note or "starting"
        self._all = self._bar.add_task("all rounds", total=sum(run.scenario.rounds for run in runs), note=note)

    def reading(self, run: PlannedRun, data: str) -> None:
        """A run reads a data set; a line says so for the first of its runs."""
        if data not in self._read:
            self._say(f"reading {data}")
        self._read.add(data)
        self._show(run, f"reading {data}")
        if self._all is not None and not self._done:
            self._bar.update(self._all, note=f"reading {data}")

    def test(self, run: PlannedRun, result: str) -> None:
        """The model of a run has been tested."""
        self._results[_name(run)] = result

    def round(self, run: PlannedRun, done: int) -> None:
        """A run has done `done` rounds."""
        name, total = _name(run), run.scenario.rounds
        before = self._done.get(name, 0)
        self._done[name] = done
        result = self._results.get(name, "")
        if self._lines and 10 * done // total > 10 * before // total:
            tested = f", last test: {result}" if result else ""
            ERR.print(f"{_label(run)}: {done} of {counted(total, 'round')} done{tested}", soft_wrap=True)
        self._show(run, result)
        if self._all is not None:
            ended = sum(self._done.get(_name(one), 0) >= one.scenario.rounds for one in self._runs)
            note = f"{ended} of {len(self._runs)} runs"
            self._bar.update(self._all, completed=sum(self._done.values()), note=note)

    def _show(self, run: PlannedRun, note: str) -> None:
        """Bring the bar of a run up to date; it is there from the first news to the last round."""
        name, total = _name(run), run.scenario.rounds
        done = self._done.get(name, 0)
        if name not in self._tasks and done < total:
            self._tasks[name] = self._bar.add_task(f"  {_label(run)}", total=total, note="")
        if name in self._tasks:
            self._bar.update(self._tasks[name], completed=done, visible=done < total, note=note)

    def _say(self, words: str) -> None:
        """Say what begins, where no bar shows it."""
        if self._lines:
            ERR.print(f"{words} ...", soft_wrap=True)

    def tradeoff(self) -> None:
        """One more round of the trade-off over V has been simulated."""
        if self._tradeoff is None:
            total = len(tradeoff.STEPS) * tradeoff.shortened(self._runs[0].scenario).rounds
            self._tradeoff = self._bar.add_task("trade-off over V", total=total, note="")
            self._say("simulating the trade-off over V")
        self._bar.update(self._tradeoff, advance=1)

    def report(self, step: str) -> None:
        """The report has reached a step."""
        if self._report is None:
            self._report = self._bar.add_task("report", total=STEPS, note="")
            self._say(WRITING)
        self._bar.update(self._report, advance=1, note=step)
