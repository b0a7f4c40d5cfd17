"""The Python functions: same names, same defaults, same errors as the command line."""

__all__ = [
    "Prepared",
    "Run",
    "carry_out",
    "carry_out_training",
    "evaluate",
    "holding",
    "load",
    "load_model",
    "plan",
    "prepare",
    "read",
    "report",
    "resolve",
    "round_to_plan",
    "run",
    "run_folders",
    "shortage",
    "simulate",
]

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedfloor.errors import MissingExtraError, RunLogError, ScenarioError, SnapshotError
from fedfloor.rounds.loop import run_rounds
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.runs.folder import Grain, RunFolder, columns_of, read_records, round_record
from fedfloor.runs.loggers import logging_to
from fedfloor.runs.plan import RoundToPlan, answer, from_run, of_snapshot, policy_for
from fedfloor.runs.planned import Prepared, check_engine, load, prepare, resolve, run_folders
from fedfloor.scenario import Scenario, resolved_toml
from fedfloor.scheduling.registry import PolicySpec
from fedfloor.scheduling.snapshot import parse_snapshot, read_snapshot

if TYPE_CHECKING:
    from fedfloor.report.making import Report
    from fedfloor.runs.train import Event, TrainedRun
    from fedfloor.training.network.exported import ScaledModel


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A finished run: its rounds as they are logged, and the wall-clock figures beside them."""

    scenario: Scenario
    policy: PolicySpec  #: with every setting filled in
    records: tuple[dict[str, Any], ...]
    timings: tuple[dict[str, Any], ...]
    folder: Path | None  #: where the log is, if one was asked for

    def __repr__(self) -> str:
        return f"Run({self.scenario.name}, {self.policy}, {len(self.records)} rounds, folder={self.folder})"


def simulate(
    scenario: str | Path,
    policy: str | None = None,
    rounds: int | None = None,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    out: str | Path | None = None,
    on_round: Callable[[dict[str, Any]], None] = lambda _: None,
) -> Run:
    """Rounds of scheduling on the simulated network, without training.

    `policy` is `NAME[:key=value,...]`, the scenario's own if not given; with `out` the run folder is written there.

    Examples
    --------
    >>> import fedfloor
    >>> run = fedfloor.simulate("quick", policy="round_robin", rounds=4)
    >>> fedfloor.read(run)["round"]
    [0, 1, 2, 3]
    """
    prepared = prepare(scenario, policy, rounds, seed=seed, overrides=overrides)
    return carry_out(prepared, Path(out) if out is not None else None, on_round=on_round)


def run(
    scenario: str | Path,
    policy: str | None = None,
    rounds: int | None = None,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    out: str | Path | None = None,
    resume: bool = False,
    until_accuracy: float | None = None,
    until_clock: float | None = None,
    workers: int | None = None,
    device: str = "cpu",
    engine: str = "local",
    ray_address: str | None = None,
    data_dir: str | Path | None = None,
    loggers: Sequence[str] = (),
    on_event: Callable[["Event"], None] = lambda _: None,
) -> "TrainedRun":
    """Rounds of scheduling and real split training on the simulated network. Needs the extra 'train'.

    With `out` the run folder is written there, and `resume` goes on from its last checkpoint. `loggers` show every
    round in `tensorboard` or `mlflow`, each of which is an extra too.

    Examples
    --------
    >>> import fedfloor
    >>> done = fedfloor.run("quick", policy="random", rounds=2, workers=1)
    >>> len(done.records), int(done.confusion.sum())
    (2, 1000)
    """
    if resume and out is None:
        raise RunLogError("resume: needs the run folder. Name it with out")
    prepared = prepare(scenario, policy, rounds, seed=seed, overrides=overrides, training=True)
    return carry_out_training(
        prepared,
        Path(out) if out is not None else None,
        resume=resume,
        until_accuracy=until_accuracy,
        until_clock=until_clock,
        workers=workers,
        device=device,
        engine=engine,
        ray_address=ray_address,
        data_dir=Path(data_dir) if data_dir is not None else None,
        loggers=loggers,
        on_event=on_event,
    )


def carry_out_training(
    prepared: "Prepared",
    folder: Path | None,
    *,
    resume: bool = False,
    until_accuracy: float | None = None,
    until_clock: float | None = None,
    workers: int | None = None,
    device: str = "cpu",
    engine: str = "local",
    ray_address: str | None = None,
    data_dir: Path | None = None,
    loggers: Sequence[str] = (),
    on_event: Callable[["Event"], None] = lambda _: None,
) -> "TrainedRun":
    """Train what was prepared."""
    for name, value, most in (("until_accuracy", until_accuracy, 1.0), ("until_clock", until_clock, math.inf)):
        if value is not None and not 0.0 <= value <= most:
            raise ScenarioError(f"{name}: must be a number from 0 to {most:g}, got {value}")
    check_engine(engine, ray_address, workers)
    try:
        from fedfloor.runs.train import Until, train  # noqa: PLC0415  # torch is loaded only for this
    except ModuleNotFoundError as error:
        raise MissingExtraError("training", "train") from error
    with logging_to(loggers, folder, prepared.scenario, str(prepared.policy)) as write:

        def tell(event: "Event") -> None:
            on_event(event)
            if event.record is not None:
                write(event.record)

        return train(
            prepared.file,
            prepared.scenario,
            prepared.scheduler,
            str(prepared.policy),
            folder,
            resume=resume,
            until=Until(until_accuracy, until_clock),
            workers=workers,
            device=device,
            where=engine,
            ray_address=ray_address,
            data_folder=data_dir,
            on_event=tell,
        )


def evaluate(
    run: str | Path, *, export: str | Path | None = None, data_dir: str | Path | None = None
) -> dict[str, Any]:
    """Accuracy, loss and confusion matrix of a run's last checkpoint; with `export` the model is written there."""
    try:
        from fedfloor.runs.train import evaluate_run  # noqa: PLC0415  # torch is loaded only for this
    except ModuleNotFoundError as error:
        raise MissingExtraError("evaluating", "train") from error
    found = evaluate_run(
        Path(run), Path(data_dir) if data_dir is not None else None, Path(export) if export is not None else None
    )
    return {
        "run": str(run),
        "rounds": found.round,
        "data": found.origin,
        "same_data": found.same_data,
        "samples": int(found.confusion.sum()),
        "accuracy": float(found.confusion.trace() / found.confusion.sum()),
        "loss": found.loss,
        "confusion": found.confusion.tolist(),
        "exported": None if export is None else str(export),
    }


