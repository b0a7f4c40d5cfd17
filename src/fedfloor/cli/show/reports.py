"""A report on the terminal: its tables, where its files are, and what it had to leave out."""

__all__ = ["print_problems", "print_report", "reporting"]

import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from rich.cells import cell_len

from fedfloor.cli.show.terminal import ERR, OUT, print_table, progress, table_of
from fedfloor.cli.show.watching import WRITING, working
from fedfloor.reports.cells import Table
from fedfloor.reports.making import STEPS, Report

_WORDS = 28  #: letters beyond which a cell reads like text
_LINES = 6  #: of a cell, about


@contextmanager
def reporting(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """What to call with every step of a report: a live bar on a terminal, else a line if it takes long."""
    said = nullcontext() if quiet or ERR.is_terminal else working(WRITING)
    with said, progress("report", STEPS, quiet=quiet) as (bar, task):
        yield lambda step: bar.update(task, advance=1, note=step)


def print_problems(report: Report) -> None:
    """Problems of the runs, on standard error."""
    for problem in report.collection.problems:
        ERR.print(f"warning: {' '.join(problem.split())}", style="yellow", soft_wrap=True)


def print_report(report: Report) -> None:
    """What the comparison says, all tables, and where to look further."""
    for sentence in report.answers:
        OUT.print(sentence)
    if report.answers:
        OUT.print("")
    for table in report.tables:
        _print(table)
        OUT.print(f"{table.note}\n" if table.note else "")
    OUT.print(f"page: {report.page}", soft_wrap=True)
    OUT.print(f"figures: {report.page.parent / 'figures'} ({len(report.figures)} files)", soft_wrap=True)
    if report.csv is not None:
        OUT.print(f"rounds: {report.csv}", soft_wrap=True)


def _print(table: Table) -> None:
    """A table as it is where it fits, else on its side with numbers for names, else row by row."""
    if _fits([table.columns, *table.rows]):
        _print_rows(table.title, table.columns, table.rows)
        return
    turned = [(name, *(row[at] for row in table.rows)) for at, name in enumerate(table.columns)][1:]
    head = ("", *(str(number) for number in range(1, len(table.rows) + 1)))
    if _fits([head, *turned]):
        for number, row in enumerate(table.rows, start=1):
            OUT.print(f"{number}  {row[0]}", soft_wrap=True)
        _print_rows(table.title, head, turned, text=False)
        return
    OUT.print(table.title, style="bold italic")
    for row in table.rows:
        OUT.print(row[0], style="bold")
        said = [f"{name}: {cell}" for name, cell in zip(table.columns[1:], row[1:], strict=True) if cell]
        whole: Any = {"break_long_words": False, "break_on_hyphens": False}
        OUT.print(textwrap.fill("; ".join(said), OUT.width, initial_indent="  ", subsequent_indent="  ", **whole))


def _fits(rows: Sequence[Sequence[str]]) -> bool:
    """Whether no word is cut and no cell gets too high; two letters lie at the edge, one between columns."""
    least, most = [], []
    for column in zip(*rows, strict=True):
        least.append(max(cell_len(word) for cell in column for word in cell.split() or [""]))
        most.append(max(map(cell_len, column)))
    spare = OUT.width - sum(least) - len(least) - 1
    return spare >= 0 and all(high <= _LINES * (low + spare) for low, high in zip(least, most, strict=True))


def _print_rows(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, text: bool = True) -> None:
    printed = table_of(title, *columns)
    for at, column in enumerate(printed.columns):
        if text and any(len(row[at]) > _WORDS for row in rows):
            column.justify = "left"
    for row in rows:
        printed.add_row(*row)
    print_table(printed)
