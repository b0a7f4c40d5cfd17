"""Floors that train in this process, for a plant of real machines that is driven without a network."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedfloor.arrays import Bools, Vector
from fedfloor.rounds.events import Tell, silent
from fedfloor.rounds.plants.backhaul import FloorComparison, FloorOrder, FloorReply, FloorSurvey, Parts, Presence
from fedfloor.rounds.plants.contract import Plant
from fedfloor.rounds.plants.deployed import DeployedPlant
from fedfloor.runs.driving import Driven, claimed_folder, drive, earlier_rounds
from fedfloor.runs.planned import PlannedRun, planned_run
from fedfloor.runs.train import job_of, scaled_as
from fedfloor.scenario import resolved_toml
from fedfloor.training.comparing import compare
from fedfloor.training.data.holding import Holding
from fedfloor.training.data.samples import Samples
from fedfloor.training.exchange import Exchange
from fedfloor.training.network.weights import average, mean_of
from fedfloor.workers.engine import Engine, Local, train_devices

ROUNDS = 4
#: 6 floors with 3 devices each, 3 channels, a small network and few samples
SETTINGS = (
    "limits=false",
    "model.width=0.25",
    "training.batch_fraction=0.02",
    "training.local_iterations=2",
    "training.min_cut=1",
    "baseline.cut=1",
    "training.evaluate_every=2",
    "training.checkpoint_every=1",
    "participation.rates=uniform",
)


def base_station_samples(samples: Samples, *, tests: bool = True) -> Samples:
    """What a base station has: a test set, and the mean and deviation that the machines agreed on."""
    return dataclasses.replace(
        samples,
        images=samples.images[:0],
        labels=samples.labels[:0],
        first=np.zeros_like(samples.first),
        held=samples.held[:0],
        test_images=samples.test_images if tests else samples.test_images[:0],
        test_labels=samples.test_labels if tests else samples.test_labels[:0],
    )


@dataclass
class Hall:
    """Gateways and devices in this process, which really train; what is to go wrong is said beforehand."""

    engine: Engine  #: with the data of the devices
    floors: list[int]  #: number of devices per floor
    exchange: Exchange  #: the gateways' side of it
    mute: set[tuple[int, int]] = field(default_factory=set)  #: round and floor that never answers
    away: set[int] = field(default_factory=set)  #: floors that are not there
    missing: set[int] = field(default_factory=set)  #: devices that are not there
    slowness: float = 1.0  #: real seconds per predicted one
    gateway_energy: float = np.nan  #: [J] that gateways report
    spoil: Callable[[FloorReply], FloorReply] = lambda reply: reply  #: what becomes of a reply
    orders: list[FloorOrder] = field(default_factory=list)
    settled: list[tuple[int, list[bool]]] = field(default_factory=list)
    gradients: dict[int, tuple[int, Vector, Vector]] = field(default_factory=dict)  #: limit, weights, gradient
    pending: dict[int, Vector] = field(default_factory=dict)  #: rounding errors of a round that is not settled

    def observe(self) -> Presence:
        floors, devices = np.ones(len(self.floors), bool), np.ones(sum(self.floors), bool)
        floors[list(self.away)] = False
        devices[list(self.missing)] = False
        energy = np.full(floors.size, self.gateway_energy)
        return Presence(floors, devices, energy, np.full(devices.size, np.nan))

    def carry_out(self, index: int, orders: Sequence[FloorOrder], weights: Vector) -> Iterator[FloorReply]:
        self.orders += orders
        for order in reversed(orders):  # the last one is the first to end
            if (index, order.floor) in self.mute:
                nobody = np.zeros(order.cut.size, bool)
                waited = Parts(download=order.deadline)
                yield FloorReply(order.floor, None, 0.0, np.nan, nobody, waited, reason="no answer in time")
            else:
                yield self.spoil(self.train(index, order, weights))

    def train(self, index: int, order: FloorOrder, weights: Vector) -> FloorReply:
        first = sum(self.floors[: order.floor])
        devices = np.arange(first, first + self.floors[order.floor])
        took_part = ~np.isin(devices, list(self.missing))
        batch = self.engine.work.job.batch
        trained = [
            (float(batch[n]), loss, vector.copy())
            for n, loss, _, vector in train_devices(
                self.engine, index, devices[took_part], order.cut[took_part], weights
            )
        ]
        points = sum(size for size, _, _ in trained)
        model = average(((size, vector) for size, _, vector in trained), weights.size)
        loss = sum(size * loss for size, loss, _ in trained) / points
        return FloorReply(
            order.floor, self.sent(index, order.floor, model, weights), points, loss, took_part,
            Parts(*(self.slowness * part for part in dataclasses.astuple(order.predicted))),
        )  # fmt: skip

    def sent(self, index: int, floor: int, model: Vector, weights: Vector) -> Vector:
        error = self.exchange.error
        if error is None:
            return self.exchange.uploaded(model, weights, index=index, floor=floor)
        before = error[floor].copy()
        update = self.exchange.uploaded(model, weights, index=index, floor=floor)
        self.pending[floor] = error[floor].copy()
        error[floor] = before
        return update

    def survey(self, index: int, weights: Vector, samples: int, deadline: float) -> list[FloorSurvey]:
        work, surveys = self.engine.work, []
        counts = np.diff(work.samples.first)
        for floor, devices in self.there(index):
            rows = np.full((4, self.floors[floor]), np.nan)
            parts: dict[int, Vector] = {}
            for place, n in devices:
                out = np.empty_like(weights)
                found = work.estimate(n, samples, weights, out)
                rows[:, place] = counts[n], found.sigma, found.norm, found.smoothness
                parts[n] = out
                self.gradients[n] = samples, weights, out
            if parts:
                mean = mean_of([float(counts[n]) for n in parts], parts.values(), weights.size)
                surveys.append(FloorSurvey(floor, mean.astype(np.float32), *rows))
        return surveys

    def compare(self, index: int, gradient: Vector, deadline: float) -> list[FloorComparison]:
        comparisons = []
        for floor, devices in self.there(index):
            rows = np.full((2, self.floors[floor]), np.nan)
            for place, n in devices:
                rows[:, place] = dataclasses.astuple(compare(self.engine.work, n, *self.gradients[n], gradient))
            comparisons.append(FloorComparison(floor, *rows))
        return comparisons

    def there(self, index: int) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Floors that answer, each with places and numbers of its devices that do."""
        for floor, count in enumerate(self.floors):
            if floor not in self.away and (index, floor) not in self.mute:
                first = sum(self.floors[:floor])
                yield floor, [(k, first + k) for k in range(count) if first + k not in self.missing]

    def settle(self, index: int, completed: Bools) -> None:
        self.settled.append((index, completed.tolist()))
        for floor, error in self.pending.items():
            if completed[floor] and self.exchange.error is not None:
                self.exchange.error[floor] = error
        self.pending.clear()


