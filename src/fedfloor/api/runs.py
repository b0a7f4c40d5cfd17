"""Runs: simulate, train, evaluate, and read their logs."""

__all__ = [
    "Run",
    "evaluate",
    "folder_of",
    "load",
    "load_model",
    "plan_runs",
    "read",
    "run",
    "run_planned",
    "simulate",
    "simulate_planned",
    "what_is_left",
]

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from fedfloor.arguments import checked, given_path, path_or_none, refuse_other
from fedfloor.errors import MissingExtraError, RunLogError, counted, shown
from fedfloor.notebooks.bars import Bar, bar
from fedfloor.rounds.columns import Grain, columns_of
from fedfloor.rounds.events import Event, Tell, silent
from fedfloor.rounds.record import RoundRecord
from fedfloor.rounds.summary import result_of_test
from fedfloor.runs.options import RunArguments, RunOptions
from fedfloor.runs.planned import (
    PlannedRun,
    ScenarioSource,
    as_begun,
    load,
    planned_run,
    refuse_unnamed,
    with_folders,
)
from fedfloor.runs.simulate import Run, simulate_planned
from fedfloor.scenario import Scenario
from fedfloor.scheduling.objects import PolicySource

if TYPE_CHECKING:
    from fedfloor.runs.evaluate import Evaluation
    from fedfloor.runs.train import TrainedRun
    from fedfloor.training.network.exported import ScaledModel


@checked
def simulate(
    scenario: ScenarioSource,
    policy: PolicySource | None = None,
    rounds: int | None = None,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    own: bool = False,
    out: str | Path | None = None,
    progress: bool = False,
    on_round: Callable[[RoundRecord], None] = lambda _: None,
) -> Run:
    """Run rounds of scheduling on the simulated plant, without training.

    `scenario` is a TOML file, the name of a preset, a dict with the keys of a file, or what `load` returns. `policy` is
    `NAME[:key=value,...]` or an object such as `Ddsra(v=1)`; the scenario's own if left out. The name `ddsra` without
    `v` has the V of a scenario whose own policy is ddsra. With `out` the run folder is written there; `progress=True`
    shows a bar.

    Examples
    --------
    >>> import fedfloor
    >>> run = fedfloor.simulate("quick", policy="round_robin", rounds=4)
    >>> fedfloor.read(run)["round"]
    [0, 1, 2, 3]
    """
    planned = planned_run(scenario, policy, rounds, seed=seed, overrides=overrides, own=own)
    with bar(f"rounds of {planned.label}", planned.scenario.rounds, progress=progress) as shown_bar:
        shown_bar.show(0, planned.first_delay)

        def tell(record: RoundRecord) -> None:
            shown_bar.show(record.round + 1, f"clock {record.clock:.0f} s")
            on_round(record)

        return simulate_planned(_in_folder(planned, out), on_round=tell)


@checked
def run(
    scenario: ScenarioSource,
    policy: PolicySource | None = None,
    rounds: int | None = None,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    own: bool = False,
    out: str | Path | None = None,
    progress: bool = False,
    on_event: Tell = silent,
    **options: Unpack[RunArguments],
) -> "TrainedRun":
    """Run rounds of scheduling and split training. Needs the extra 'train'.

    The result has the trained network as `model`, a torch module. Arguments are those of `simulate`. With `out` the run
    folder is written there, and `resume=True` continues from its last checkpoint. The other options are those of
    `fedfloor.runs.options.RunOptions`: until_accuracy, until_loss, until_clock, workers, device, engine, ray_address,
    data_dir, and loggers, which show every round in `tensorboard` or `mlflow`.

    Examples
    --------
    >>> import fedfloor
    >>> done = fedfloor.run("quick", policy="random", rounds=2, workers=1)
    >>> len(done.records), int(done.confusion.sum())
    (2, 1000)
    """
    chosen = RunOptions(**options)  # type: ignore[arg-type]  # it checks and converts them
    if chosen.resume and out is None:
        raise RunLogError("resume: needs the run folder. Pass out=FOLDER")
    planned = planned_run(scenario, policy, rounds, seed=seed, overrides=overrides, own=own, training=True)
    if chosen.resume and out is not None:
        refuse_unnamed(planned)
        planned = as_begun(planned, Path(out))
    with bar(f"rounds of {planned.label}", planned.scenario.rounds, progress=progress) as shown_bar:
        shown_bar.show(0, planned.first_delay)
        return run_planned(_in_folder(planned, out), chosen, on_event=_telling(shown_bar, planned.scenario, on_event))


def _telling(shown_bar: Bar, scenario: Scenario, on_event: Tell) -> Tell:
    """What shows the events of a run on a bar, and passes them on."""
    done, result, predicts_numbers = 0, "", scenario.training.predicts_numbers

    def tell(event: Event) -> None:
        nonlocal done, result
        done = event.resumed if event.resumed is not None else done
        if event.record is not None:
            done = event.record.round + 1
            result = result_of_test(event.record, predicts_numbers=predicts_numbers) or result
        busy = f"reading {event.reading}" if event.reading else "estimating rates" if event.estimating else ""
        shown_bar.show(done, busy or result)
        on_event(event)

    return tell


