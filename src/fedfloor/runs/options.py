"""Options of a run that the scenario does not hold: one list for the command line, Python and the trainer.

Every option is declared once, with its limits and its help. `RunArguments` and `CompareArguments` repeat the names for
type checkers, because Python has no way to derive them.
"""

__all__ = [
    "DATA_DIR",
    "CompareArguments",
    "CompareOptions",
    "Option",
    "RunArguments",
    "RunOptions",
    "check_options",
    "declared_options",
    "refuse_until",
]

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict, get_args, get_origin, get_type_hints

from fedfloor.arguments import flag_problem, path_problem, text_problem, texts_problem
from fedfloor.errors import ScenarioError, shown

if TYPE_CHECKING:
    from fedfloor.scenario.resolved import Scenario


@dataclass(frozen=True, slots=True)
class Option:
    """How an option is written and explained on the command line, and between which limits it lies."""

    help: str
    metavar: str | None = None
    flag: str | None = None  #: if it is not the field's name
    least: float | None = None
    most: float | None = None


DATA_DIR = Option(
    "Folder with the data sets. Default: FEDFLOOR_DATA if set, otherwise your user data folder.", metavar="DIR"
)
_ENGINE = Option("Where work runs: processes of this machine, or Ray (extra 'ray'). The result is the same.")
_RAY_ADDRESS = Option(
    "A Ray cluster that is already running; if left out, a cluster of this machine.", metavar="HOST:PORT"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of `fedfloor run`."""

    resume: Annotated[bool, Option("Resume from the last checkpoint of the run folder.")] = False
    until_accuracy: Annotated[
        float | None, Option("End when an evaluation reaches this accuracy.", metavar="A", least=0, most=1)
    ] = None
    until_loss: Annotated[
        float | None, Option("End when the test loss of an evaluation is at most this.", metavar="LOSS", least=0)
    ] = None
    until_clock: Annotated[
        float | None, Option("End when this much simulated time has passed.", metavar="SECONDS", least=0)
    ] = None
    workers: Annotated[
        int | None,
        Option("Training processes; one per core if left out. The result is the same.", least=1, most=256),
    ] = None
    device: Annotated[Literal["cpu", "cuda", "mps"], Option("Processor to train on: cpu, cuda or mps.")] = "cpu"
    engine: Annotated[Literal["local", "ray"], _ENGINE] = "local"
    ray_address: Annotated[str | None, _RAY_ADDRESS] = None
    data_dir: Annotated[Path | None, DATA_DIR] = None
    loggers: Annotated[
        tuple[str, ...],
        Option(
            "Also show every round in tensorboard or mlflow; repeatable. Each needs the extra of its name.",
            metavar="NAME",
            flag="logger",
        ),
    ] = ()

    def __post_init__(self) -> None:
        check_options(self)
        _refuse_useless_address(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """Options of `fedfloor compare`."""

    seeds: Annotated[int, Option("Number of seeds per policy, counted up from --seed.", least=1, most=1000)] = 3
    engine: Annotated[Literal["local", "ray"], _ENGINE] = "local"
    ray_address: Annotated[str | None, _RAY_ADDRESS] = None
    workers: Annotated[
        int | None,
        Option("Number of runs trained at the same time; one per core if left out.", least=1, most=4096),
    ] = None
    data_dir: Annotated[Path | None, DATA_DIR] = None

    def __post_init__(self) -> None:
        check_options(self)
        _refuse_useless_address(self)


class RunArguments(TypedDict, total=False):
    """The options of a run as keyword arguments; see `RunOptions`."""

    resume: bool
    until_accuracy: float | None
    until_loss: float | None
    until_clock: float | None
    workers: int | None
    device: str
    engine: str
    ray_address: str | None
    data_dir: str | Path | None
    loggers: Sequence[str]


class CompareArguments(TypedDict, total=False):
    """The options of a comparison as keyword arguments, but for `seeds`; see `CompareOptions`."""

    engine: str
    ray_address: str | None
    workers: int | None
    data_dir: str | Path | None


def declared_options(kind: type[object]) -> Iterator[tuple[str, object, Option]]:
    """Name, type and declaration of every option of a class of options."""
    for name, hint in get_type_hints(kind, include_extras=True).items():
        plain, option = get_args(hint)
        yield name, plain, option


def check_options(options: object) -> None:
    """Refuse values of other types and outside their limits, then bring paths and lists into their form."""
    for name, kind, option in declared_options(type(options)):
        value = getattr(options, name)
        if value is None and type(None) in get_args(kind):
            continue
        problem = _problem(kind, option, value)
        if problem:
            raise ScenarioError(f"{name}: {problem}")
        if Path in get_args(kind):
            object.__setattr__(options, name, Path(value))
        elif get_origin(kind) is tuple:
            object.__setattr__(options, name, tuple(value))


def _refuse_useless_address(options: "RunOptions | CompareOptions") -> None:
    if options.ray_address is not None and options.engine != "ray":
        problem = f"ray_address: is used only with the engine 'ray', got {shown(options.ray_address)}"
        raise ScenarioError(f"{problem}. Name the engine, or leave the address out")


def refuse_until(scenario: "Scenario", accuracy: float | None) -> None:
    """Refuse to wait for an accuracy if the scenario predicts numbers, which have none."""
    if accuracy is not None and scenario.training.predicts_numbers:
        problem = (
            f"until_accuracy: the scenario has training.task = 'regression', so there is no accuracy, got {accuracy}"
        )
        raise ScenarioError(f"{problem}. Use until_loss (--until-loss): the mean squared error on the test set")


def _problem(kind: object, option: Option, value: object) -> str:
    """What is wrong with the value of an option of this type; empty if nothing is."""
    if get_origin(kind) is Literal:
        is_known = isinstance(value, str) and value in get_args(kind)
        return "" if is_known else f"must be {' or '.join(get_args(kind))}, got {shown(value)}"
    if get_origin(kind) is tuple:
        return texts_problem(value)
    kinds = {kind, *get_args(kind)}
    if not kinds.isdisjoint((int, float)):
        return _number_problem(option, value, whole=int in kinds)
    if bool in kinds:
        return flag_problem(value)
    return path_problem(value) if Path in kinds else text_problem(value)


def _number_problem(option: Option, value: object, *, whole: bool) -> str:
    least, most = option.least or 0.0, math.inf if option.most is None else option.most
    kind = int if whole else int | float
    if isinstance(value, kind) and not isinstance(value, bool) and least <= value <= most:
        return ""
    limits = f"from {least:g} to {most:g}" if most < math.inf else f">= {least:g}"
    return f"must be a {'whole number' if whole else 'number'} {limits}, got {shown(value)}"


assert {entry.name for entry in fields(RunOptions)} == set(RunArguments.__annotations__)
assert {entry.name for entry in fields(CompareOptions)} == {"seeds", *CompareArguments.__annotations__}
