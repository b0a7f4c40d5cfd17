"""`fedfloor profile`."""

__all__ = ["profile"]

from typing import Annotated

import typer

from fedfloor.cli.options import CostModel, ProfileFormat, app


@app.command()
def profile(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="vgg11, cnn, mlp, or package.module:callable.")],
    shape: Annotated[
        str | None,
        typer.Option("--input", metavar="C,H,W", help="Shape of one sample. Default: what the built-in model expects."),
    ] = None,
    batch: Annotated[
        int, typer.Option("--batch", min=1, max=10**9, help="Samples in a batch, for the totals per cut.")
    ] = 50,
    costs: Annotated[CostModel, typer.Option("--costs", help="Cost model for FLOPs and bytes.")] = CostModel.EXACT,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="MODEL.KEY=VALUE", help="Override one model setting, as in model.width=0.5; repeatable."
        ),
    ] = None,
    form: Annotated[
        ProfileFormat, typer.Option("--format", help="Table, JSON, or the TOML layer list of a scenario.")
    ] = ProfileFormat.TABLE,
) -> None:
    """Show FLOPs and bytes of every layer, and the totals for every cut. Needs the extra 'train'.

    Example:  fedfloor profile vgg11 --batch 50 --costs paper --set model.head=4096-4096
    """
    from fedfloor import api
    from fedfloor.cli.show.scenarios import print_profile
    from fedfloor.cli.show.terminal import print_json

    network = api.profile(model, shape, batch=batch, costs=costs.value, overrides=overrides or ())
    if form is ProfileFormat.JSON:
        print_json(network.table())
    elif form is ProfileFormat.TOML:
        print(network.layers_toml)
    else:
        print_profile(network)
