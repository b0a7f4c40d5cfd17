"""The program, and the options that several commands share."""

__all__ = [
    "CostModel",
    "DataDirOption",
    "Format",
    "FormatOption",
    "OnePolicyOption",
    "OutOption",
    "OwnOption",
    "PoliciesOption",
    "ProfileFormat",
    "QuietOption",
    "RoundsOption",
    "RunFormat",
    "ScenarioArgument",
    "SeedOption",
    "SetOption",
    "WarningsOnlyOption",
    "app",
    "with_options",
]

import functools
import inspect
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import click
import typer
import typer.core

from fedfloor import __version__
from fedfloor.cli.completing import complete_key, complete_policy, complete_preset
from fedfloor.runs.options import DATA_DIR, Option, declared_options

# Plain help: rich would take longer to import than everything else, and typer escapes brackets for it.
typer.core.HAS_RICH = False

app = typer.Typer(
    name="fedfloor",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},  # commands inherit it
)


class Format(StrEnum):
    """How a command prints."""

    TABLE = "table"
    JSON = "json"


class RunFormat(StrEnum):
    """How `simulate` prints."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class ProfileFormat(StrEnum):
    """How `profile` prints."""

    TABLE = "table"
    JSON = "json"
    TOML = "toml"


class CostModel(StrEnum):
    """How operations and bytes are counted, or that times and bytes are measured."""

    EXACT = "exact"
    PAPER = "paper"
    MEASURED = "measured"


ScenarioArgument = Annotated[
    str,
    typer.Argument(metavar="SCENARIO", help="TOML file or name of a preset.", autocompletion=complete_preset),
]
FormatOption = Annotated[Format, typer.Option("--format", help="Table for people or JSON for programs.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SECTION.KEY=VALUE",
        help="Override one scenario value; repeatable.",
        autocompletion=complete_key,
    ),
]
OwnOption = Annotated[
    bool,
    typer.Option("--own", help="Run the code that the scenario or run folder names: its own policy, model or data."),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed", min=0, help="Seed of every random draw, but for the plant's if the scenario has plant_seed."
    ),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="DIR", help=DATA_DIR.help),
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]
WarningsOnlyOption = Annotated[bool, typer.Option("--quiet", help="Show warnings only.")]
PoliciesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="NAME[:KEY=VALUE,...]",
        help="Policy that schedules the rounds; repeatable, all on the same weather. Default: the scenario's policy "
        "with its settings. A policy named here starts from its own defaults; only V of ddsra is the scenario's, if "
        "its policy is ddsra.",
        autocompletion=complete_policy,
    ),
]
OnePolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME[:KEY=VALUE,...]",
        help="Policy that schedules the rounds. Default: the scenario's policy with its settings.",
        autocompletion=complete_policy,
    ),
]
RoundsOption = Annotated[
    int | None, typer.Option("--rounds", min=1, help="Number of rounds; the scenario's if left out.")
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Run folder; with several policies, the folder that gets a run folder for each. "
        "Default: runs/SCENARIO-POLICY-SEED.",
    ),
]


def _version(requested: bool) -> None:
    if requested:
        print(f"fedfloor {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Low-latency federated learning on factory floors.

    Start with:  fedfloor list,  fedfloor check quick,  fedfloor simulate quick
    """


def with_options(kind: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the declared options of a class, in the place of its parameter `options`.

    The command is called with an object of the class, so that a new option changes no command.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        declared = [_parameter(kind, *entry) for entry in declared_options(kind)]

        @functools.wraps(command)
        def wrapper(**arguments: Any) -> None:
            values = {entry.name: arguments.pop(entry.name) for entry in declared}
            given = {name: value for name, value in values.items() if value is not None}
            command(options=kind(**given), **arguments)

        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command).parameters.values():
            parameters += declared if parameter.name == "options" else [parameter]
        wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
        wrapper.__annotations__ = {entry.name: entry.annotation for entry in parameters}
        return wrapper

    return decorate


def _parameter(kind: type[Any], name: str, hint: Any, option: Option) -> inspect.Parameter:
    """A declared option as typer takes it."""
    default = getattr(kind(), name)
    limits: dict[str, Any] = {"min": option.least, "max": option.most, "metavar": option.metavar, "help": option.help}
    flag = f"--{(option.flag or name).replace('_', '-')}"
    if get_origin(hint) is Literal:
        hint, limits["click_type"] = str, click.Choice(list(get_args(hint)))
    elif get_origin(hint) is tuple:
        hint, default = list[str] | None, None
    annotation = Annotated[hint, typer.Option(flag, **limits)]
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, keyword, default=default, annotation=annotation)
