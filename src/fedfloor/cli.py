"""Arguments -> one call per command; everything heavy is imported when a command needs it."""

__all__ = [
    "CostModel",
    "Device",
    "Format",
    "ProfileFormat",
    "app",
    "check",
    "data_app",
    "data_fetch",
    "data_show",
    "data_verify",
    "evaluate",
    "init",
    "list_",
    "main",
    "plan",
    "profile",
    "run",
    "schema",
    "simulate",
    "tradeoff",
]

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from fedfloor import __version__
from fedfloor.errors import FailedRunError, FedfloorError

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


@app.command("list")
def list_(form: FormatOption = Format.TABLE) -> None:
    """Show presets, policies, models, data sets and cost models.

    Example:  fedfloor list --format json
    """
    from fedfloor.console import print_json, print_listing
    from fedfloor.scenario import preset_names, preset_summary
    from fedfloor.scenario.catalogue import COST_MODELS, DATASETS, NETWORKS
    from fedfloor.scheduling.registry import policy_summaries

    groups = {
        "presets": {name: preset_summary(name) for name in preset_names()},
        "policies": policy_summaries(),
        "models": {name: facts.summary for name, facts in NETWORKS.items()},
        "data sets": {name: facts.summary for name, facts in DATASETS.items()},
        "cost models": dict(COST_MODELS),
    }
    print_json(groups) if form is Format.JSON else print_listing(groups)


@app.command()
def init(file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write; must not exist yet.")]) -> None:
    """Write a commented scenario to start from.

    Example:  fedfloor init plant.toml
    """
    from fedfloor.scenario import starter

    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(starter())
    except FileExistsError:
        raise FedfloorError(f"{file}: exists already. Name another file, or remove it") from None
    except OSError as error:
        raise FedfloorError(f"{file}: cannot be written: {error.strerror}. Name another place") from None
    print(f"wrote {file}; next: fedfloor check {file}")


@app.command()
def schema() -> None:
    """Print the JSON schema of a scenario, for editors that complete and check TOML.

    Example:  fedfloor schema > scenario.schema.json
    """
    from fedfloor.console import print_json
    from fedfloor.scenario import ScenarioFile

    print_json(ScenarioFile.model_json_schema())


@app.command()
def check(
    scenario: ScenarioArgument, overrides: SetOption = None, seed: SeedOption = None, form: FormatOption = Format.TABLE
) -> None:
    """Validate a scenario and show what it resolves to.

    Example:  fedfloor check paper-cifar10 --set radio.channels=2
    """
    from dataclasses import asdict

    from fedfloor.api import holding, load
    from fedfloor.console import print_check, print_json, print_short
    from fedfloor.costs.headline import headline
    from fedfloor.scheduling.registry import PolicySpec, make_policy
    from fedfloor.weather import climate_of

    plant = load(scenario, overrides or (), seed=seed)
    climate_of(plant)  # reads the traces, so that their mistakes show here
    make_policy(PolicySpec(plant.policy.name, tuple(plant.policy.settings.items())))
    figures = headline(plant)
    if form is Format.JSON:
        print_json({"scenario": plant.model_dump(mode="json"), "figures": asdict(figures)})
    else:
        print_check(plant, figures)
        if plant.data.name == "fashion-mnist":  # the others may be large files, or not here
            print_short(holding(scenario, overrides or (), seed=seed))


@app.command()
def profile(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="vgg11, cnn, mlp, or package.module:callable.")],
    shape: Annotated[
        str | None, typer.Option("--input", metavar="C,H,W", help="Shape of one sample; what the model is made for.")
    ] = None,
    batch: Annotated[
        int, typer.Option("--batch", min=1, max=10**9, help="Samples in a batch, for the totals per cut.")
    ] = 50,
    costs: Annotated[CostModel, typer.Option("--costs", help="How to count.")] = CostModel.EXACT,
    overrides: SetOption = None,
    form: Annotated[
        ProfileFormat, typer.Option("--format", help="Table, JSON, or the TOML layer list of a scenario.")
    ] = ProfileFormat.TABLE,
) -> None:
    """Show FLOPs and bytes of every layer, and the totals for every cut. Needs the extra 'train'.

    Example:  fedfloor profile vgg11 --batch 50 --costs paper --set model.head=4096-4096
    """
    from fedfloor import profiling
    from fedfloor.console import print_json, print_profile

    found = profiling.profile(model, shape, batch=batch, costs=costs.value, overrides=overrides or ())
    if form is ProfileFormat.JSON:
        print_json(found.figures)
    elif form is ProfileFormat.TOML:
        print(profiling.layers_toml(found.layers))
    else:
        print_profile(found.figures["model"], found.layers, found.costs, costs.value, batch, found.figures)


