"""`fedfloor run`: rounds of scheduling and split training."""

__all__ = ["ServedModel", "TrainedRun", "fingerprint", "job_of", "scaled_as", "train_planned"]

import zlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Floats, Ints
from fedfloor.errors import ModelError, counted
from fedfloor.rounds.events import Event, Tell, silent
from fedfloor.rounds.listeners.checkpoint import Checkpoint
from fedfloor.rounds.listeners.loggers import open_loggers
from fedfloor.rounds.listeners.stop import Until
from fedfloor.rounds.loop import Listener
from fedfloor.rounds.plants.global_model import inputs_of
from fedfloor.rounds.plants.learning import LearningPlant
from fedfloor.rounds.record import RoundRecord, TimingRecord
from fedfloor.rounds.summary import RunSummary, accuracy_of, root_mean_square, summarise
from fedfloor.runs.bounds import run_bounds
from fedfloor.runs.copies import copies_of, folder_toml
from fedfloor.runs.driving import Driven, claimed_folder, drive, earlier_rounds
from fedfloor.runs.folder import BOUNDS, HOLDING, RunFolder, write_json
from fedfloor.runs.options import RunOptions, refuse_until
from fedfloor.runs.planned import PlannedRun
from fedfloor.runs.shown import Shown, run_card
from fedfloor.scenario import ScenarioFile
from fedfloor.scenario.resolved import Scenario
from fedfloor.scheduling.registry import shown_name
from fedfloor.scheduling.traits import needs_sample_losses
from fedfloor.theory.bounds import Bound
from fedfloor.training.data.holding import Holding, gather
from fedfloor.training.data.samples import Samples
from fedfloor.training.network.built import network_of
from fedfloor.training.network.description import describe, has_batch_norm
from fedfloor.training.network.exported import ScaledModel, scaled_model
from fedfloor.training.schedule import RateSchedule
from fedfloor.training.trial import try_model
from fedfloor.training.work import Job, has_device, undisturbed
from fedfloor.workers.engine import Engine, engine_for
from fedfloor.workers.processes import cores


@dataclass(frozen=True, slots=True, eq=False)
class ServedModel:
    """The weights that a run ends with, averaged if its scenario asks for it, and how inputs are scaled."""

    weights: Mapping[str, npt.NDArray[np.generic]]
    mean: Floats  #: (C,) per channel
    deviation: Floats  #: (C,) per channel


@dataclass(frozen=True, eq=False)  # without slots, which leave no room for the model
class TrainedRun(Shown):
    """The result of a training run."""

    scenario: Scenario  #: with what every device holds
    records: tuple[RoundRecord, ...]
    timings: tuple[TimingRecord, ...]  #: of the rounds that this process ran
    confusion: Ints | None  #: (C, C) true, predicted, at the end; None if numbers are predicted
    loss: float  #: on the test set, at the end
    holding: Holding
    resumed: int  #: rounds that were done before this process
    bounds: tuple[Bound, ...]  #: the theorems beside what was measured
    folder: Path | None  #: where the log is, if one was asked for
    served: ServedModel  #: what `model` is built from

    @cached_property
    def model(self) -> ScaledModel:
        """The trained network as a torch module in evaluation mode, on the CPU; it is built when it is first asked for.

        Its inputs are samples (n, *input) as they are in the data, such as pixels from 0 to 255, which it scales
        itself; its outputs are scores (n, classes). Weights are averaged if the scenario asks for it, as in `evaluate`.
        """
        served = self.served
        return scaled_model(self.scenario.model, served.weights, served.mean, served.deviation)

    def _repr_html_(self) -> str:
        rounds = counted(len(self.records), "round")
        title = f"{self.scenario.name}, {shown_name(self.records[-1].policy)}: {rounds}"
        result = ("error", f"{self.error:.4g}") if self.accuracy is None else ("test accuracy", f"{self.accuracy:.1%}")
        predicts_numbers = self.scenario.training.predicts_numbers
        return run_card(title, self.summary, self.records, [result], predicts_numbers=predicts_numbers)

    def __repr__(self) -> str:
        result = f"error {self.error:.4g}" if self.accuracy is None else f"accuracy {self.accuracy:.4f}"
        rounds = f"{counted(len(self.records), 'round')}, {result}"
        policy = shown_name(self.records[-1].policy)
        return f"TrainedRun({self.scenario.name}, {policy}, {rounds}, folder={self.folder})"

    @property
    def best_error(self) -> tuple[float, int] | None:
        """The least root mean square error of all evaluations, and after how many rounds; None of classes."""
        if self.confusion is not None:
            return None
        tested = [(record.loss, record.round + 1) for record in self.records if record.loss is not None]
        loss, rounds = min([*tested, (self.loss, len(self.records))])
        return root_mean_square(loss), rounds

    @property
    def summary(self) -> RunSummary:
        """The run in a few numbers."""
        return summarise(self.records)

    @property
    def solve_times(self) -> list[float]:
        """Wall-clock time [s] of every decision of this process."""
        return [timing.solve_s for timing in self.timings]

    @property
    def accuracy(self) -> float | None:
        """Test accuracy of the final model; None if numbers are predicted."""
        return accuracy_of(self.confusion)

    @property
    def error(self) -> float | None:
        """Root mean square error of the final model on the test set; None if classes are predicted."""
        return root_mean_square(self.loss) if self.confusion is None else None

    @property
    def best(self) -> tuple[float, int] | None:
        """The highest test accuracy of all evaluations, and the number of rounds after which it was first reached.

        None if numbers are predicted.
        """
        if self.accuracy is None:
            return None
        tested = [(record.accuracy, record.round + 1) for record in self.records if record.accuracy is not None]
        return max([*tested, (self.accuracy, len(self.records))], key=lambda pair: (pair[0], -pair[1]))


