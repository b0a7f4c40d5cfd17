"""A run in a few numbers: what the table after a simulation shows."""

__all__ = [
    "FINAL_ROUNDS",
    "FloorSummary",
    "RunSummary",
    "Tally",
    "accuracy_of",
    "counted_cause",
    "final_rounds",
    "result_of_test",
    "root_mean_square",
    "summarise",
    "summary_row",
    "value_of_test",
]

import math
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from fedfloor.arrays import Ints
from fedfloor.rounds.record import GatewayRecord, RoundRecord
from fedfloor.scheduling.registry import shown_name

FINAL_ROUNDS = 20  #: most rounds at the end of a run whose tests make its final accuracy
_CAUSES = 20  #: causes of failures that are counted apart; a log has three, unless somebody has changed it


def final_rounds(rounds: int) -> int:
    """How many rounds at the end of a run are all tested: 20, or a fifth of a run of fewer than 100, at least 1.

    A single test moves by up to ten points with the floors that took part last, and tests every few rounds may always
    meet the same group of round robin. A longer window would include rounds in which a short run had learnt little.
    """
    return max(1, min(FINAL_ROUNDS, rounds // 5))


def accuracy_of(confusion: Ints | None) -> float | None:
    """Share of the samples of a confusion matrix (true, predicted) on its diagonal; None without a matrix."""
    return None if confusion is None else float(np.trace(confusion) / confusion.sum())


def root_mean_square(loss: float) -> float:
    """Root mean square error of a model that predicts numbers, in their unit, from its loss: the mean squared error."""
    return math.sqrt(loss)


def value_of_test(record: RoundRecord, *, predicts_numbers: bool) -> float | None:
    """What the test of a round gave: the accuracy, or the root mean square error of a model that predicts numbers.

    None without a test. An app of Flower may log another loss than the mean squared error; one below 0 has no root.
    """
    if not predicts_numbers:
        return record.accuracy
    return None if record.loss is None or record.loss < 0.0 else root_mean_square(record.loss)


def result_of_test(record: RoundRecord, *, predicts_numbers: bool) -> str:
    """Accuracy or error of a round's model in words, or else the loss; empty if it was not tested."""
    value = value_of_test(record, predicts_numbers=predicts_numbers)
    if value is None:
        return "" if record.loss is None else f"loss {record.loss:.4g}"
    return f"error {value:.4g}" if predicts_numbers else f"accuracy {value:.1%}"


def counted_cause(cause: str, known: Collection[str]) -> str:
    """The name under which a cause of failures is counted beside those that are known; `other` if they are many."""
    return cause if cause in known or len(known) < _CAUSES else "other"


@dataclass(frozen=True, slots=True)
class FloorSummary:
    """One floor over a run."""

    name: str
    target_rate: float  #: mean over the rounds
    selected_rate: float  #: share of rounds in which the floor was selected
    completed_rate: float  #: share of rounds in which its model was averaged
    failures: Mapping[str, int]  #: by cause


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run."""

    policy: str
    rounds: int
    mean_delay: float  #: [s]
    p95_delay: float  #: [s]
    clock: float  #: [s] simulated time of the whole run
    mean_energy: float  #: [J] per round, gateways and devices
    selected: int  #: floor-rounds
    completed: int  #: floor-rounds
    failures: Mapping[str, int]  #: floor-rounds by cause
    shortfall: float  #: largest amount by which a floor stays below its target rate
    floors: tuple[FloorSummary, ...]
    device_rounds: int = 0  #: devices of the floors that were selected, over all rounds
    raw_device_rounds: int = 0  #: device-rounds in which a device sent raw samples to its gateway


@dataclass
class _FloorTally:
    """One floor over the rounds so far: counts, and the numbers whose sums depend on their order."""

    name: str
    target_rates: "array[float]" = field(default_factory=lambda: array("d"))
    energies: "array[float]" = field(default_factory=lambda: array("d"))  #: [J] gateway and devices
    selected: int = 0
    completed: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    devices: int = 0
    raw_devices: int = 0

    def add(self, entry: GatewayRecord, *, endless: bool) -> None:
        _add(self.target_rates, entry.target_rate, endless=endless)
        _add(self.energies, entry.floor_energy, endless=endless)
        self.selected += entry.selected
        self.completed += entry.completed
        if entry.failure:
            self.failures[counted_cause(entry.failure, self.failures)] += 1
        self.devices += len(entry.devices)
        self.raw_devices += entry.raw_devices

    def summary(self, rounds: int) -> FloorSummary:
        return FloorSummary(
            name=self.name,
            target_rate=sum(self.target_rates) / rounds,
            selected_rate=self.selected / rounds,
            completed_rate=self.completed / rounds,
            failures=dict(self.failures),
        )


def _add(numbers: "array[float]", value: float, *, endless: bool) -> None:
    """Add a number, or add it to the only one, so that memory does not grow."""
    if endless and numbers:
        numbers[0] += value
    else:
        numbers.append(value)


@dataclass
class Tally:
    """Rounds counted as they end, so that none of them has to be kept: 16 bytes per round and floor instead.

    An `endless` tally takes no more memory the longer a run is; it knows no percentile.
    """

    endless: bool = False
    policy: str = ""
    clock: float = 0.0  #: [s]
    rounds: int = 0
    delays: "array[float]" = field(default_factory=lambda: array("d"))  #: [s]
    floors: list[_FloorTally] = field(default_factory=list)

    def add(self, record: RoundRecord) -> None:
        """Count the next round."""
        if not self.rounds:
            self.floors = [_FloorTally(entry.name) for entry in record.gateways]
        self.policy, self.clock, self.rounds = record.policy, record.clock, self.rounds + 1
        _add(self.delays, record.delay, endless=self.endless)
        for floor, entry in zip(self.floors, record.gateways, strict=True):
            floor.add(entry, endless=self.endless)

    @property
    def mean_delay(self) -> float:
        """Mean of all rounds so far [s]."""
        return sum(self.delays) / self.rounds if self.endless else float(np.mean(self.delays))

    @property
    def selected(self) -> int:
        """Floor-rounds."""
        return sum(floor.selected for floor in self.floors)

    @property
    def completed(self) -> int:
        """Floor-rounds."""
        return sum(floor.completed for floor in self.floors)

    @property
    def failures(self) -> dict[str, int]:
        """Floor-rounds by cause."""
        failures: Counter[str] = Counter()
        for floor in self.floors:
            failures.update(floor.failures)
        return dict(failures)

    def summary(self) -> RunSummary:
        """The summary of at least one round."""
        floors = tuple(floor.summary(self.rounds) for floor in self.floors)
        percentile = math.nan if self.endless else float(np.percentile(self.delays, 95, method="inverted_cdf"))
        return RunSummary(
            policy=self.policy,
            rounds=self.rounds,
            mean_delay=self.mean_delay,
            p95_delay=percentile,
            clock=self.clock,
            mean_energy=sum(chain.from_iterable(floor.energies for floor in self.floors)) / self.rounds,
            selected=self.selected,
            completed=self.completed,
            failures=self.failures,
            shortfall=max(0.0, *(floor.target_rate - floor.completed_rate for floor in floors)),
            floors=floors,
            device_rounds=sum(floor.devices for floor in self.floors),
            raw_device_rounds=sum(floor.raw_devices for floor in self.floors),
        )


def summary_row(summary: RunSummary) -> dict[str, str | int | float]:
    """A run as one row of a table, with units in its keys; `completed` and `failed` count floor-rounds.

    `policy` is the name with all settings, `label` the one that people see.
    """
    return {
        "policy": summary.policy,
        "rounds": summary.rounds,
        "mean_delay_s": summary.mean_delay,
        "p95_delay_s": summary.p95_delay,
        "clock_s": summary.clock,
        "mean_energy_j": summary.mean_energy,
        "completed": summary.completed,
        "failed": sum(summary.failures.values()),
        "shortfall": summary.shortfall,
        "label": shown_name(summary.policy),
    }


def summarise(records: Iterable[RoundRecord]) -> RunSummary:
    """The summary of at least one record."""
    tally = Tally()
    for record in records:
        tally.add(record)
    return tally.summary()
