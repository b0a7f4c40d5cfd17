"""`fedfloor run`: rounds of scheduling and training with a log, checkpoints and an end."""

__all__ = ["Evaluation", "Event", "TrainedRun", "Until", "evaluate_run", "train"]

import zlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Ints
from fedfloor.runs.bounds import Bound, bounds_of
from fedfloor.runs.checkpoint import load_checkpoint, restore, save_checkpoint, scaled_as
from fedfloor.workers.crew import cores
from fedfloor.errors import DataError, ModelError, RunLogError
from fedfloor.runs.export import export_model, facts_of, refuse_export
from fedfloor.rounds.plants.learning import LearningPlant
from fedfloor.rounds.loop import RoundRecord, run_rounds
from fedfloor.runs.folder import (
    BOUNDS,
    HOLDING,
    SCENARIO,
    RunFolder,
    read_records,
    refuse_changes,
    refuse_collection,
    refuse_fewer,
    round_record,
    scenario_of,
    write_json,
)
from fedfloor.scenario import ScenarioFile, resolved_toml
from fedfloor.scenario.resolved import Scenario
from fedfloor.scheduling.policies.ddsra import Ddsra
from fedfloor.scheduling.solver.solve import fastest_delay
from fedfloor.scheduling.state import Scheduler
from fedfloor.rounds.summary import summarise
from fedfloor.training.network.description import describe
from fedfloor.workers.engine import Engine, engine_for
from fedfloor.training.data.holding import Holding, gather
from fedfloor.training.data.samples import Samples
from fedfloor.training.trial import try_model
from fedfloor.training.work import Job, has_device, network_of, undisturbed


_FEW_PAIRS = 1_000  #: floors x channels whose least delays are looked up again for Theorem 2


@dataclass(frozen=True, slots=True)
class Until:
    """When a run ends before its last round."""

    accuracy: float | None = None  #: reached in an evaluation
    clock: float | None = None  #: [s] simulated time has passed


@dataclass(frozen=True, slots=True)
class Event:
    """What a run tells while it goes: floors that begin to train, a round that has ended, rates being estimated.

    Before that it tells which data is read, and of a run that goes on after how many rounds it does.
    """

    training: tuple[str, ...] = ()
    record: Mapping[str, Any] | None = None
    estimating: bool = False
    reading: str | None = None  #: name of the data; any other event says that it has been read
    resumed: int | None = None  #: rounds before this process; 0 if there was no checkpoint


@dataclass(frozen=True, slots=True, eq=False)
class TrainedRun:
    """What came of a training run."""

    records: tuple[dict[str, Any], ...]
    timings: tuple[dict[str, Any], ...]
    confusion: Ints  #: (C, C) true, predicted, at the end
    loss: float  #: on the test set, at the end
    holding: Holding
    resumed: int  #: round at which this process began
    bounds: tuple[Bound, ...]  #: the theorems beside what was measured
    folder: Path | None  #: where the log is, if one was asked for

    def __repr__(self) -> str:
        name, policy = self.holding.scenario.name, self.records[-1]["policy"]
        figures = f"{len(self.records)} rounds, accuracy {self.accuracy:.4f}"
        return f"TrainedRun({name}, {policy}, {figures}, folder={self.folder})"

    @property
    def accuracy(self) -> float:
        """Share of test samples that the final model names rightly."""
        return float(np.trace(self.confusion) / self.confusion.sum())

    @property
    def best(self) -> tuple[float, int]:
        """The greatest accuracy that was tested, and after how many rounds it was first reached."""
        tested = [(entry["accuracy"], entry["round"] + 1) for entry in self.records if entry["accuracy"] is not None]
        return max([*tested, (self.accuracy, len(self.records))], key=lambda found: (found[0], -found[1]))