@undisturbed()
def train_planned(planned: PlannedRun, options: RunOptions, *, tell: Tell = silent) -> TrainedRun:
    """Train a planned run, into its folder if it has one; with `resume` it continues from the last checkpoint."""
    with (
        claimed_folder(planned, checkpoints=True, resume=options.resume) as folder,
        open_loggers(options.loggers, planned.folder, planned.scenario, str(planned.policy)) as loggers,
    ):
        refuse_until(planned.scenario, options.until_accuracy)
        name = planned.scenario.data.name
        tell(Event(reading=name))
        holding = gather(planned.scenario, options.data_dir, on_step=lambda step: tell(Event(reading=name, step=step)))
        tell(Event())
        return _train_on(holding, replace(planned, scenario=holding.scenario), folder, options, loggers, tell)


def _train_on(
    holding: Holding,
    planned: PlannedRun,
    folder: RunFolder | None,
    options: RunOptions,
    loggers: Listener,
    tell: Tell,
) -> TrainedRun:
    """Train on data that has been read; the planned scenario says how much of it every device holds."""
    scenario, participation = planned.scenario, planned.scenario.participation
    scenario_toml, data = folder_toml(_with_held(planned.file, scenario), scenario), fingerprint(holding.samples)
    earlier = earlier_rounds(planned, scenario_toml, data=data) if options.resume else None
    checkpoint, done = (None, 0) if earlier is None else (earlier.checkpoint, earlier.checkpoint.round)
    job = job_of(scenario, options.device, sample_losses=needs_sample_losses(planned.scheduler))
    samples = scaled_as(holding.samples, checkpoint)
    try_model(job, samples, estimates=participation.rates == "estimated", observes=participation.observe_every > 0)
    with _engine(job, samples, options) as engine:
        until = Until.of(options)
        plant = LearningPlant(scenario, engine, tell, tests_all=until.is_set)
        if checkpoint is not None:
            checkpoint.restore(plant)  # before the folder is changed: a checkpoint that does not fit leaves it alone
        if options.resume:
            tell(Event(resumed=done))
        if folder is not None:
            folder.begin(scenario_toml, done, copies=copies_of(scenario))
            write_json(folder.path / HOLDING, holding.table())
        rounds = drive(
            plant,
            planned,
            folder,
            earlier=earlier,
            data=data,
            until=until,
            listeners=[loggers],
            tell=tell,
        )
        driven = Driven.of(rounds, earlier)
        confusion, loss = plant.evaluate()
        served = ServedModel(engine.work.layout.named(plant.served), samples.mean, samples.deviation)
        bounds = run_bounds(scenario, planned.scheduler, driven.records, plant.convergence())
        if folder is not None:
            write_json(folder.path / BOUNDS, [asdict(bound) for bound in bounds])
    return TrainedRun(
        scenario=scenario.resolved_from(scenario.origin),
        records=driven.records,
        timings=driven.timings,
        confusion=confusion,
        loss=loss,
        holding=holding,
        resumed=done,
        bounds=bounds,
        folder=planned.folder,
        served=served,
    )


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


