"""`fedfloor server`."""

__all__ = ["server"]

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
from fedfloor.deploy.options import ServerOptions
from fedfloor.errors import StoppedRunError


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
    from fedfloor.cli.show.bare import own_code_on_stderr, print_json
    from fedfloor.cli.show.machines import deployed_as_json, listening, logging_to_stderr, print_deployed
    from fedfloor.cli.show.watching import training

    address = listening(options.listen)
    with own_code_on_stderr():
        (planned,) = api.plan_runs(
            scenario, [] if policy is None else [policy], rounds, seed=seed, overrides=overrides or (), own=own,
            out=out, training=True, resume=options.resume,
        )  # fmt: skip
        assert planned.folder is not None
        with logging_to_stderr(quiet=quiet), training(planned, quiet=quiet) as view:
            try:
                done = api.serve(planned, options, on_event=view.show, on_listening=address)
            except KeyboardInterrupt:
                raise StoppedRunError(api.what_is_left(planned.folder, view.done)) from None
    print_json(deployed_as_json(done)) if form is Format.JSON else print_deployed(done)
