"""`fedfloor run`."""

__all__ = ["run"]

from functools import partial
from typing import Annotated

import typer

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
    with_options,
)
from fedfloor.errors import StoppedRunError
from fedfloor.runs.options import RunOptions


@app.command()
@with_options(RunOptions)
def run(
    scenario: ScenarioArgument,
    policies: PoliciesOption = None,
    rounds: RoundsOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    options: RunOptions = RunOptions(),  # noqa: B008  # frozen
    overrides: SetOption = None,
    own: OwnOption = False,
    theory: Annotated[
        bool,
        typer.Option("--theory", help="Also print the bounds of the theorems; the run folder has them anyway."),
    ] = False,
    quiet: QuietOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Train a model in rounds on the simulated plant. Needs the extra 'train'.

    Every round is scheduled by a policy; the selected floors then do real split training.

    Example:  fedfloor run quick --policy ddsra:v=1 --policy random --out runs/first
    """
    from fedfloor import api
    from fedfloor.cli.show.bare import own_code_on_stderr, print_result
    from fedfloor.cli.show.runs import as_json, print_training
    from fedfloor.cli.show.watching import training

    runs = []
    with own_code_on_stderr():
        for planned in api.plan_runs(
            scenario, policies or (), rounds, seed=seed, overrides=overrides or (), own=own, out=out, training=True,
            resume=options.resume,
        ):  # fmt: skip
            assert planned.folder is not None
            with training(planned, quiet=quiet) as view:
                try:
                    runs.append(api.run_planned(planned, options, on_event=view.show))
                except KeyboardInterrupt:
                    raise StoppedRunError(api.what_is_left(planned.folder, view.done)) from None
    print_result(runs, form, partial(print_training, theory=theory), lambda every: [as_json(done) for done in every])