@app.command()
def simulate(
    scenario: ScenarioArgument,
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME[:KEY=VALUE,...]",
            help="Who decides; repeatable, all on the same weather. The scenario's own if left out; settings left out "
            "are the policy's defaults, as ddsra's v=1000, not the scenario's.",
        ),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, help="Number of rounds; the scenario's if left out.")
    ] = None,
    seed: SeedOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Run folder, or with several policies where each gets one; default runs."
        ),
    ] = None,
    overrides: SetOption = None,
    quiet: QuietOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Run rounds of scheduling on the simulated network, without training.

    Example:  fedfloor simulate quick --policy random --policy round_robin --rounds 200
    """
    from statistics import median

    from fedfloor import api, console
    from fedfloor.summary import summarise

    runs = []
    chosen: list[str | None] = list(policies or ()) or [None]
    planned = [api.prepare(scenario, policy, rounds, seed=seed, overrides=overrides or ()) for policy in chosen]
    folders = api.run_folders(planned, out)
    for prepared, folder in zip(planned, folders, strict=True):
        total, note = prepared.scenario.rounds, _first_time(prepared.policy.name)
        with console.progress(str(prepared.policy), total, quiet=quiet, note=note) as (bar, task):

            def show(entry: dict[str, Any], bar: Any = bar, task: Any = task) -> None:
                bar.update(task, advance=1, note=f"clock {entry['clock_s'] or 0.0:.0f} s")

            runs.append(api.carry_out(prepared, folder, on_round=show))
    summaries = [summarise(run.records) for run in runs]
    seconds = [median(entry["solve_s"] for entry in run.timings) for run in runs]  # the first round may compile
    if form is Format.JSON:
        entries = zip(summaries, seconds, folders, strict=True)
        console.print_json([console.as_json(*entry) for entry in entries])
    else:
        console.print_simulation(summaries, seconds, [str(run.folder) for run in runs])


@app.command()
def run(
    scenario: ScenarioArgument,
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME[:KEY=VALUE,...]",
            help="Who decides; repeatable, all on the same weather, data and first weights. The scenario's own "
            "if left out.",
        ),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, help="Number of rounds; the scenario's if left out.")
    ] = None,
    seed: SeedOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Run folder, or with several policies where each gets one; default runs."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint of the run folder.")] = False,
    until_accuracy: Annotated[
        float | None,
        typer.Option("--until-accuracy", metavar="A", min=0, max=1, help="End when an evaluation reaches it."),
    ] = None,
    until_clock: Annotated[
        float | None,
        typer.Option("--until-clock", metavar="SECONDS", min=0, help="End when so much simulated time has passed."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=1, max=256, help="Training processes; one per core if left out. The result is the same."
        ),
    ] = None,
    device: Annotated[Device, typer.Option("--device", help="Where tensors live.")] = Device.CPU,
    data_dir: DataDirOption = None,
    loggers: Annotated[
        list[str] | None,
        typer.Option(
            "--logger",
            metavar="NAME",
            help="Also show every round in tensorboard or mlflow; repeatable. Each needs the extra of its name.",
        ),
    ] = None,
    overrides: SetOption = None,
    quiet: QuietOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Train: rounds of scheduling and real split learning on the simulated network. Needs the extra 'train'.

    Example:  fedfloor run quick --policy ddsra:v=1 --policy random --out runs/first
    """
    from statistics import median

    from fedfloor import api, console
    from fedfloor.summary import summarise

    chosen: list[str | None] = list(policies or ()) or [None]
    planned = [
        api.prepare(scenario, policy, rounds, seed=seed, overrides=overrides or (), training=True) for policy in chosen
    ]
    folders = api.run_folders(planned, out, resume=resume)
    runs = []
    for prepared, folder in zip(planned, folders, strict=True):
        note = _first_time(prepared.policy.name)
        with console.progress(str(prepared.policy), prepared.scenario.rounds, quiet=quiet, note=note) as (bar, task):
            show = console.training_note(bar, task)
            runs.append(
                api.carry_out_training(
                    prepared,
                    folder,
                    resume=resume,
                    until_accuracy=until_accuracy,
                    until_clock=until_clock,
                    workers=workers,
                    device=device.value,
                    data_dir=data_dir,
                    loggers=loggers or (),
                    on_event=show,
                )
            )
    summaries = [summarise(done.records) for done in runs]
    seconds = [median([entry["solve_s"] for entry in done.timings] or [0.0]) for done in runs]
    if form is Format.JSON:
        entries = zip(summaries, seconds, folders, runs, strict=True)
        console.print_json([console.as_json(*entry) for entry in entries])
    else:
        console.print_training(summaries, seconds, [str(folder) for folder in folders], runs)


