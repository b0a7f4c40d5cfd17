"""The base station's part of a run on real machines: `fedfloor server`, or whatever else leads to the floors."""

__all__ = ["DeployedRun", "Floors", "Rounds", "Serving", "serve_over", "serve_planned"]

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Ints, Labels
from fedfloor.deploy.identity import Credentials
from fedfloor.deploy.joining import JoiningProfile
from fedfloor.deploy.machines import MachineFiles
from fedfloor.deploy.radio import Radio
from fedfloor.deploy.station import Station, StationOptions
from fedfloor.deploy.tasks import FloorTask, floor_tasks
from fedfloor.errors import DeploymentError, shown
from fedfloor.rounds.events import Event, Tell, silent
from fedfloor.rounds.listeners.stop import Until
from fedfloor.rounds.loop import FinishedRound
from fedfloor.rounds.plants.backhaul import Backhaul
from fedfloor.rounds.plants.deployed import DeployedPlant
from fedfloor.rounds.record import RoundRecord, TimingRecord
from fedfloor.rounds.summary import accuracy_of, root_mean_square
from fedfloor.runs.about import About
from fedfloor.runs.copies import copies_of, folder_toml
from fedfloor.runs.deployable import refuse_undeployable
from fedfloor.runs.driving import Driven, Earlier, claimed_folder, drive, earlier_rounds
from fedfloor.runs.folder import RunFolder
from fedfloor.runs.measured import with_kept_costs, with_measured_costs
from fedfloor.runs.options import refuse_until
from fedfloor.runs.planned import PlannedRun, with_every_checkpoint
from fedfloor.runs.train import job_of, scaled_as
from fedfloor.scenario.resolved import Scenario
from fedfloor.scheduling.traits import needs_sample_losses
from fedfloor.training.data.holding import held_out
from fedfloor.training.data.samples import Samples
from fedfloor.training.network.built import Inputs
from fedfloor.workers.engine import engine_for
from fedfloor.workers.processes import cores

_LOG = logging.getLogger(__name__)


