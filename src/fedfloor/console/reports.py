"""What a report says on the terminal: its first table, where the rest is, and what it had to leave out."""

__all__ = ["print_problems", "print_report"]

from fedfloor.console.terminal import ERR, OUT, table_of
from fedfloor.reporting.making import Report


def print_problems(report: Report) -> None:
    """What is not right about the runs, on standard error."""
    for problem in report.collection.problems:
        ERR.print(f"warning: {' '.join(problem.split())}", style="yellow", soft_wrap=True)


def print_report(report: Report) -> None:
    """One row per policy, and where to look further."""
    headline = report.tables[0]
    shown = table_of(headline.title, *headline.columns)
    for row in headline.rows:
        shown.add_row(*row)
    OUT.print(shown)
    OUT.print(headline.note)
    OUT.print(f"page: {report.page}", soft_wrap=True)
    OUT.print(f"figures: {report.page.parent / 'figures'} ({len(report.figures)} files)", soft_wrap=True)
    if report.csv is not None:
        OUT.print(f"rounds: {report.csv}", soft_wrap=True)
