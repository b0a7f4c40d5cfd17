"""Commands about results: report."""

__all__ = ["report"]

from pathlib import Path
from typing import Annotated

import typer

from fedfloor.cli.options import Format, FormatOption, QuietOption, app


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders, or folders of them.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Where to write; default the folder named, or of several folders `report`."
        ),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Also write all rounds of all runs as CSV.")
    ] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="Figures as PDF too.")] = False,
    quiet: QuietOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Make one page, figures and tables of runs, finished or still going. Needs the extra 'report'.

    Example:  fedfloor report runs/compared --csv rounds.csv
    """
    from fedfloor import console
    from fedfloor.console.terminal import ERR, OUT, table_of
    from fedfloor.report.making import STEPS, make_report

    with console.progress("report", STEPS, quiet=quiet) as (bar, task):
        done = make_report(runs, out=out, csv=csv, pdf=pdf, on_step=lambda step: bar.update(task, advance=1, note=step))
    for problem in done.collection.problems:
        ERR.print(f"warning: {' '.join(problem.split())}", style="yellow", soft_wrap=True)
    if form is Format.JSON:
        console.print_json(done.as_json())
        return
    headline = done.tables[0]
    shown = table_of(headline.title, *headline.columns)
    for row in headline.rows:
        shown.add_row(*row)
    OUT.print(shown)
    OUT.print(headline.note)
    OUT.print(f"page: {done.page}", soft_wrap=True)
    OUT.print(f"figures: {done.page.parent / 'figures'} ({len(done.figures)} files)", soft_wrap=True)
    if done.csv is not None:
        OUT.print(f"rounds: {done.csv}", soft_wrap=True)
