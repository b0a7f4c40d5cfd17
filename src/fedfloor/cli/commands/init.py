"""`fedfloor init`."""

__all__ = ["init"]

from pathlib import Path
from typing import Annotated

import typer

from fedfloor.cli.completing import complete_preset
from fedfloor.cli.options import app
from fedfloor.errors import FedfloorError


@app.command()
def init(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="Where to write; must not exist yet. May be left out with --preset: then PRESET.toml.",
            show_default=False,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset",
            metavar="NAME",
            help="Start from this preset instead of a small plant; `fedfloor list` shows them.",
            autocompletion=complete_preset,
        ),
    ] = None,
) -> None:
    """Write a commented scenario to start from.

    Example:  fedfloor init plant.toml

    Example:  fedfloor init plant.toml --preset factory
    """
    from fedfloor import api

    if file is None and preset is None:
        raise FedfloorError("FILE: is missing. Name the file to write, as in `fedfloor init plant.toml`")
    text = api.starter_scenario(preset)
    target = Path(f"{preset}.toml") if file is None else file
    try:
        with target.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise FedfloorError(f"{target}: exists already. Name another file, or remove it") from None
    except OSError as error:
        raise FedfloorError(f"{target}: cannot be written: {error.strerror}. Name another place") from None
    print(f"wrote {target}; next: fedfloor check {target}")