@undisturbed()
def train(
    file: ScenarioFile,
    scenario: Scenario,
    scheduler: Scheduler,
    policy: str,
    folder: Path | None,
    *,
    resume: bool = False,
    until: Until = Until(),  # noqa: B008  # frozen
    workers: int | None = None,
    device: str = "cpu",
    where: str = "local",
    ray_address: str | None = None,
    data_folder: Path | None = None,
    on_event: Callable[[Event], None] = lambda _: None,
) -> TrainedRun:
    """Run a scenario with training, into a folder if one is named; `resume` goes on from its last checkpoint."""
    on_event(Event(reading=scenario.data.name))
    holding = gather(scenario, data_folder)
    on_event(Event())
    scenario = holding.scenario
    scenario_toml = resolved_toml(_with_held(file, scenario))
    checkpoint = None
    if resume and folder is not None and (folder / SCENARIO).exists():
        refuse_changes(folder, scenario_toml)
        checkpoint = load_checkpoint(folder)
        refuse_fewer(folder, None if checkpoint is None else checkpoint.round, scenario.rounds)
    fingerprint = _fingerprint(holding.samples)
    if checkpoint is not None and checkpoint.data != fingerprint:
        raise DataError(f"{folder}: was trained on other data than {holding.origin} gives now. Restore it, or run anew")
    job, samples = _job(scenario, device), scaled_as(holding.samples, checkpoint)
    wanted = scenario.participation
    try_model(job, samples, estimates=wanted.rates == "estimated", observes=wanted.observe_every > 0)
    begun = 0 if checkpoint is None else checkpoint.round
    if resume:
        on_event(Event(resumed=begun))
    with _engine(job, samples, workers, where, ray_address) as engine:
        plant = LearningPlant(scenario, engine)
        plant.on_training = lambda names: on_event(Event(training=tuple(names)))
        plant.on_estimating = lambda: on_event(Event(estimating=True))
        clock = 0.0
        if checkpoint is not None:
            restore(plant, checkpoint)
            clock = checkpoint.clock
        log = None
        if folder is not None and resume:
            log = RunFolder.reopen(folder, scenario_toml, begun)
        elif folder is not None:
            log = RunFolder.create(folder, scenario_toml, checkpoints=True)
        seen = _Seen(read_records(folder) if folder is not None and resume else [])
        try:
            if log is not None:
                write_json(log.path / HOLDING, holding.table())
            _advance(plant, scheduler, policy, log, seen, clock=clock, until=until, data=fingerprint, on_event=on_event)
            confusion, loss = plant.evaluate()
            v = float(scheduler.v) if isinstance(scheduler, Ddsra) and scheduler.solver == "exact" else None
            summary = summarise(seen.records)
            bounds = bounds_of(plant, seen.records, summary, tradeoff=v, least_delays=seen.fastest)
            if log is not None:
                write_json(log.path / BOUNDS, [asdict(bound) for bound in bounds])
        finally:
            if log is not None:
                log.close()
    return TrainedRun(tuple(seen.records), tuple(seen.timings), confusion, loss, holding, begun, bounds, folder)


@dataclass(slots=True)
class _Seen:
    """What a run has seen so far."""

    records: list[dict[str, Any]]
    timings: list[dict[str, Any]] = field(default_factory=list)
    fastest: list[float] = field(default_factory=list)  #: [s] least delay of every round that this process ran


def _advance(
    plant: LearningPlant,
    scheduler: Scheduler,
    policy: str,
    log: RunFolder | None,
    seen: _Seen,
    *,
    clock: float,
    until: Until,
    data: str,
    on_event: Callable[[Event], None],
) -> None:
    """Run the rounds that are left, with their log and checkpoints."""
    scenario = plant.scenario
    over = bool(seen.records) and _is_over(seen.records[-1], until)
    left = 0 if over else max(0, scenario.rounds - plant.index)
    for record in run_rounds(plant, scheduler, left, clock=clock):
        entry = round_record(record, policy)
        seen.records.append(entry)
        seen.timings.append(_timing(record, plant))
        few = isinstance(scheduler, Ddsra) and record.state.gain_up.size <= _FEW_PAIRS
        seen.fastest.append(fastest_delay(record.state) if few else 0.0)  # 0 bounds it too
        over = _is_over(entry, until)
        if log is not None:
            log.append(entry, seen.timings[-1])
            if over or plant.index % scenario.training.checkpoint_every == 0 or plant.index == scenario.rounds:
                log.sync()
                save_checkpoint(log.path, plant, clock=record.clock, data=data)
        on_event(Event(record=entry))
        if over:
            return


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """A run's last checkpoint on its test set."""

    confusion: Ints  #: (C, C) true, predicted
    loss: float  #: mean
    round: int  #: of the checkpoint
    weights: Path  #: file
    origin: str  #: of the data
    same_data: bool  #: as the run was trained on


@undisturbed()
def evaluate_run(run: Path, data_folder: Path | None = None, export: Path | None = None) -> Evaluation:
    """Test the model of a run's last checkpoint, with inputs scaled as in training, and write it to a file if asked."""
    if export is not None:
        refuse_export(export, run)
    refuse_collection(run)
    checkpoint = load_checkpoint(run)
    if checkpoint is None:
        raise RunLogError(f"{run}: has no checkpoint, so there is no model. Name the folder of a training run")
    holding = gather(scenario_of(run), data_folder)
    samples = scaled_as(holding.samples, checkpoint)
    with engine_for(_job(holding.scenario, "cpu"), samples, 1) as engine:
        plant = LearningPlant(holding.scenario, engine)
        restore(plant, checkpoint)
        confusion, loss = plant.evaluate()
    if export is not None:
        export_model(export, checkpoint.weights, facts_of(holding.scenario.model, samples.mean, samples.deviation))
    same = checkpoint.data == _fingerprint(holding.samples)
    return Evaluation(confusion, loss, checkpoint.round, checkpoint.path, holding.origin, same)


