"""`fedfloor report`."""

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
            "--out", metavar="DIR", help="Where to write. Default: the given folder, or `report` if several are given."
        ),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Also write all rounds of all runs as CSV.")
    ] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="Figures as PDF too.")] = False,
    quiet: QuietOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Make a page, figures and tables of runs. Needs the extra 'report'.

    The runs may be finished or still running.

    Example:  fedfloor report runs/compared --csv rounds.csv
    """
    from fedfloor import api
    from fedfloor.cli.show.bare import print_result
    from fedfloor.cli.show.reports import print_problems, print_report, reporting

    with reporting(quiet=quiet) as on_step:
        done = api.report(runs, out=out, csv=csv, pdf=pdf, on_step=on_step)
    print_problems(done)
    print_result(done, form, print_report, lambda report: report.as_json())
