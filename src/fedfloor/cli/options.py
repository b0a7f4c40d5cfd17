"""The program, and the options that several commands share."""

__all__ = [
    "CostModel",
    "DataDirOption",
    "Device",
    "Engine",
    "EngineOption",
    "Format",
    "FormatOption",
    "OutOption",
    "PoliciesOption",
    "ProfileFormat",
    "QuietOption",
    "RayAddressOption",
    "RoundsOption",
    "ScenarioArgument",
    "SeedOption",
    "SetOption",
    "app",
    "first_time",
]

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
import typer.core

from fedfloor import __version__

# Plain help: rich would take longer to import than everything else, and typer escapes brackets for it.
typer.core.HAS_RICH = False

app = typer.Typer(
    name="fedfloor",
    help="Low-latency federated learning on factory floors.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


class Format(StrEnum):
    """How a command prints."""

    TABLE = "table"
    JSON = "json"


class ProfileFormat(StrEnum):
    """How `profile` prints."""

    TABLE = "table"
    JSON = "json"
    TOML = "toml"


class CostModel(StrEnum):
    """How operations and bytes are counted."""

    EXACT = "exact"
    PAPER = "paper"


class Device(StrEnum):
    """Where tensors live."""

    CPU = "cpu"
    CUDA = "cuda"
    MPS = "mps"


class Engine(StrEnum):
    """Who does the work."""

    LOCAL = "local"
    RAY = "ray"


ScenarioArgument = Annotated[str, typer.Argument(metavar="SCENARIO", help="TOML file or name of a preset.")]
FormatOption = Annotated[Format, typer.Option("--format", help="Table for people or JSON for programs.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Override one scenario value; repeatable."),
]
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, help="Seed of every random draw.")]
DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", metavar="DIR", help="Where data sets lie; default FEDFLOOR_DATA, or the user's data folder."
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]
PoliciesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="NAME[:KEY=VALUE,...]",
        help="Who decides; repeatable, all on the same weather, data and first weights. The scenario's own if left "
        "out; settings left out are the policy's defaults, as ddsra's v=1000, not the scenario's.",
    ),
]
RoundsOption = Annotated[
    int | None, typer.Option("--rounds", min=1, help="Number of rounds; the scenario's if left out.")
]
EngineOption = Annotated[
    Engine,
    typer.Option(
        "--engine", help="Processes of this machine, or Ray, which is the extra 'ray'. The result is the same."
    ),
]
RayAddressOption = Annotated[
    str | None,
    typer.Option(
        "--ray-address", metavar="HOST:PORT", help="A Ray cluster that runs already; one of this machine's if left out."
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="Run folder, or with several policies where each gets one; default runs."
    ),
]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"fedfloor {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Low-latency federated learning on factory floors.

    Start with:  fedfloor list,  fedfloor check quick,  fedfloor simulate quick
    """


def first_time(policy: str) -> str:
    """What to say while the solver compiles; nothing where it does not have to."""
    if policy.partition(":")[0] != "ddsra":
        return ""
    from fedfloor.scheduling.solver.compiling import is_compiled
    from fedfloor.scheduling.solver.exact import exact_plan
    from fedfloor.scheduling.solver.paper import descended_plan

    last = descended_plan if "solver=paper" in policy else exact_plan  # of those a decision needs, the last to compile
    return "" if is_compiled(last) else "the solver is compiled once, which takes a minute or more"