def load_model(path: str | Path, *, own: bool = False) -> "ScaledModel":
    """The model that `evaluate` exported to a file, as a torch module that scales its inputs itself.

    Its input are samples (n, *input) as they are in the data, as pixels from 0 to 255; its output scores (n, classes).
    An own model is made by code that the file names, `package.module:callable`: say with `own` that you trust it.
    """
    try:
        from fedfloor.training.network.exported import load_exported  # noqa: PLC0415  # torch is loaded only for this
    except ModuleNotFoundError as error:
        raise MissingExtraError("loading a model", "train") from error
    return load_exported(Path(path), own=own)


def holding(
    scenario: str | Path,
    overrides: Sequence[str] = (),
    *,
    seed: int | None = None,
    data_dir: str | Path | None = None,
) -> dict[str, Any]:
    """Who holds what: for every device its floor, the samples it asks for, and those it gets of every class."""
    from fedfloor.training.data.holding import gather  # noqa: PLC0415  # readers of data files wait until they are needed

    plant = load(scenario, overrides, seed=seed)
    return gather(plant, Path(data_dir) if data_dir is not None else None).table()


def shortage(scenario: Scenario, data_dir: str | Path | None = None) -> dict[str, Any]:
    """Devices that will hold fewer samples than they ask for; `devices` is None if the data was not looked at."""
    from fedfloor.training.data.holding import shortage_of  # noqa: PLC0415  # readers of data files wait until needed

    found = shortage_of(scenario, Path(data_dir) if data_dir is not None else None)
    held = dict(found.devices)
    short = [
        {"floor": floor.name, "name": device.name, "asked": device.samples, "held": held[device.name]}
        for floor in scenario.floors
        for device in floor.devices
        if device.name in held
    ]
    return {"origin": found.origin, "reason": found.reason, "devices": None if found.reason is not None else short}


