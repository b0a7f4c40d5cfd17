"""`fedfloor flower new`."""

__all__ = ["flower_app", "flower_group", "flower_new"]

from typing import Annotated

import typer

from fedfloor.cli.options import app

flower_app = typer.Typer(
    help="Use Flower: write an app whose rounds fedfloor decides.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(flower_app, name="flower")


@flower_app.callback()
def flower_group() -> None:
    """Keep `new` a command of its own, although it is the only one."""


@flower_app.command("new")
def flower_new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the app and of its folder, which must not exist.")
    ],
) -> None:
    """Write a Flower app that `flwr run` runs, in the layout of Flower's quickstart.

    Six nodes train a small network; the strategy FedFloor decides who takes part, on a plant that the app describes.
    Running it needs the extras 'flower' and 'train'.

    Example:  fedfloor flower new my-app
    """
    from fedfloor import api

    folder = api.new_flower_app(name)
    print(f"wrote {folder}; next: cd {folder}, and follow its README.md")
