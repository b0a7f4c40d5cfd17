"""A grid of simulations: its progress, and what it looks like."""

__all__ = ["GridProgress", "grid_json", "print_grid", "varying"]

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import Progress, TaskID

from fedfloor.cli.show.runs import summary_json
from fedfloor.cli.show.terminal import ERR, OUT, columns, print_table, table_of
from fedfloor.errors import counted
from fedfloor.rounds.summary import RunSummary
from fedfloor.runs.vary import FIGURE, Grid, PlannedGrid, value_text
from fedfloor.scheduling.registry import shown_name

_MEASURES: tuple[tuple[str, Callable[[RunSummary], str]], ...] = (
    ("mean delay [s]", lambda summary: f"{summary.mean_delay:#.4g}"),
    ("95th percentile [s]", lambda summary: f"{summary.p95_delay:#.4g}"),
    ("floors", lambda summary: f"{summary.completed / summary.rounds:.2f}"),
    ("failed", lambda summary: f"{sum(summary.failures.values()) / summary.rounds:.2f}"),
    ("energy [J]", lambda summary: f"{summary.mean_energy:#.4g}"),
    ("shortfall", lambda summary: f"{summary.shortfall:.3f}"),
)


class GridProgress:
    """How far a grid is, and the bar that shows it."""

    def __init__(self, bar: Progress, task: TaskID, *, quiet: bool) -> None:
        self._bar, self._task, self._quiet = bar, task, quiet
        self._done: dict[int, int] = {}  # rounds by the number of the simulation
        self.totals: list[int] = []  #: rounds of every simulation

    @property
    def finished(self) -> int:
        """Number of simulations that are finished."""
        return sum(self._done.get(number, 0) >= total for number, total in enumerate(self.totals))

    def plan(self, grid: PlannedGrid) -> None:
        """All simulations are known."""
        self.totals = [run.scenario.rounds for run in grid.runs]
        self._bar.update(self._task, total=sum(self.totals))
        notes = [text for run in grid.runs for text in (run.remark, run.first_delay)]
        for text in dict.fromkeys(filter(None, () if self._quiet else notes)):
            ERR.print(text, soft_wrap=True)

    def show(self, number: int, done: int) -> None:
        """A simulation has done `done` rounds."""
        self._done[number] = done
        note = f"{self.finished} of {len(self.totals)} simulations"
        self._bar.update(self._task, completed=sum(self._done.values()), note=note)


@contextmanager
def varying(*, quiet: bool) -> Iterator[GridProgress]:
    """The progress of a grid: one live bar on standard error."""
    with Progress(*columns(), console=ERR, transient=True, disable=quiet or not ERR.is_terminal) as bar:
        yield GridProgress(bar, bar.add_task("simulating", total=None, note="checking"), quiet=quiet)


def print_grid(grid: Grid) -> None:
    """One row per combination, and where its files are."""
    several = len({cell.policy for cell in grid.cells}) > 1
    who = ("policy",) if several else ()
    rounds = {cell.summary.rounds for cell in grid.cells}
    length = f"{counted(rounds.pop(), 'round')} each" if len(rounds) == 1 else "rounds as set"
    title = ", ".join([grid.scenario, *([] if several else [shown_name(grid.cells[0].policy)]), length])
    table = table_of(title, *grid.keys, *who, *(name for name, _ in _MEASURES), left=len(grid.keys) + len(who))
    for cell in grid.cells:
        settings = [value_text(cell.settings[key]) for key in grid.keys]
        table.add_row(
            *settings, *([shown_name(cell.policy)] if several else []), *(form(cell.summary) for _, form in _MEASURES)
        )
    print_table(table)
    OUT.print("floors: completed per round; failed and energy: per round; shortfall: of the floor that is worst off")
    OUT.print(f"table: {grid.table}", soft_wrap=True)
    if grid.figure is not None:
        OUT.print(f"figure: {grid.figure}", soft_wrap=True)
    else:
        ERR.print(f"{FIGURE} needs the extra 'report'. Install it with: pip install 'fedfloor[report]'", soft_wrap=True)
    OUT.print(f"logs: the run folders in {grid.folder}", soft_wrap=True)


def grid_json(grid: Grid) -> list[dict[str, object]]:
    """Settings and summary of every combination."""
    return [{"settings": cell.settings, **summary_json(cell.summary)} for cell in grid.cells]
