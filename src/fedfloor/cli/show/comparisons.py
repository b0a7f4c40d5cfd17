"""The progress of a comparison: one bar for all rounds, one for every run that is under way."""

__all__ = ["comparing"]

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.progress import Progress, TaskID

from fedfloor.cli.show.terminal import ERR, columns
from fedfloor.report.making import STEPS
from fedfloor.runs import tradeoff
from fedfloor.runs.compare import Cell, Watch


@contextmanager
def comparing(*, quiet: bool, note: str = "") -> Iterator[Watch]:
    """Who shows a comparison on standard error: bars for who looks on, a line per tenth of a run otherwise."""
    shown = not quiet and ERR.is_terminal
    if note and not quiet and not shown:
        ERR.print(note)
    with Progress(*columns(), console=ERR, transient=True, disable=not shown) as bar:
        view = _View(bar, note, lines=not quiet and not shown)
        yield Watch(
            on_start=view.start,
            on_round=view.round,
            on_trouble=lambda cell, problem: _trouble(cell, problem, quiet=quiet),
            on_tradeoff=view.tradeoff,
            on_report=view.report,
        )


def _trouble(cell: Cell, problem: str, *, quiet: bool) -> None:
    if not quiet:
        ERR.print(f"{cell.folder.name}: {problem}", soft_wrap=True)


class _View:
    """The bars, or the lines."""

    def __init__(self, bar: Progress, note: str, *, lines: bool) -> None:
        self._bar, self._note, self._lines = bar, note, lines
        self._all: TaskID | None = None
        self._tradeoff: TaskID | None = None
        self._report: TaskID | None = None
        self._done: dict[str, int] = {}
        self._tasks: dict[str, TaskID] = {}
        self._cells: Sequence[Cell] = ()

    def start(self, cells: Sequence[Cell]) -> None:
        """All runs are known."""
        self._cells = cells
        total = sum(cell.scenario.rounds for cell in cells)
        self._all = self._bar.add_task("all rounds", total=total, note=self._note)

    def round(self, cell: Cell, done: int) -> None:
        """A run has got so far."""
        name, total = cell.folder.name, cell.scenario.rounds
        before = self._done.get(name, 0)
        self._done[name] = done
        if self._lines and 10 * done // total > 10 * before // total:
            ERR.print(f"{cell.policy} seed {cell.scenario.seed}: round {done} of {total}", soft_wrap=True)
        if name not in self._tasks and done < total:
            self._tasks[name] = self._bar.add_task(f"  {cell.policy} seed {cell.scenario.seed}", total=total, note="")
        if name in self._tasks:
            self._bar.update(self._tasks[name], completed=done, visible=done < total)
        if self._all is not None:
            ended = sum(self._done.get(cell.folder.name, 0) >= cell.scenario.rounds for cell in self._cells)
            note = f"{ended} of {len(self._cells)} runs"
            self._bar.update(self._all, completed=sum(self._done.values()), note=note)

    def tradeoff(self) -> None:
        """One more round of the trade-off over V is simulated."""
        if self._tradeoff is None:
            total = len(tradeoff.STEPS) * tradeoff.shortened(self._cells[0].scenario).rounds
            self._tradeoff = self._bar.add_task("trade-off over V", total=total, note="")
        self._bar.update(self._tradeoff, advance=1)

    def report(self, step: str) -> None:
        """The report has got so far."""
        if self._report is None:
            self._report = self._bar.add_task("report", total=STEPS, note="")
        self._bar.update(self._report, advance=1, note=step)
