"""`fedfloor evaluate`."""

__all__ = ["evaluate"]

from pathlib import Path
from typing import Annotated

import typer

from fedfloor.cli.options import DataDirOption, Format, FormatOption, OwnOption, app


@app.command()
def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a training run.")],
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="Also write the model, as safetensors.")
    ] = None,
    data_dir: DataDirOption = None,
    own: OwnOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Test the model of a run's last checkpoint. Needs the extra 'train'.

    Prints its test accuracy and confusion matrix, or its error if it predicts numbers.

    Example:  fedfloor evaluate runs/demo --export model.safetensors
    """
    from fedfloor import api
    from fedfloor.cli.show.bare import own_code_on_stderr, print_result
    from fedfloor.cli.show.runs import print_evaluation
    from fedfloor.cli.show.watching import working

    with own_code_on_stderr(), working(f"testing the model of {folder}") as show:
        evaluation = api.evaluate(folder, export=export, data_dir=data_dir, own=own, on_step=show)
    print_result(evaluation, form, print_evaluation)
