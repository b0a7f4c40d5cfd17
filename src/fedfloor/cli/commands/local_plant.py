"""`fedfloor local-plant`."""

__all__ = ["local_plant"]

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
from fedfloor.deploy.options import LocalOptions
from fedfloor.errors import StoppedRunError


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
    from fedfloor.cli.show.bare import own_code_on_stderr, print_json
    from fedfloor.cli.show.machines import deployed_as_json, logging_to_stderr, plant_view, print_deployed

    with own_code_on_stderr():
        (planned,) = api.plan_runs(
            scenario, [] if policy is None else [policy], rounds, seed=seed, overrides=overrides or (), own=own,
            out=out, training=True, resume=options.resume,
        )  # fmt: skip
        assert planned.folder is not None
        with logging_to_stderr(quiet=True), plant_view(planned, quiet=quiet) as view:
            try:
                done = api.serve_here(planned, options, own=own, on_event=view.show)
            except KeyboardInterrupt:
                raise StoppedRunError(api.what_is_left(planned.folder, view.done)) from None
    print_json(deployed_as_json(done)) if form is Format.JSON else print_deployed(done)