def carry_out(
    prepared: Prepared, folder: Path | None, *, on_round: Callable[[dict[str, Any]], None] = lambda _: None
) -> Run:
    """Simulate what was prepared, logging to the folder as it goes."""
    plant = prepared.scenario
    driver = SimulatedPlant(plant, simulated_rates(plant))
    log = RunFolder.create(folder, resolved_toml(prepared.file)) if folder is not None else None
    records, timings = [], []
    try:
        for record in run_rounds(driver, prepared.scheduler, plant.rounds):
            entry = round_record(record, str(prepared.policy))
            untrained = dict.fromkeys(("estimate_s", "train_s", "evaluate_s"))
            timing = {"round": entry["round"], "solve_s": record.solve_time, **untrained}
            records.append(entry)
            timings.append(timing)
            if log is not None:
                log.append(entry, timing)
            on_round(entry)
    finally:
        if log is not None:
            log.close()
    return Run(plant, prepared.policy, tuple(records), tuple(timings), folder)


def plan(
    snapshot: str | Path | dict[str, Any],
    policy: str | None = None,
    *,
    solver: str | None = None,
    round: int | None = None,  # noqa: A002
) -> dict[str, Any]:
    """Decide one round: of a snapshot (a file or its data), or of a run folder with `round`.

    Returns the answer that `fedfloor plan --format json` prints.

    Examples
    --------
    >>> import fedfloor, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> run = fedfloor.simulate("quick", policy="ddsra:v=10", rounds=3, out=folder + "/run")
    >>> fedfloor.plan(folder + "/run", round=2)["optimality_gap"]
    0.0
    """
    wanted = round_to_plan(snapshot, round)
    return answer(wanted, *policy_for(wanted, policy, solver))


def round_to_plan(source: str | Path | dict[str, Any], index: int | None) -> RoundToPlan:
    """The round of a snapshot, or the logged round of a run folder."""
    if not isinstance(source, str | Path | dict):
        raise SnapshotError(f"snapshot: must be a path or its data, got a {type(source).__name__}")
    if isinstance(source, dict):
        return of_snapshot(parse_snapshot(source, "snapshot"))
    path = Path(source)
    try:
        there = path.exists()
    except OSError as error:
        raise SnapshotError(f"{path}: cannot be read: {error.strerror}. Give a snapshot or a run folder") from None
    if not there:
        kind = SnapshotError if index is None else RunLogError
        raise kind(f"{path}: does not exist. Name a snapshot file or a run folder")
    if path.is_dir():
        if index is None:
            raise RunLogError(f"{path}: is a run folder, so --round is needed. For example --round 0")
        return from_run(path, index)
    if index is not None:
        raise SnapshotError(f"{path}: --round goes with a run folder, this is a file. Leave it out")
    return of_snapshot(read_snapshot(path))


def read(run: "Run | TrainedRun | str | Path", per: Grain = "round") -> dict[str, list[Any]]:
    """A run's log as columns of equal length, ready for a data frame.

    `per` is the grain of a row: `round`, `gateway` or `device`.

    Examples
    --------
    >>> import fedfloor
    >>> columns = fedfloor.read(fedfloor.simulate("quick", rounds=3), per="gateway")
    >>> len(columns["energy_j"])  # 3 rounds x 6 floors
    18
    """
    return columns_of(read_records(Path(run)) if isinstance(run, str | Path) else run.records, per)


def report(
    runs: Run | str | Path | Sequence[Run | str | Path],
    *,
    out: str | Path | None = None,
    csv: str | Path | None = None,
    pdf: bool = False,
) -> "Report":
    """One page, figures and tables of runs that have a folder, finished or still going. Needs the extra 'report'.

    They go into the one folder that is named, or into `report` of the current folder, or where `out` says; with `csv`
    all rounds of all runs are written there. What is not right about a run is in `collection.problems` of the answer.

    Examples
    --------
    >>> import fedfloor, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> run = fedfloor.simulate("quick", policy="round_robin", rounds=4, out=folder + "/run")
    >>> done = fedfloor.report(run, csv=folder + "/rounds.csv")
    >>> done.page.name, done.tables[0].rows[0][:3]
    ('report.html', ('round_robin', '7', '4'))
    """
    from fedfloor.report.making import make_report  # noqa: PLC0415  # it takes longer to load than most runs to read

    several = runs if isinstance(runs, Sequence) and not isinstance(runs, str) else [runs]
    return make_report([_folder_of(run) for run in several], out=out, csv=csv, pdf=pdf)


def _folder_of(run: Run | str | Path) -> Path:
    folder = getattr(run, "folder", run)
    if not isinstance(folder, str | Path):
        what = "a run without a folder" if hasattr(run, "folder") else f"a {type(run).__name__}"
        raise RunLogError(f"report: must be given run folders, got {what}. Run it with out, then name that folder")
    return Path(folder)
