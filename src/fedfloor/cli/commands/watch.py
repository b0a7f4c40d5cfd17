"""`fedfloor watch`."""

__all__ = ["watch"]

import time
from pathlib import Path
from typing import Annotated

import click
import typer

from fedfloor.cli.options import Format, FormatOption, app

_PATIENCE = 30.0  #: [s] until a run that was started with this command has its folder


@app.command()
def watch(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder, or a folder of them.")],
    host: Annotated[
        str, typer.Option("--host", help="Address to serve on; others than loopback need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to serve on; 0: a free one.")] = 0,
    protection: Annotated[
        str,
        typer.Option(
            "--token",
            click_type=click.Choice(["auto", "always"]),
            help="Whether the page needs a token: where other machines can reach it, or always.",
        ),
    ] = "auto",
    form: FormatOption = Format.TABLE,
) -> None:
    """Show a run in the browser while it is running. Needs the extra 'report'.

    The page has floors, rounds, accuracy or error, delays and failures. Its address is printed first. A folder that
    does not exist yet is waited for, up to 30 seconds. Ctrl-C ends the command; the run goes on.

    Example:  fedfloor watch runs/demo
    """
    from fedfloor import api
    from fedfloor.cli.show.watching import page_ready, working

    with working(f"waiting for {run}, which does not exist yet"):
        _wait_for(run)
    api.watch(
        run,
        host=host,
        port=port,
        token=protection == "always",
        on_ready=lambda url: page_ready(url, as_json=form is Format.JSON),
    )


def _wait_for(folder: Path) -> None:
    end = time.monotonic() + _PATIENCE
    while not folder.exists() and time.monotonic() < end:
        time.sleep(0.1)
