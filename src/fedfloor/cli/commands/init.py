"""`fedfloor init`."""

__all__ = ["init"]

from pathlib import Path
from typing import Annotated

import typer

from fedfloor.cli.options import app
from fedfloor.errors import FedfloorError


@app.command()
def init(file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write; must not exist yet.")]) -> None:
    """Write a commented scenario to start from.

    Example:  fedfloor init plant.toml
    """
    from fedfloor import api

    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(api.starter_scenario())
    except FileExistsError:
        raise FedfloorError(f"{file}: exists already. Name another file, or remove it") from None
    except OSError as error:
        raise FedfloorError(f"{file}: cannot be written: {error.strerror}. Name another place") from None
    print(f"wrote {file}; next: fedfloor check {file}")
