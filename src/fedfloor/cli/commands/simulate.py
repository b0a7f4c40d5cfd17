"""`fedfloor simulate`."""

__all__ = ["simulate"]

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fedfloor.cli.completing import complete_key
from fedfloor.cli.options import (
    OutOption,
    OwnOption,
    PoliciesOption,
    QuietOption,
    RoundsOption,
    RunFormat,
    ScenarioArgument,
    SeedOption,
    SetOption,
    app,
)
from fedfloor.errors import StoppedRunError


@app.command()
def simulate(
    scenario: ScenarioArgument,
    policies: PoliciesOption = None,
    rounds: RoundsOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    overrides: SetOption = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="SECTION.KEY=A,B,...",
            help="Simulate once for each of these values; repeatable, for every combination. The results become one "
            "table and one figure in --out, by default runs/vary-SCENARIO. Repeat the command to continue.",
            autocompletion=complete_key,
        ),
    ] = None,
    own: OwnOption = False,
    quiet: QuietOption = False,
    form: Annotated[
        RunFormat, typer.Option("--format", help="Table for people, JSON for programs or CSV for spreadsheets.")
    ] = RunFormat.TABLE,
) -> None:
    """Simulate rounds of scheduling, without training.

    Example:  fedfloor simulate quick --policy random --policy round_robin --rounds 200

    Example:  fedfloor simulate quick --vary radio.channels=1,2,3 --vary precision.upload=32,8
    """
    if settings:
        _simulate_grid(scenario, settings, policies or (), rounds, form, out, quiet, seed, overrides or (), own)
        return
    from fedfloor import api
    from fedfloor.cli.show.bare import own_code_on_stderr, print_csv, print_result
    from fedfloor.cli.show.runs import as_json, columns_of_runs, print_simulation
    from fedfloor.cli.show.watching import simulating

    runs = []
    with own_code_on_stderr():
        for planned in api.plan_runs(
            scenario, policies or (), rounds, seed=seed, overrides=overrides or (), own=own, out=out
        ):
            with simulating(planned, quiet=quiet) as show:
                try:
                    runs.append(api.simulate_planned(planned, on_round=show))
                except KeyboardInterrupt:
                    kept = f"the log in {planned.folder} has the rounds so far"
                    raise StoppedRunError(f"{kept}. A simulation cannot be resumed") from None
    if form is RunFormat.CSV:
        print_csv(columns_of_runs(runs))
    else:
        print_result(runs, form, print_simulation, lambda every: [as_json(run) for run in every])


def _simulate_grid(
    scenario: str,
    settings: Sequence[str],
    policies: Sequence[str],
    rounds: int | None,
    form: RunFormat,
    out: Path | None,
    quiet: bool,
    seed: int | None,
    overrides: Sequence[str],
    own: bool,
) -> None:
    """Simulate every combination of settings, and print one table."""
    from fedfloor import api
    from fedfloor.cli.show.bare import own_code_on_stderr, print_csv, print_result
    from fedfloor.cli.show.grids import grid_json, print_grid, varying

    with own_code_on_stderr(), varying(quiet=quiet) as progress:
        folder = out or Path("runs") / f"vary-{api.load(scenario, overrides, own=own).name}"
        simulate_all = partial(api.vary, on_plan=progress.plan, on_round=progress.show)
        try:
            grid = simulate_all(
                scenario, settings, policies, rounds, seed=seed, overrides=overrides, own=own, out=folder
            )
        except KeyboardInterrupt:
            kept = f"{progress.finished} of {len(progress.totals)} simulations are finished in {folder}"
            raise StoppedRunError(f"{kept}. Repeat the command to continue") from None
    if form is RunFormat.CSV:
        print_csv(grid.columns())
    else:
        print_result(grid, form, print_grid, grid_json)
