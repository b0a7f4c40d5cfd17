"""`fedfloor schema`."""

__all__ = ["schema"]

from fedfloor.cli.options import app


@app.command()
def schema() -> None:
    """Print the JSON schema of a scenario.

    Editors use it to complete and check TOML.

    Example:  fedfloor schema > scenario.schema.json
    """
    from fedfloor import api
    from fedfloor.cli.show.bare import print_json

    print_json(api.scenario_schema())
