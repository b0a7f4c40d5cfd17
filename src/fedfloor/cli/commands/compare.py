"""`fedfloor compare`."""

__all__ = ["compare"]

from pathlib import Path
from typing import Annotated

import typer

from fedfloor.cli.completing import complete_policy
from fedfloor.cli.options import (
    Format,
    FormatOption,
    OwnOption,
    QuietOption,
    RoundsOption,
    ScenarioArgument,
    SeedOption,
    SetOption,
    app,
    with_options,
)
from fedfloor.errors import FailedRunError, FedfloorError, StoppedRunError
from fedfloor.runs.options import CompareOptions


@app.command()
@with_options(CompareOptions)
def compare(
    scenario: ScenarioArgument,
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME[:KEY=VALUE,...]",
            help="Policy to compare; repeatable. Default: the scenario's own, random, round_robin, loss_driven and "
            "delay_driven. A policy named here starts from its own defaults; only V of ddsra is the scenario's, if its "
            "policy is ddsra.",
            autocompletion=complete_policy,
        ),
    ] = None,
    options: CompareOptions = CompareOptions(),  # noqa: B008  # frozen
    rounds: RoundsOption = None,
    seed: SeedOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where every run gets a folder; default runs/compare-SCENARIO."),
    ] = None,
    overrides: SetOption = None,
    own: OwnOption = False,
    quiet: QuietOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Train several policies with several seeds and compare them.

    All runs of a seed have the same weather, data and first weights. The same command resumes an
    interrupted comparison. Needs the extras 'train' and 'report'.

    Example:  fedfloor compare quick --policy ddsra:v=1 --policy random --seeds 2
    """
    from fedfloor import api
    from fedfloor.cli.show.bare import own_code_on_stderr, print_result
    from fedfloor.cli.show.comparisons import comparing
    from fedfloor.cli.show.reports import print_problems, print_report

    with own_code_on_stderr(), comparing(quiet=quiet) as watch:
        try:
            done = api.compare_with(
                scenario, policies or (), rounds, seed=seed, overrides=overrides or (), own=own, out=out,
                options=options, watch=watch,
            )  # fmt: skip
        except KeyboardInterrupt:
            raise StoppedRunError("every run keeps its last checkpoint. Resume with the same command") from None
    if done.report is not None:
        print_problems(done.report)
        print_result(done.report, form, print_report, lambda report: report.as_json())
    if done.failed:
        name, reason = next(iter(done.failed.items()))
        more = f" and {len(done.failed) - 1} more" if len(done.failed) > 1 else ""
        problem = f"{done.folder / name}{more}: {str(reason).rstrip('.')}"
        if all(isinstance(error, FedfloorError) for error in done.failed.values()):
            raise FedfloorError(problem)
        raise FailedRunError(f"{problem}. The same command tries again")
