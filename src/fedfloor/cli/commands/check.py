"""`fedfloor check`."""

__all__ = ["check"]

from fedfloor.cli.options import (
    DataDirOption,
    Format,
    FormatOption,
    OwnOption,
    ScenarioArgument,
    SeedOption,
    SetOption,
    app,
)


@app.command()
def check(
    scenario: ScenarioArgument,
    overrides: SetOption = None,
    seed: SeedOption = None,
    data_dir: DataDirOption = None,
    own: OwnOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Validate a scenario and show what it resolves to.

    Example:  fedfloor check paper-cifar10 --set radio.channels=2
    """
    from fedfloor import api
    from fedfloor.cli.show.bare import own_code_on_stderr, print_json
    from fedfloor.cli.show.datasets import print_shortage
    from fedfloor.cli.show.scenarios import check_as_json, print_check
    from fedfloor.cli.show.watching import working

    with own_code_on_stderr(), working(f"checking {scenario}"):
        checked = api.check(scenario, overrides or (), seed=seed, data_dir=data_dir, own=own)
    if form is Format.JSON:
        print_json(check_as_json(checked))
    else:
        print_check(checked.scenario, checked.headline)
        print_shortage(checked.shortage)
