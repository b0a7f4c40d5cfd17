"""`fedfloor data fetch`, `data show` and `data verify`."""

__all__ = ["data_app", "data_fetch", "data_show", "data_verify"]

from typing import Annotated

import typer

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
    help="Get and check data sets: fashion-mnist, cifar10, svhn.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(data_app, name="data")

DataArgument = Annotated[str, typer.Argument(metavar="NAME", help="fashion-mnist, cifar10 or svhn.")]


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
    from fedfloor.cli.show.bare import own_code_on_stderr, print_json
    from fedfloor.cli.show.datasets import print_holding
    from fedfloor.cli.show.watching import reading

    with own_code_on_stderr(), reading("the data"):
        table = api.holding(scenario, overrides or (), seed=seed, data_dir=data_dir, own=own)
    print_json(table) if form is Format.JSON else print_holding(table)


@data_app.command("verify")
def data_verify(name: DataArgument, data_dir: DataDirOption = None, form: FormatOption = Format.TABLE) -> None:
    """Check whether the files of a data set are the official ones.

    The data set is read, and what it contains is shown.

    Example:  fedfloor data verify fashion-mnist --data-dir /usr/share/datasets
    """
    from dataclasses import asdict

    from fedfloor import api
    from fedfloor.cli.show.bare import print_json
    from fedfloor.cli.show.datasets import print_verified
    from fedfloor.cli.show.watching import reading

    with reading(name):
        verified = api.verify_data(name, data_dir)
    print_json(asdict(verified)) if form is Format.JSON else print_verified(verified)
