"""`fedfloor local-plant`."""

__all__ = ["local_plant"]

from functools import partial

from fedfloor.cli.options import (
    Format,
    FormatOption,
    OnePolicyOption,
    OutOption,
    OwnOption,
    RoundsOption,
    ScenarioArgument,
    SeedOption,
    SetOption,
    WarningsOnlyOption,
    app,
    with_options,
)
from fedfloor.cli.serving import run_plant
from fedfloor.deploy.options import LocalOptions


@app.command("local-plant")
@with_options(LocalOptions)
def local_plant(
    scenario: ScenarioArgument,
    policy: OnePolicyOption = None,
    rounds: RoundsOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    options: LocalOptions = LocalOptions(),  # noqa: B008  # frozen
    overrides: SetOption = None,
    own: OwnOption = False,
    quiet: WarningsOnlyOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Run a whole plant on this machine. Needs the extra 'deploy'.

    Every gateway and device is a process; they talk over mutual TLS. Devices hold their shares of the
    scenario's data set. Ctrl-C ends all of them.

    Example:  fedfloor local-plant quick --set training.min_cut=1 --set baseline.cut=1 --set participation.rates=uniform
    """
    from fedfloor import api
    from fedfloor.cli.show.machines import plant_view

    run_plant(
        scenario, policy, rounds, form, seed=seed, overrides=overrides or (), own=own, out=out, resume=options.resume,
        view=partial(plant_view, quiet=quiet),
        serve=lambda planned, tell: api.serve_here(planned, options, own=own, on_event=tell),
    )  # fmt: skip