class Floors(Backhaul, Protocol):
    """The way to the floors from their first word on; a run needs nothing else of a network."""

    def agree(self) -> Inputs:
        """Wait for the floors; the scale of the inputs that follows from what their devices hold."""

    def announce(self, inputs: Inputs) -> None:
        """Tell all floors the scale of the inputs, which is that of all rounds to come."""

    def machines(self) -> tuple[Sequence[JoiningProfile], Sequence[JoiningProfile]]:
        """What gateways and devices have said about themselves so far."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rounds:
    """What the owner of the base station decides about rounds, whatever leads to the floors."""

    resume: bool = False
    until: Until = field(default_factory=Until)
    about: About = field(default_factory=About)  #: what sets the run apart from others on real machines
    data_dir: Path | None = None  #: with the test set
    workers: int | None = None  #: processes that evaluate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Serving(Rounds):
    """The same, and what gateways need to join a base station."""

    listen: str  #: HOST:PORT
    credentials: Credentials | None  #: None: without TLS, on this machine only
    wait: float = 120.0  #: [s] for floors and devices, before the first round
    radio: Radio | None = None  #: that is set before orders are sent
    on_listening: Callable[[int], None] = lambda _: None  #: told the port for gateways


@dataclass(frozen=True, slots=True, eq=False)
class DeployedRun:
    """The result of a run on real machines."""

    scenario: Scenario
    records: tuple[RoundRecord, ...]
    timings: tuple[TimingRecord, ...]  #: of the rounds that this process ran
    confusion: Ints | None  #: (C, C) true, predicted, at the end; None without a test set or classes
    loss: float | None
    resumed: int  #: rounds that were done before this process
    folder: Path | None

    @property
    def accuracy(self) -> float | None:
        """Test accuracy of the final model; None without a test set, and if numbers are predicted."""
        return accuracy_of(self.confusion)

    @property
    def error(self) -> float | None:
        """Root mean square error of the final model; None without a test set, and if classes are predicted."""
        return None if self.loss is None or self.confusion is not None else root_mean_square(self.loss)


def serve_planned(planned: PlannedRun, options: Serving, *, tell: Tell = silent) -> DeployedRun:
    """Run the rounds of a planned run on real machines that join over gRPC, with a checkpoint after every round."""
    planned = _with_checkpoints(planned, options)
    with claimed_folder(planned, checkpoints=True, resume=options.resume) as folder:
        kept = with_kept_costs(planned) if planned.scenario.deploy.measure and options.resume else None
        planned, measures = kept or planned, bool(planned.scenario.deploy.measure) and kept is None
        start = _start_of(planned, options)
        with Station(
            floor_tasks(planned.scenario, measure=measures),
            StationOptions(options.listen, options.credentials, options.wait, options.radio),
        ) as station:
            options.on_listening(station.port)
            tell(Event(waiting=tuple(floor.name for floor in planned.scenario.floors)))
            if measures:
                planned = with_measured_costs(planned, station.measured())
                station.assign(floor_tasks(planned.scenario))
            if planned.scenario.deploy.measure:
                _tell_sources(planned.scenario)
            return _run_over(station, planned, folder, start, options, tell)


def serve_over(
    floors: Callable[[Sequence[FloorTask]], Floors], planned: PlannedRun, options: Rounds, *, tell: Tell = silent
) -> DeployedRun:
    """Run the rounds of a planned run on floors that something else leads to, which is made from their tasks."""
    planned = _with_checkpoints(planned, options)
    if planned.scenario.deploy.measure:
        problem = "deploy.measure: must be false where gateways do not join a base station of ours, got true"
        raise DeploymentError(f"{planned.scenario.name}: {problem}. Give the machines hardware profiles")
    with claimed_folder(planned, checkpoints=True, resume=options.resume) as folder:
        start = _start_of(planned, options)
        tell(Event(waiting=tuple(floor.name for floor in planned.scenario.floors)))
        return _run_over(floors(floor_tasks(planned.scenario)), planned, folder, start, options, tell)


@dataclass(frozen=True, slots=True, eq=False)
class _Start:
    """What a run begins with."""

    samples: Samples  #: the test set
    earlier: Earlier | None  #: None: with the first round


def _with_checkpoints(planned: PlannedRun, options: Rounds) -> PlannedRun:
    """The run with a checkpoint after every round; one that real machines cannot or must not do is refused."""
    refuse_undeployable(planned.scenario, planned.scenario.name)
    refuse_until(planned.scenario, options.until.accuracy)
    if needs_sample_losses(planned.scheduler):
        problem = "needs the losses of single samples, which do not leave the machines"
        raise DeploymentError(f"policy {shown(str(planned.policy))}: {problem}. Choose another policy")
    return with_every_checkpoint(planned)


def _start_of(planned: PlannedRun, options: Rounds) -> _Start:
    """What can be read before anybody joins."""
    earlier = earlier_rounds(planned, _text(planned)) if options.resume else None
    return _Start(_test_samples(planned.scenario, options.data_dir), earlier)


def _run_over(
    floors: Floors, planned: PlannedRun, folder: RunFolder | None, start: _Start, options: Rounds, tell: Tell
) -> DeployedRun:
    """The rounds, from the agreement on the scale of the inputs to the last evaluation."""
    scenario, tasks, text, earlier = planned.scenario, floor_tasks(planned.scenario), _text(planned), start.earlier
    if earlier is None:
        inputs = floors.agree()
        samples = replace(start.samples, mean=inputs.mean, deviation=inputs.deviation)
    else:
        samples = scaled_as(start.samples, earlier.checkpoint)
    floors.announce(Inputs(samples.mean, samples.deviation))
    tell(Event())
    with engine_for(job_of(scenario, "cpu"), samples, options.workers or cores()) as engine:
        plant = DeployedPlant(scenario, engine, floors, tell, tests_all=options.until.is_set)
        if earlier is not None:
            earlier.checkpoint.restore(plant)
        if options.resume:
            tell(Event(resumed=plant.index))
        rounds = drive(plant, planned, folder, earlier=earlier, until=options.until, tell=tell)
        if folder is not None:
            folder.begin(text, plant.index, copies=copies_of(scenario), about=options.about)
            machines = MachineFiles(folder.path, tasks, scenario.data.name, samples.test_labels.size)
            rounds = _with_machines(rounds, machines, floors)
        driven = Driven.of(rounds, earlier)
        tested = plant.evaluate()
    return DeployedRun(
        scenario=scenario,
        records=driven.records,
        timings=driven.timings,
        confusion=None if tested is None else tested[0],
        loss=None if tested is None else tested[1],
        resumed=0 if earlier is None else earlier.checkpoint.round,
        folder=planned.folder,
    )


def _text(planned: PlannedRun) -> str:
    """Scenario of the run folder."""
    return folder_toml(planned.file, planned.scenario)


def _tell_sources(scenario: Scenario) -> None:
    """Say in the log which costs rest on measurements."""
    gateways = {floor.name: floor.gateway.profile for floor in scenario.floors}
    devices = {device.name: device.profile for device in scenario.devices}
    counts = [sum(profile is not None for profile in kind.values()) for kind in (devices, gateways)]
    numbers = f"{counts[0]} of {len(devices)} devices and {counts[1]} of {len(gateways)} gateways"
    _LOG.info("Costs rest on measurements of %s.", numbers)
    others = [name for kind in (gateways, devices) for name, profile in kind.items() if profile is None]
    if others:
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        _LOG.warning("Nothing was measured of %s%s: their costs follow from FLOPs.", ", ".join(others[:5]), more)


def _with_machines(rounds: Iterator[FinishedRound], machines: MachineFiles, floors: Floors) -> Iterator[FinishedRound]:
    """The rounds; before the first and after each one, what machines have said on joining is kept."""
    machines.keep(*floors.machines())
    for ended in rounds:
        machines.keep(*floors.machines())
        yield ended


def _test_samples(scenario: Scenario, folder: Path | None) -> Samples:
    """The test set of the scenario's data; an empty one if it is not on this machine, which needs no other data."""
    images: npt.NDArray[np.generic] = np.zeros((0, *scenario.model.input), np.uint8)
    labels: Labels = np.zeros(0, np.int64)
    tests = held_out(scenario, folder)
    if tests is not None:
        images, labels = tests
    channels, nothing = scenario.model.input[0], np.zeros(0, np.int64)
    return Samples(
        images=images[:0],
        labels=nothing,
        first=np.zeros(len(scenario.devices) + 1, np.int64),
        held=nothing,
        test_images=images,
        test_labels=labels,
        mean=np.zeros(channels),
        deviation=np.ones(channels),
    )
