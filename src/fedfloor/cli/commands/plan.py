"""`fedfloor plan`."""

__all__ = ["plan"]

from pathlib import Path
from typing import Annotated

import typer

from fedfloor.cli.completing import complete_policy
from fedfloor.cli.options import Format, FormatOption, OwnOption, app


@app.command()
def plan(
    source: Annotated[
        str,
        typer.Argument(metavar="SNAPSHOT", help="Snapshot file, - for standard input, or a run folder with --round."),
    ],
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="NAME[:KEY=VALUE,...]",
            help="Policy that decides. Default: the run's own, or ddsra with the V of the snapshot.",
            autocompletion=complete_policy,
        ),
    ] = None,
    solver: Annotated[
        str | None,
        typer.Option(
            "--solver", metavar="exact|paper", help="Solver of ddsra. Default: the one of its policy, else exact."
        ),
    ] = None,
    index: Annotated[
        int | None, typer.Option("--round", min=0, max=2**53, help="Round of a run folder, from 0.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="Write the round as a snapshot.")
    ] = None,
    own: OwnOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Decide one round of a snapshot, a run or a scenario.

    The decision says which floors are selected, on which channels, and with which cuts, frequencies and powers.

    Example:  fedfloor plan runs/demo --round 17 --policy ddsra:v=10 --export round.json

    Example:  cat round.json | fedfloor plan - --format json
    """
    from fedfloor import api
    from fedfloor.cli.show.bare import deciding, own_code_on_stderr, print_json

    with own_code_on_stderr():
        planned = api.plan_round(source, policy, solver=solver, index=index, own=own)
        with deciding(planned.first_delay):
            decided = api.decide_round(planned, export=export)
    if form is Format.JSON:
        print_json(decided)
        return
    from fedfloor.cli.show.plans import print_plan

    print_plan(decided)
