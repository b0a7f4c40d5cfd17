"""`fedfloor data fetch`, `data show` and `data verify`."""

__all__ = ["data_app", "data_fetch", "data_show", "data_verify"]

from typing import Annotated

import typer

from fedfloor.cli.completing import complete_preset
from fedfloor.cli.options import (
    DataDirOption,
    Format,
    FormatOption,
    OwnOption,
    QuietOption,
    ScenarioArgument,
    SeedOption,
    SetOption,
    app,
)
from fedfloor.errors import StoppedRunError

data_app = typer.Typer(
    help="Get and check data sets, and check your own files.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(data_app, name="data")

DataArgument = Annotated[str, typer.Argument(metavar="NAME", help="fashion-mnist, cifar10 or svhn.")]

VerifyArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="fashion-mnist, cifar10 or svhn, or a scenario.", autocompletion=complete_preset
    ),
]


@data_app.command("fetch")
def data_fetch(name: DataArgument, data_dir: DataDirOption = None, quiet: QuietOption = False) -> None:
    """Download the official files of a data set and check them.

    An interrupted download continues where it stopped.

    Example:  fedfloor data fetch cifar10
    """
    from fedfloor import api
    from fedfloor.cli.show.datasets import downloading

    with downloading(quiet=quiet) as show:
        try:
            files = api.fetch_data(name, data_dir, on_progress=show)
        except KeyboardInterrupt:
            raise StoppedRunError("what was downloaded is kept. Resume with the same command") from None
    for file in files:
        print(f"{'fetched' if file.fresh else 'there already:'} {file.path}")


@data_app.command("show")
def data_show(
    scenario: ScenarioArgument,
    data_dir: DataDirOption = None,
    overrides: SetOption = None,
    seed: SeedOption = None,
    own: OwnOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Show who holds what: samples of every device, class by class.

    Example:  fedfloor data show quick --set data.partition=dirichlet
    """
    from fedfloor import api
    from fedfloor.cli.show.bare import own_code_on_stderr, print_result
    from fedfloor.cli.show.datasets import print_holding
    from fedfloor.cli.show.watching import working

    with own_code_on_stderr(), working(f"reading the data of {scenario}") as show:
        table = api.holding(scenario, overrides or (), seed=seed, data_dir=data_dir, own=own, on_step=show)
    print_result(table, form, print_holding)


@data_app.command("verify")
def data_verify(
    name: VerifyArgument,
    data_dir: DataDirOption = None,
    overrides: SetOption = None,
    own: OwnOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Read a data set or a scenario's data and list what is wrong.

    Files of a data set are compared with the official ones. If a scenario
    names your own files, every file is read, and all that is wrong is listed.

    Example:  fedfloor data verify plant.toml
    """
    from dataclasses import asdict

    from fedfloor import api
    from fedfloor.cli.show.bare import own_code_on_stderr, print_result
    from fedfloor.cli.show.datasets import print_verified, refuse_wrong
    from fedfloor.cli.show.watching import working

    with own_code_on_stderr(), working(f"reading {name}") as show:
        verified = api.verify_data(name, data_dir, overrides=overrides or (), own=own, on_step=show)
    print_result(verified, form, print_verified, asdict)
    refuse_wrong(verified)