@checked
def plan_runs(
    scenario: ScenarioSource,
    policies: Sequence[PolicySource] = (),
    rounds: int | None = None,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    own: bool = False,
    out: str | Path | None = None,
    training: bool = False,
    resume: bool = False,
) -> list[PlannedRun]:
    """Runs of several policies, with their folders, checked before the first one starts."""
    chosen: list[PolicySource | None] = [*policies] or [None]
    runs = [
        planned_run(scenario, name, rounds, seed=seed, overrides=overrides, own=own, training=training)
        for name in chosen
    ]
    return with_folders(runs, path_or_none(out), resume=resume)


@checked
def run_planned(planned: PlannedRun, options: RunOptions, *, on_event: Tell = silent) -> "TrainedRun":
    """Train a planned run."""
    refuse_other("planned", planned, PlannedRun, "`plan_runs` returns them")
    refuse_other("options", options, RunOptions, "Make them with RunOptions(...)")
    try:
        from fedfloor.runs.train import train_planned
    except ModuleNotFoundError as error:
        raise MissingExtraError("training", "train") from error
    return train_planned(planned, options, tell=on_event)


@checked
def what_is_left(folder: str | Path, rounds: int) -> str:
    """What remains of a run that was stopped after `rounds` rounds, and how it is resumed."""
    from fedfloor.rounds.listeners.checkpoint import checkpoint_round

    kept = checkpoint_round(Path(folder))
    if kept is not None:
        after = f"stopped after {counted(max(rounds, kept), 'round')}; the checkpoint in {folder} has {kept} of them"
        return f"{after}. Resume with the same command and --resume"
    if rounds:
        return (
            f"stopped after {counted(rounds, 'round')}, with no checkpoint in {folder} yet; --resume starts again there"
        )
    return "stopped before the first round ended; nothing is left of it"


def _in_folder(planned: PlannedRun, out: str | Path | None) -> PlannedRun:
    return planned if out is None else replace(planned, folder=Path(out))


def folder_of(name: str, run: object) -> Path:
    """The folder of a run or of a comparison, which an argument gives as such or as the result itself."""
    if isinstance(run, str | Path):
        return given_path(name, run)
    folder: Path | None = getattr(run, "folder", None)
    if folder is None:
        kind = "run folders, or runs that have one" if name == "runs" else "a run folder, or a run that has one"
        raise RunLogError(f"{name}: must be {kind}, got {shown(run)}. Run it with out, then name that folder")
    return folder


@checked
def evaluate(
    run: "TrainedRun | str | Path",
    *,
    export: str | Path | None = None,
    data_dir: str | Path | None = None,
    own: bool = False,
    on_step: Callable[[str], None] = lambda _: None,
) -> "Evaluation":
    """Accuracy, loss and confusion matrix of a run's last checkpoint; with `export` the model is written there.

    If the model or the data is your own, the run folder names the code that makes it, `package.module:callable`; say
    with `own=True` that you trust that code. `on_step` is told what is being done.
    """
    try:
        from fedfloor.runs.evaluate import evaluate_run
    except ModuleNotFoundError as error:
        raise MissingExtraError("evaluating", "train") from error
    return evaluate_run(
        folder_of("run", run), data_dir=path_or_none(data_dir), export=path_or_none(export), own=own, on_step=on_step
    )


@checked
def load_model(path: str | Path, *, own: bool = False) -> "ScaledModel":
    """The model of a run folder, or that `evaluate` exported to a file: a torch module that scales its inputs itself.

    Its inputs are samples `(n, *input)` as they are in the data, such as pixels from 0 to 255; its outputs are scores
    (n, classes). If the model is your own, the file names the code that builds it, `package.module:callable`; say
    with `own=True` that you trust that code.
    """
    try:
        from fedfloor.runs.evaluate import model_of_run
        from fedfloor.training.network.exported import load_exported
    except ModuleNotFoundError as error:
        raise MissingExtraError("loading a model", "train") from error
    place = Path(path)
    return model_of_run(place, own=own) if place.is_dir() else load_exported(place, own=own)


@checked
def read(run: "Run | TrainedRun | str | Path", per: Grain = "round") -> dict[str, list[Any]]:
    """The log of a run as columns of equal length, ready for a data frame.

    `per` says what a row is: a `round`, a `gateway` in a round, or a `device` in a round.

    Examples
    --------
    >>> import fedfloor
    >>> columns = fedfloor.read(fedfloor.simulate("quick", rounds=3), per="gateway")
    >>> len(columns["energy_j"])  # 3 rounds x 6 floors
    18
    """
    from fedfloor.runs.folder import read_records

    if isinstance(run, str | Path):
        return columns_of(read_records(given_path("run", run)), per)
    if not hasattr(run, "records"):
        raise RunLogError(f"run: must be a run or its folder, got {shown(run)}")
    return columns_of(run.records, per)
