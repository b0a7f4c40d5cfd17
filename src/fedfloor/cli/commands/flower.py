"""`fedfloor flower new`."""

__all__ = ["flower_app", "flower_group", "flower_new"]

from pathlib import Path
from typing import Annotated

import typer

from fedfloor.cli.options import app
from fedfloor.errors import FedfloorError

flower_app = typer.Typer(help="Write apps for Flower.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(flower_app, name="flower")


@flower_app.callback()
def flower_group() -> None:
    """Keep `new` a command of its own, although it is the only one."""


@flower_app.command("new")
def flower_new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the app and of its folder, which must not exist yet.")
    ],
) -> None:
    """Write a Flower app whose rounds fedfloor decides.

    It has the layout of Flower's quickstart, and `flwr run` runs it: six nodes
    train a small network on a plant that the app describes. Running it needs the
    extras 'flower' and 'train'.

    Example:  fedfloor flower new my-app
    """
    from fedfloor import api

    texts, folder = api.starter_flower_app(name), Path(name)
    try:
        folder.mkdir()
        for place, text in texts.items():
            (folder / place).parent.mkdir(exist_ok=True)
            (folder / place).write_text(text, encoding="utf-8", newline="\n")
    except FileExistsError:
        raise FedfloorError(f"{folder}: exists already. Name another app, or remove the folder") from None
    except OSError as error:
        raise FedfloorError(f"{folder}: cannot be written: {error.strerror}. Change to another folder") from None
    print(f"wrote {folder}; next: cd {folder}, and follow its README.md")