@app.command()
def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a training run.")],
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="Also write the model, as safetensors.")
    ] = None,
    data_dir: DataDirOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Test the model of a run's last checkpoint: accuracy and who is taken for whom. Needs the extra 'train'.

    Example:  fedfloor evaluate runs/demo --export model.safetensors
    """
    from fedfloor import api, console

    found = api.evaluate(folder, export=export, data_dir=data_dir)
    console.print_json(found) if form is Format.JSON else console.print_evaluation(found)


@app.command()
def plan(
    source: Annotated[str, typer.Argument(metavar="SNAPSHOT", help="Snapshot file, or a run folder with --round.")],
    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="NAME[:KEY=VALUE,...]", help="Who decides; default what the round says."),
    ] = None,
    solver: Annotated[str | None, typer.Option("--solver", metavar="exact|paper", help="Solver of ddsra.")] = None,
    index: Annotated[int | None, typer.Option("--round", min=0, help="Round of a run folder, from 0.")] = None,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="Write the round as a snapshot.")
    ] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Decide one round: who is served, on which channel, with which cuts, frequencies and powers.

    Example:  fedfloor plan runs/demo --round 17 --policy ddsra:v=10 --export round.json
    """
    from fedfloor.api import round_to_plan
    from fedfloor.console import print_json, print_plan, working
    from fedfloor.planning import answer, export_snapshot

    wanted = round_to_plan(source, index)
    with working(_first_time(wanted.policy.name if policy is None else policy)):
        decided = answer(wanted, policy, solver)
    if export is not None:
        export_snapshot(wanted, export)
    print_json(decided) if form is Format.JSON else print_plan(decided)


