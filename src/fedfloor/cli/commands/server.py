"""`fedfloor server`."""

__all__ = ["server"]

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
from fedfloor.deploy.options import ServerOptions


@app.command()
@with_options(ServerOptions)
def server(
    scenario: ScenarioArgument,
    policy: OnePolicyOption = None,
    rounds: RoundsOption = None,
    seed: SeedOption = None,
    out: OutOption = None,
    options: ServerOptions = ServerOptions(),  # noqa: B008  # frozen
    overrides: SetOption = None,
    own: OwnOption = False,
    quiet: WarningsOnlyOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Run the base station of a plant of real machines. Needs the extra 'deploy'.

    The first line on standard output is the address on which gateways can join.

    Example:  fedfloor server plant.toml --listen 0.0.0.0:7443 --certs certs --out runs/plant
    """
    from fedfloor import api
    from fedfloor.cli.show.machines import base_station_view, listening

    address = listening(options.listen)
    run_plant(
        scenario, policy, rounds, form, seed=seed, overrides=overrides or (), own=own, out=out, resume=options.resume,
        view=partial(base_station_view, quiet=quiet),
        serve=lambda planned, tell: api.serve(planned, options, on_event=tell, on_listening=address),
    )  # fmt: skip
