"""`fedfloor list`."""

__all__ = ["list_"]

from fedfloor.cli.options import Format, FormatOption, app


@app.command("list")
def list_(form: FormatOption = Format.TABLE) -> None:
    """List presets, policies, rules, models and data sets.

    Aggregation rules are listed too, each with one line.

    Example:  fedfloor list --format json
    """
    from fedfloor import api
    from fedfloor.cli.show.bare import print_result
    from fedfloor.cli.show.scenarios import print_listing

    groups = api.listing()
    print_result(groups, form, print_listing)
