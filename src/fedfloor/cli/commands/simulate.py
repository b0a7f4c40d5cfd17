"""`fedfloor simulate`."""

__all__ = ["simulate"]

from fedfloor.cli.options import (
    Format,
    FormatOption,
    OutOption,
    OwnOption,
    PoliciesOption,
    QuietOption,
    RoundsOption,
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
    own: OwnOption = False,
    quiet: QuietOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Simulate rounds of scheduling, without training.

    Example:  fedfloor simulate quick --policy random --policy round_robin --rounds 200
    """
    from fedfloor import api
    from fedfloor.cli.show.bare import own_code_on_stderr, print_json
    from fedfloor.cli.show.runs import as_json, print_simulation
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
    print_json([as_json(run) for run in runs]) if form is Format.JSON else print_simulation(runs)
