"""`fedfloor tradeoff`."""

__all__ = ["tradeoff"]

from typing import Annotated

import typer

from fedfloor.cli.options import (
    Format,
    FormatOption,
    OwnOption,
    QuietOption,
    ScenarioArgument,
    SeedOption,
    SetOption,
    app,
)


@app.command()
def tradeoff(
    scenario: ScenarioArgument,
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, help="Rounds per V; the scenario's if left out.")
    ] = None,
    seed: SeedOption = None,
    overrides: SetOption = None,
    own: OwnOption = False,
    quiet: QuietOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Measure delay and participation of ddsra over V.

    V is the weight of a second of delay against a missed round of participation: a larger V gives shorter rounds. The
    bounds of Theorem 2 are shown beside the measurements.

    Example:  fedfloor tradeoff paper-cifar10 --rounds 300
    """
    from dataclasses import asdict
    from functools import partial

    from fedfloor import api
    from fedfloor.cli.show.bare import own_code_on_stderr, print_result
    from fedfloor.cli.show.tradeoffs import print_tradeoff, sweeping

    with own_code_on_stderr():
        resolved = api.load(scenario, overrides or (), seed=seed, rounds=rounds, own=own)
    with sweeping(resolved, quiet=quiet) as on_round:
        points = api.tradeoff(resolved, on_round=on_round)
    print_result(points, form, partial(print_tradeoff, resolved), lambda every: [asdict(point) for point in every])
