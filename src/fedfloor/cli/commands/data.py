"""Commands about data sets: fetch, show, verify."""

__all__ = ["data_app", "data_fetch", "data_show", "data_verify"]

from typing import Annotated

import typer

from fedfloor.cli.options import (
    DataDirOption,
    Format,
    FormatOption,
    QuietOption,
    ScenarioArgument,
    SeedOption,
    SetOption,
    app,
)

data_app = typer.Typer(
    help="Get and check data sets: fashion-mnist, cifar10, svhn.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(data_app, name="data")

DataArgument = Annotated[str, typer.Argument(metavar="NAME", help="fashion-mnist, cifar10 or svhn.")]


@data_app.command("fetch")
def data_fetch(name: DataArgument, data_dir: DataDirOption = None, quiet: QuietOption = False) -> None:
    """Download the official files of a data set and check them; goes on where it was interrupted.

    Example:  fedfloor data fetch cifar10
    """
    from fedfloor.cli.show import downloading
    from fedfloor.training.data.fetching import fetch

    with downloading(quiet=quiet) as show:
        files = fetch(name, data_dir, on_progress=show)
    for file in files:
        print(f"{'fetched' if file.fresh else 'there already:'} {file.path}")


@data_app.command("show")
def data_show(
    scenario: ScenarioArgument,
    data_dir: DataDirOption = None,
    overrides: SetOption = None,
    seed: SeedOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Show who holds what: samples of every device, class by class.

    Example:  fedfloor data show quick --set data.partition=dirichlet
    """
    from fedfloor import api
    from fedfloor.cli import show as console

    with console.reading("the data"):
        found = api.holding(scenario, overrides or (), seed=seed, data_dir=data_dir)
    console.print_json(found) if form is Format.JSON else console.print_holding(found)


@data_app.command("verify")
def data_verify(name: DataArgument, data_dir: DataDirOption = None, form: FormatOption = Format.TABLE) -> None:
    """Read a data set and show what it holds and whether its files are the official ones.

    Example:  fedfloor data verify fashion-mnist --data-dir /usr/share/datasets
    """
    from dataclasses import asdict

    from fedfloor.cli.show import print_json, print_verified, reading
    from fedfloor.training.data.fetching import verify

    with reading(name):
        report = asdict(verify(name, data_dir))
    print_json(report) if form is Format.JSON else print_verified(report)
