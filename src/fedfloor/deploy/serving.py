"""`fedfloor server`: the base station's part of a run on real machines."""

__all__ = ["DeployedRun", "Serving", "serve_planned"]

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Ints, Labels
from fedfloor.deploy.identity import Credentials
from fedfloor.deploy.machines import MachineFiles
from fedfloor.deploy.radio import Radio
from fedfloor.deploy.station import Station, StationOptions
from fedfloor.deploy.tasks import floor_tasks
from fedfloor.errors import DeploymentError, shown
from fedfloor.rounds.events import Event, Tell, silent
from fedfloor.rounds.listeners.stop import Until
from fedfloor.rounds.loop import FinishedRound
from fedfloor.rounds.plants.deployed import DeployedPlant
from fedfloor.rounds.record import RoundRecord, TimingRecord
from fedfloor.rounds.summary import root_mean_square
from fedfloor.runs.copies import copies_of, folder_toml
from fedfloor.runs.deployable import refuse_undeployable
from fedfloor.runs.driving import Driven, claimed_folder, drive, earlier_rounds
from fedfloor.runs.measured import with_kept_costs, with_measured_costs
from fedfloor.runs.options import refuse_until
from fedfloor.runs.planned import PlannedRun
from fedfloor.runs.train import job_of, scaled_as
from fedfloor.scenario.resolved import Scenario
from fedfloor.scheduling.traits import needs_sample_losses
from fedfloor.training.data.holding import held_out
from fedfloor.training.data.samples import Samples
from fedfloor.training.network.built import Inputs
from fedfloor.workers.engine import engine_for
from fedfloor.workers.processes import cores

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Serving:
    """What the owner of the base station decides."""

    listen: str  #: HOST:PORT
    credentials: Credentials | None  #: None: without TLS, on this machine only
    resume: bool = False
    until: Until = field(default_factory=Until)
    wait: float = 120.0  #: [s] for floors and devices, before the first round
    data_dir: Path | None = None  #: with the test set
    workers: int | None = None  #: processes that evaluate
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
        return None if self.confusion is None else float(np.trace(self.confusion) / self.confusion.sum())

    @property
    def error(self) -> float | None:
        """Root mean square error of the final model; None without a test set, and if classes are predicted."""
        return None if self.loss is None or self.confusion is not None else root_mean_square(self.loss)


def serve_planned(planned: PlannedRun, options: Serving, *, tell: Tell = silent) -> DeployedRun:
    """Run the rounds of a planned run on real machines, with a checkpoint after every round."""
    refuse_undeployable(planned.scenario, planned.scenario.name)
    refuse_until(planned.scenario, options.until.accuracy)
    if needs_sample_losses(planned.scheduler):
        problem = "needs the losses of single samples, which do not leave the machines"
        raise DeploymentError(f"policy {shown(str(planned.policy))}: {problem}. Choose another policy")
    training = planned.scenario.training.model_copy(update={"checkpoint_every": 1})
    planned = replace(planned, scenario=planned.scenario.model_copy(update={"training": training}))
    with claimed_folder(planned, checkpoints=True, resume=options.resume) as folder:
        kept = with_kept_costs(planned) if planned.scenario.deploy.measure and options.resume else None
        planned, measures = kept or planned, bool(planned.scenario.deploy.measure) and kept is None
        earlier = earlier_rounds(planned, _text(planned)) if options.resume else None
        samples = _test_samples(planned.scenario, options.data_dir)
        with Station(
            floor_tasks(planned.scenario, measure=measures),
            StationOptions(options.listen, options.credentials, options.wait, options.radio),
        ) as station:
            options.on_listening(station.port)
            tell(Event(waiting=tuple(floor.name for floor in planned.scenario.floors)))
            if measures:
                planned = with_measured_costs(planned, station.measured())
                station.assign(floor_tasks(planned.scenario))
            scenario, tasks, text = planned.scenario, floor_tasks(planned.scenario), _text(planned)
            if scenario.deploy.measure:
                _tell_sources(scenario)
            if earlier is None:
                inputs = station.agree()
                samples = replace(samples, mean=inputs.mean, deviation=inputs.deviation)
            else:
                samples = scaled_as(samples, earlier.checkpoint)
            station.announce(Inputs(samples.mean, samples.deviation))
            tell(Event())
            with engine_for(job_of(scenario, "cpu"), samples, options.workers or cores()) as engine:
                plant = DeployedPlant(scenario, engine, station, tell, tests_all=options.until.is_set)
                if earlier is not None:
                    earlier.checkpoint.restore(plant)
                if options.resume:
                    tell(Event(resumed=plant.index))
                rounds = drive(plant, planned, folder, earlier=earlier, until=options.until, tell=tell)
                if folder is not None:
                    folder.begin(text, plant.index, copies=copies_of(scenario))
                    machines = MachineFiles(folder.path, tasks, scenario.data.name, samples.test_labels.size)
                    rounds = _with_machines(rounds, machines, station)
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


def _with_machines(
    rounds: Iterator[FinishedRound], machines: MachineFiles, station: Station
) -> Iterator[FinishedRound]:
    """The rounds; before the first and after each one, what machines have said on joining is kept."""
    machines.keep(*station.machines())
    for ended in rounds:
        machines.keep(*station.machines())
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