@dataclass
class Deployment:
    """A deployed run of this process."""

    holding: Holding
    policy: str = "random"
    more: tuple[str, ...] = ()
    tests: bool = True
    hall: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        planned = planned_run("quick", self.policy, ROUNDS, overrides=[*SETTINGS, *self.more], training=True)
        scenario = planned.scenario.model_copy(update={"floors": self.holding.scenario.floors})
        self.planned: PlannedRun = dataclasses.replace(planned, scenario=scenario)

    def plant(self, tell: Tell = silent, checkpoint: Any = None) -> tuple[DeployedPlant, Hall]:
        scenario, samples = self.planned.scenario, scaled_as(self.holding.samples, checkpoint)
        floors = [len(floor.devices) for floor in scenario.floors]
        machines = Local(job_of(scenario, "cpu"), samples)
        exchange = Exchange(scenario.precision, machines.work.layout, floors=len(floors), seed=scenario.seed)
        hall = Hall(machines, floors, exchange, **self.hall)
        station = Local(job_of(scenario, "cpu"), base_station_samples(samples, tests=self.tests))
        return DeployedPlant(scenario, station, hall, tell), hall

    def run(self, folder: Path, *, resume: bool = False, tell: Tell = silent) -> tuple[Driven, DeployedPlant, Hall]:
        planned = dataclasses.replace(self.planned, folder=folder)
        scenario_toml = resolved_toml(planned.file)
        with claimed_folder(planned, checkpoints=True, resume=resume) as opened:
            assert opened is not None
            earlier = earlier_rounds(planned, scenario_toml) if resume else None
            deployed, hall = self.plant(tell, None if earlier is None else earlier.checkpoint)
            plant: Plant = deployed
            if earlier is not None:
                earlier.checkpoint.restore(plant)
            opened.begin(scenario_toml, plant.index)
            driven = Driven.of(drive(plant, planned, opened, earlier=earlier, tell=tell), earlier)
        return driven, deployed, hall