def job_of(scenario: Scenario, device: str, *, sample_losses: bool = False) -> Job:
    """What training needs to know of a scenario; a network that does not fit its layer list is refused.

    `sample_losses` asks for the mean square of the losses of single samples.
    """
    training = scenario.training
    if not has_device(device):
        raise ModelError(
            f"device {device}: torch finds no such device on this machine. Leave it out to train on the CPU"
        )
    network = network_of(scenario.model, scenario.seed)
    layers = describe(network, scenario.model.input, label=scenario.model.name)
    if len(layers) != len(scenario.layers):
        problem = f"has {len(layers)} layers, but model.layers lists {len(scenario.layers)}"
        raise ModelError(f"{scenario.model.name}: {problem}. `fedfloor profile` prints the list that fits")
    same_width = scenario.costs.width in (None, scenario.model.width)
    for one, other in zip(layers, scenario.layers, strict=True):
        shapes = same_width and (one.input_size, one.output) != (other.input_size, other.output)
        if one.kind != other.kind or shapes:
            listed = f"{other.kind} {list(other.input)} -> {list(other.output)}"
            problem = f"its {one.kind} {list(one.input)} -> {list(one.output)} is listed as '{other.name}', {listed}"
            advice = "`fedfloor profile` prints the list that fits"
            raise ModelError(f"{scenario.model.name}: {problem}, in model.layers. {advice}")
    if layers[-1].output != (scenario.model.classes,):
        problem = f"gives {list(layers[-1].output)} but model.classes is {scenario.model.classes}"
        raise ModelError(f"{scenario.model.name}: {problem}. Make the two equal")
    batch = np.array([entry.batch(training.batch_fraction) for entry in scenario.devices])
    if has_batch_norm(network) and int(batch.min()) == 1:
        name = scenario.devices[int(batch.argmin())].name
        advice = "Raise training.batch_fraction or the device's samples, or leave batch norm out"
        raise ModelError(f"{scenario.model.name}: batch norm needs two samples, the batch of {name} has one. {advice}")
    return Job(
        model=scenario.model,
        seed=scenario.seed,
        schedule=RateSchedule.of(training),
        iterations=training.local_iterations,
        batch=batch,
        redraw=training.redraw_batch,
        apart=training.halves == "apart",
        boundary=scenario.precision.boundary,
        device=device,
        sample_losses=sample_losses,
        momentum=training.momentum,
    )


def scaled_as(samples: Samples, checkpoint: Checkpoint | None) -> Samples:
    """The samples, scaled as those that the checkpoint was trained on; older checkpoints do not say how."""
    if checkpoint is None:
        return samples
    try:
        inputs = inputs_of(checkpoint.state, samples.mean.size)
    except ValueError as error:
        raise checkpoint.misfit(error) from None
    return samples if inputs is None else replace(samples, mean=inputs.mean, deviation=inputs.deviation)


def fingerprint(samples: Samples) -> str:
    """A few letters that differ when the data does."""
    total = 0
    for array in (samples.images, samples.labels, samples.first, samples.test_images, samples.test_labels):
        total = zlib.crc32(np.ascontiguousarray(array).data, total)
    return f"{samples.labels.size}-{total:08x}"


def _engine(job: Job, samples: Samples, options: RunOptions) -> AbstractContextManager[Engine]:
    """Where the work is done."""
    if options.engine == "local":
        return engine_for(job, samples, options.workers or cores())
    if job.device != "cpu":
        raise ModelError(f"engine ray: trains on the CPU, got the device {job.device}. Leave one of them out")
    from fedfloor.workers.cluster import actors_for  # noqa: PLC0415  # ray is loaded only for this

    return actors_for(job, samples, options.workers, options.ray_address)