def _with_held(file: ScenarioFile, scenario: Scenario) -> ScenarioFile:
    """The resolved file with what devices hold where it is less than they ask for, so that rounds can be replayed."""
    floors = tuple(
        group.model_copy(
            update={
                "devices": tuple(
                    entry.model_copy(update={"held": device.held})
                    for entry, device in zip(group.devices, floor.devices, strict=True)
                )
            }
        )
        for group, floor in zip(file.floors, scenario.floors, strict=True)
    )
    return file.model_copy(update={"floors": floors})


def _job(scenario: Scenario, device: str) -> Job:
    """What training needs to know of a scenario, after a look at whether its network fits its layer list."""
    training = scenario.training
    if not has_device(device):
        raise ModelError(f"--device {device}: torch finds none on this machine. Leave it out to train on the CPU")
    found = describe(network_of(scenario.model, scenario.seed), scenario.model.input, label=scenario.model.name)
    if len(found) != len(scenario.layers):
        problem = f"has {len(found)} layers, but model.layers lists {len(scenario.layers)}"
        raise ModelError(f"{scenario.model.name}: {problem}. `fedfloor profile` prints the list that fits")
    same_width = scenario.costs.width in (None, scenario.model.width)
    for one, other in zip(found, scenario.layers, strict=True):
        shapes = same_width and (one.input_size, one.output) != (other.input_size, other.output)
        if one.kind != other.kind or shapes:
            problem = (
                f"its {one.kind} {list(one.input)} -> {list(one.output)} is listed as '{other.name}', {other.kind} "
            )
            problem += f"{list(other.input)} -> {list(other.output)}, in model.layers"
            raise ModelError(f"{scenario.model.name}: {problem}. `fedfloor profile` prints the list that fits")
    if found[-1].output != (scenario.model.classes,):
        problem = f"gives {list(found[-1].output)} but model.classes is {scenario.model.classes}"
        raise ModelError(f"{scenario.model.name}: {problem}. Make the two equal")
    batch = np.array([entry.batch(training.batch_fraction) for entry in scenario.devices])
    if any("batch_norm" in layer.attached for layer in found) and int(batch.min()) == 1:
        name = scenario.devices[int(batch.argmin())].name
        advice = "Raise training.batch_fraction or the device's samples, or leave batch norm out"
        raise ModelError(f"{scenario.model.name}: batch norm needs two samples, the batch of {name} has one. {advice}")
    return Job(
        model=scenario.model,
        seed=scenario.seed,
        learning_rate=training.learning_rate,
        iterations=training.local_iterations,
        batch=batch,
        redraw=training.redraw_batch,
        apart=training.halves == "apart",
        device=device,
    )


def _engine(
    job: Job, samples: Samples, workers: int | None, where: str, ray_address: str | None
) -> AbstractContextManager[Engine]:
    """Where the work is done: `local` or `ray`."""
    if where == "local":
        return engine_for(job, samples, workers or cores())
    if job.device != "cpu":
        raise ModelError(f"--engine ray trains on the CPU, got --device {job.device}. Leave one of them out")
    from fedfloor.workers.cluster import actors_for  # noqa: PLC0415  # ray is loaded only for this

    return actors_for(job, samples, workers, ray_address)


def _timing(record: RoundRecord, plant: LearningPlant) -> dict[str, Any]:
    """Wall-clock figures of a round, as they are logged."""
    return {
        "round": record.state.index,
        "solve_s": record.solve_time,
        "estimate_s": plant.timing.estimate,
        "train_s": plant.timing.train,
        "evaluate_s": plant.timing.evaluate,
    }


def _is_over(entry: Mapping[str, Any], until: Until) -> bool:
    reached = until.accuracy is not None and entry["accuracy"] is not None and entry["accuracy"] >= until.accuracy
    clock = entry["clock_s"]
    return reached or (until.clock is not None and (clock is None or clock >= until.clock))


def _fingerprint(samples: Samples) -> str:
    """A few letters that differ when the data does."""
    total = 0
    for array in (samples.images, samples.labels, samples.first, samples.test_images, samples.test_labels):
        total = zlib.crc32(np.ascontiguousarray(array).data, total)
    return f"{samples.labels.size}-{total:08x}"
