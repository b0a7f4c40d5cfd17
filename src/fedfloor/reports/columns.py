"""A log as columns of numbers, filled round by round while it is read. Unknown is nan."""

__all__ = ["Columns"]

import math
from collections.abc import Callable, Iterable
from typing import Self

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.costs.plant import PlantArrays, arrays_of
from fedfloor.rounds.record import Absent, GatewayRecord, RoundRecord
from fedfloor.rounds.summary import counted_cause, value_of_test
from fedfloor.scenario import Scenario

_ROOM = 64  #: rounds that fit at first

#: numbers of a floor in a round, in the order of `Columns.of_floors`; the cause of a failure follows them
_OF_FLOORS: tuple[Callable[[GatewayRecord], float | Absent | None], ...] = (
    lambda gateway: gateway.selected,
    lambda gateway: gateway.completed,
    lambda gateway: gateway.target_rate,
    lambda gateway: gateway.download_s,
    lambda gateway: gateway.train_s,
    lambda gateway: gateway.upload_s,
    lambda gateway: gateway.power_w,
    lambda gateway: gateway.energy_j,
    lambda gateway: gateway.divergence_bound,
    lambda gateway: gateway.divergence,
    lambda gateway: gateway.channel,
)


class Columns:
    """The rounds of a log that were added so far."""

    def __init__(self, scenario: Scenario, room: int = _ROOM) -> None:
        self.plant: PlantArrays = arrays_of(scenario)
        self.causes: list[str] = []  #: of failures
        self.predicts_numbers = scenario.training.predicts_numbers
        floors, devices = self.plant.gateways.count, len(self.plant.devices.names)
        self._counts: list[int] = self.plant.devices.on_floor(floors).tolist()
        self._rounds = np.empty((5, room))
        self._floors = np.empty((len(_OF_FLOORS) + 1, room, floors))
        self._devices = np.empty((3, room, devices))
        self._size = 0

    @classmethod
    def of(cls, scenario: Scenario, records: Iterable[RoundRecord]) -> Self:
        """The columns of these rounds."""
        columns = cls(scenario)
        for record in records:
            columns.add(record)
        return columns

    def __len__(self) -> int:
        return self._size

    @property
    def of_rounds(self) -> Floats:
        """(5, T) number from 1, delay [s], clock [s], accuracy, error."""
        return self._rounds[:, : self._size]

    @property
    def of_floors(self) -> Floats:
        """(12, T, M) in the order of _OF_FLOORS, and the place of the failure in `causes`; nan for what is null."""
        return self._floors[:, : self._size]

    @property
    def of_devices(self) -> Floats:
        """(3, T, N) cut, frequency [Hz], energy [J]; nan where not selected."""
        return self._devices[:, : self._size]

    @property
    def width(self) -> int:
        """Numbers that a round takes."""
        return sum(part[:, 0].size for part in (self._rounds, self._floors, self._devices))

    def add(self, record: RoundRecord) -> None:
        """Take one more round."""
        if self._size == self._rounds.shape[1]:
            self._move(np.arange(self._size), 2 * self._size)
        t, self._size = self._size, self._size + 1
        self._rounds[:, t] = record.round + 1, record.delay, record.clock, *self.tested(record)
        for row, of in zip(self._floors[:, t], _OF_FLOORS, strict=False):
            row[:] = [_number(of(gateway)) for gateway in record.gateways]
        self._floors[-1, t] = [self._place_of(gateway.failure) for gateway in record.gateways]
        self._devices[:, t] = np.nan
        begin = 0
        for count, gateway in zip(self._counts, record.gateways, strict=True):
            if gateway.devices:
                values = [(entry.cut, _number(entry.gateway_frequency_hz), entry.energy_j) for entry in gateway.devices]
                self._devices[:, t, begin : begin + count] = np.array(values, float).T
            begin += count

    def tested(self, record: RoundRecord) -> tuple[float, float]:
        """Accuracy and error of a round's model; nan for what its test did not measure, so for at least one."""
        value = _number(value_of_test(record, predicts_numbers=self.predicts_numbers))
        return (math.nan, value) if self.predicts_numbers else (value, math.nan)

    def _place_of(self, failure: str | None) -> float:
        if failure is None:
            return math.nan
        cause = counted_cause(failure, self.causes)
        if cause not in self.causes:
            self.causes.append(cause)
        return float(self.causes.index(cause))

    def keep(self, at: Ints) -> None:
        """Forget all rounds but those in these places."""
        self._move(at, max(_ROOM, 2 * at.size))

    def _move(self, at: Ints, room: int) -> None:
        """Move the rounds in these places into new arrays with room for so many."""
        parts = []
        for old in (self._rounds, self._floors, self._devices):
            new = np.empty((old.shape[0], room, *old.shape[2:]))
            new[:, : at.size] = old[:, at]
            parts.append(new)
        self._rounds, self._floors, self._devices = parts
        self._size = at.size

    def __getitem__(self, at: slice) -> "Columns":
        """The rounds in these places; the numbers are shared, and rounds that are added later are not seen."""
        part = object.__new__(Columns)
        part.plant, part.causes, part._counts = self.plant, self.causes, self._counts
        part.predicts_numbers = self.predicts_numbers
        part._rounds, part._floors = self.of_rounds[:, at], self.of_floors[:, at]
        part._devices = self.of_devices[:, at]
        part._size = part._rounds.shape[1]
        return part


def _number(value: float | Absent | None) -> float:
    return math.nan if value is None or isinstance(value, Absent) else float(value)
