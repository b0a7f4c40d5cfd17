"""Options are declared once: the command line, Python and the trainer take them from there."""

import dataclasses
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner

import fedfloor
from fedfloor.cli import program
from fedfloor.cli.options import with_options
from fedfloor.errors import FedfloorError, ScenarioError
from fedfloor.runs.options import (
    CompareArguments,
    CompareOptions,
    Option,
    RunArguments,
    RunOptions,
    declared_options,
)

KINDS: list[tuple[str, type[RunOptions | CompareOptions]]] = [("run", RunOptions), ("compare", CompareOptions)]
FIELDS = [(command, kind, entry.name) for command, kind in KINDS for entry in dataclasses.fields(kind)]


def flag(name: str, option: Option) -> str:
    return f"--{(option.flag or name).replace('_', '-')}"


@pytest.mark.parametrize(("command", "kind"), KINDS)
def test_every_option_is_in_the_help_of_its_command(
    command: str, kind: type[Any], fedfloor_command: Callable[..., Any]
) -> None:
    text = " ".join(fedfloor_command(command, "--help").stdout.split())
    for name, _, option in declared_options(kind):
        assert f"{flag(name, option)} " in text
        assert option.help in text
    assert {name for name, _, _ in declared_options(kind)} == {entry.name for entry in dataclasses.fields(kind)}


@pytest.mark.parametrize(("command", "kind", "name"), FIELDS)
def test_every_option_is_a_keyword_of_its_function(command: str, kind: type[Any], name: str) -> None:
    default = getattr(kind(), name)
    with pytest.raises(ScenarioError, match=r"nowhere\.toml: no such file"):  # the option was taken before that
        getattr(fedfloor, command)("nowhere.toml", **{name: default})


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_keyword_that_is_no_option_is_refused(command: str) -> None:
    with pytest.raises(TypeError, match="patience"):
        getattr(fedfloor, command)("nowhere.toml", patience=3)


def test_keywords_for_type_checkers_are_the_options() -> None:
    assert set(RunArguments.__annotations__) == {entry.name for entry in dataclasses.fields(RunOptions)}
    named = {"seeds", *CompareArguments.__annotations__}
    assert named == {entry.name for entry in dataclasses.fields(CompareOptions)}
    assert inspect.signature(fedfloor.compare).parameters["seeds"].default == CompareOptions().seeds


@pytest.mark.parametrize(("command", "kind"), KINDS)
def test_a_command_without_options_has_their_defaults(command: str, kind: type[Any]) -> None:
    parameters = {entry.name: entry.default for entry in typer.main.get_command(program()).commands[command].params}  # type: ignore[attr-defined]
    for entry in dataclasses.fields(kind):
        assert (parameters[entry.name] or None) == (getattr(kind(), entry.name) or None), entry.name


WRONG: list[tuple[type[Any], dict[str, Any], str]] = [
    (RunOptions, {"workers": 0}, "workers: must be a whole number from 1 to 256, got 0"),
    (RunOptions, {"workers": 257}, "workers: must be a whole number from 1 to 256, got 257"),
    (RunOptions, {"workers": 1.5}, "workers: must be a whole number from 1 to 256, got 1.5"),
    (RunOptions, {"workers": True}, "workers: must be a whole number from 1 to 256, got True"),
    (RunOptions, {"workers": "2"}, "workers: must be a whole number from 1 to 256, got '2'"),
    (RunOptions, {"until_accuracy": 1.1}, "until_accuracy: must be a number from 0 to 1, got 1.1"),
    (RunOptions, {"until_accuracy": -0.1}, "until_accuracy: must be a number from 0 to 1, got -0.1"),
    (RunOptions, {"until_clock": -1}, "until_clock: must be a number >= 0, got -1"),
    (RunOptions, {"until_clock": math.nan}, "until_clock: must be a number >= 0, got nan"),
    (RunOptions, {"device": "gpu"}, "device: must be cpu or cuda or mps, got 'gpu'"),
    (RunOptions, {"engine": "slurm"}, "engine: must be local or ray, got 'slurm'"),
    (RunOptions, {"ray_address": "a:1"}, "ray_address: is used only with the engine 'ray', got 'a:1'. Name the engine, "
     "or leave the address out"),
    (RunOptions, {"loggers": "mlflow"}, "loggers: must be a list of names, got a string. Write ['mlflow']"),
    (CompareOptions, {"seeds": 0}, "seeds: must be a whole number from 1 to 1000, got 0"),
    (CompareOptions, {"workers": 4097}, "workers: must be a whole number from 1 to 4096, got 4097"),
    (CompareOptions, {"engine": "slurm"}, "engine: must be local or ray, got 'slurm'"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "options", "expected"), WRONG)