@app.command()
def tradeoff(
    scenario: ScenarioArgument,
    rounds: Annotated[int | None, typer.Option("--rounds", min=1, help="Rounds per V.")] = None,
    seed: SeedOption = None,
    overrides: SetOption = None,
    quiet: QuietOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Measure how delay and participation trade against each other over V, beside the bounds of Theorem 2.

    Example:  fedfloor tradeoff paper-cifar10 --rounds 300
    """
    from dataclasses import asdict

    from fedfloor import console
    from fedfloor.api import load
    from fedfloor.tradeoff import STEPS, measure

    plant = load(scenario, overrides or (), seed=seed, rounds=rounds)
    total = len(STEPS) * plant.rounds
    with console.progress("V", total, quiet=quiet, note=_first_time("ddsra")) as (bar, task):
        points = measure(plant, on_round=lambda: bar.update(task, advance=1, note=""))
    if form is Format.JSON:
        console.print_json([asdict(point) for point in points])
    else:
        console.print_tradeoff(plant, points)


data_app = typer.Typer(
    help="Get and check data sets: fashion-mnist, cifar10, svhn.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(data_app, name="data")

DataArgument = Annotated[str, typer.Argument(metavar="NAME", help="fashion-mnist, cifar10 or svhn.")]


@data_app.command("fetch")
def data_fetch(name: DataArgument, data_dir: DataDirOption = None, quiet: QuietOption = False) -> None:
    """Download the official files of a data set and check them; goes on where it was interrupted.

    Example:  fedfloor data fetch cifar10
    """
    from fedfloor.console import downloading
    from fedfloor.training.fetching import fetch

    with downloading(quiet=quiet) as show:
        files = fetch(name, data_dir, on_progress=show)
    for file in files:
        print(f"{'fetched' if file.fresh else 'there already:'} {file.path}")


@data_app.command("show")
def data_show(
    scenario: ScenarioArgument,
    data_dir: DataDirOption = None,
    overrides: SetOption = None,
    seed: SeedOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Show who holds what: samples of every device, class by class.

    Example:  fedfloor data show quick --set data.partition=dirichlet
    """
    from fedfloor import api, console

    found = api.holding(scenario, overrides or (), seed=seed, data_dir=data_dir)
    console.print_json(found) if form is Format.JSON else console.print_holding(found)


@data_app.command("verify")
def data_verify(name: DataArgument, data_dir: DataDirOption = None, form: FormatOption = Format.TABLE) -> None:
    """Read a data set and show what it holds and whether its files are the official ones.

    Example:  fedfloor data verify fashion-mnist --data-dir /usr/share/datasets
    """
    from dataclasses import asdict

    from fedfloor.console import print_json, print_verified
    from fedfloor.training.fetching import verify

    report = asdict(verify(name, data_dir))
    print_json(report) if form is Format.JSON else print_verified(report)


def _first_time(policy: str) -> str:
    """What to say while the solver compiles; nothing where it does not have to."""
    if policy.partition(":")[0] != "ddsra":
        return ""
    from fedfloor.scheduling.solver.compiling import is_compiled

    return "" if is_compiled() else "the solver is compiled once, which takes up to a minute"


def main() -> None:
    """Run a command; wrong input ends in one line on standard error and exit code 2."""
    import click

    command = typer.main.get_command(app)
    sys.path.insert(0, "")  # a policy or model of the user's in this folder
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without our signs shows others
    try:
        code = command.main(standalone_mode=False)
        if code == 130:  # typer turns Ctrl-C into this
            raise KeyboardInterrupt
        sys.stdout.flush()  # a reader who left early shows here
        sys.exit(code)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        sys.exit(0)
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx is not None else "fedfloor"
        message = error.format_message().splitlines()[0].rstrip(".")
        _fail(f"{message}{'' if message.endswith('?') else '.'} See `{where} --help`.", 2)
    except FedfloorError as error:
        _fail(str(error), 2)
    except FailedRunError as error:
        _fail(str(error), 1)
    except (KeyboardInterrupt, click.Abort):
        _fail("interrupted", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left early, as `| head` does
        sys.exit(0)
    except OSError as error:
        _fail(f"{error.filename or 'system'}: {error.strerror}", 1)
    except MemoryError:
        _fail("out of memory. Make the scenario smaller", 1)
    except Exception as error:
        if os.environ.get("FEDFLOOR_TRACEBACK"):
            raise
        hint = "This is a mistake of ours; FEDFLOOR_TRACEBACK=1 shows where"
        _fail(f"{type(error).__name__}: {error}. {hint}", 1)


def _fail(message: str, code: int) -> None:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)