def test_a_value_outside_its_limits_is_refused_alike_by_class_and_function(
    kind: type[Any], options: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    function: Any = fedfloor.run if kind is RunOptions else fedfloor.compare
    with pytest.raises(ScenarioError) as by_class:
        kind(**options)
    with pytest.raises(ScenarioError) as by_function:
        function("quick", out=tmp_path / "run", **options)
    assert str(by_class.value) == str(by_function.value) == expected
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "options",
    [
        {"workers": 1, "until_accuracy": 0, "until_clock": 0},
        {"workers": 256, "until_accuracy": 1.0, "until_clock": 1e9},
    ],
)
def test_the_limits_themselves_are_allowed(options: dict[str, Any]) -> None:
    assert dataclasses.asdict(RunOptions(**options)).items() >= options.items()


def test_resuming_needs_a_folder() -> None:
    with pytest.raises(FedfloorError, match=r"resume: needs the run folder\. Pass out=FOLDER"):
        fedfloor.run("quick", resume=True)


def test_paths_and_lists_are_brought_into_their_form() -> None:
    options = RunOptions(data_dir="data", loggers=["tensorboard"])  # type: ignore[arg-type]
    assert options == RunOptions(data_dir=Path("data"), loggers=("tensorboard",))


def invoked(kind: type[Any], *arguments: str) -> tuple[Any, str, int]:
    """The options that a command of a program of its own is called with, what it printed, and its exit code."""
    program, seen = typer.Typer(), []

    @program.command()
    @with_options(kind)
    def command(name: str, options: Any = None, last: bool = False) -> None:
        seen.append(options)

    done = CliRunner().invoke(program, ["name", *arguments])
    return (seen or [None])[0], done.output, done.exit_code


def test_all_options_arrive_as_written() -> None:
    arguments = ["--resume", "--until-accuracy", "0.9", "--until-clock", "7", "--workers", "2", "--device", "cuda"]
    arguments += ["--engine", "ray", "--ray-address", "a:1", "--data-dir", "data", "--logger", "x", "--logger", "y"]
    options, _, code = invoked(RunOptions, *arguments)
    assert code == 0
    assert options == RunOptions(
        resume=True, until_accuracy=0.9, until_clock=7.0, workers=2, device="cuda", engine="ray", ray_address="a:1",
        data_dir=Path("data"), loggers=("x", "y"),
    )  # fmt: skip
    assert invoked(RunOptions)[0] == RunOptions()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MoreOptions(RunOptions):
    """The options of a run, and as many more as somebody may add."""

    patience: Annotated[int, Option("Rounds without a better accuracy before the run ends.", least=1, most=9)] = 3
    shade: Annotated[Literal["dark", "light"], Option("Colours of the page.", flag="colours")] = "dark"
    note: Annotated[str | None, Option("What to remember.", metavar="TEXT")] = None


def test_a_new_option_is_declared_once_and_needs_no_change_of_the_command_line() -> None:
    assert invoked(MoreOptions)[0] == MoreOptions()
    options, _, _ = invoked(MoreOptions, "--patience", "5", "--colours", "light", "--note", "x", "--workers", "2")
    assert options == MoreOptions(patience=5, shade="light", note="x", workers=2)
    help_text = " ".join(invoked(MoreOptions, "--help")[1].split())
    assert "--patience INTEGER RANGE Rounds without a better accuracy before the run ends." in help_text
    assert "--colours [dark|light] Colours of the page." in help_text


def test_the_limits_of_a_new_option_hold_everywhere() -> None:
    with pytest.raises(ScenarioError, match="patience: must be a whole number from 1 to 9, got 10"):
        MoreOptions(patience=10)
    with pytest.raises(ScenarioError, match="shade: must be dark or light, got 'red'"):
        MoreOptions(shade="red")  # type: ignore[arg-type]
    options, text, code = invoked(MoreOptions, "--patience", "10")
    assert (options, code) == (None, 2)
    assert "10 is not in the range 1<=x<=9" in text
