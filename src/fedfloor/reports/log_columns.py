"""A log as columns of numbers, filled round by round while it is read. Unknown is nan."""

__all__ = ["LogColumns"]

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Literal, Self

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.costs.plant import PlantArrays, arrays_of
from fedfloor.rounds.record import Absent, DeviceRecord, GatewayRecord, RoundRecord
from fedfloor.rounds.summary import counted_cause, value_of_test
from fedfloor.scenario import Scenario

_ROOM = 64  #: rounds that fit at first

OfRound = Literal["number", "delay", "clock", "tested"]
OfFloor = Literal[
    "selected", "completed", "target", "download", "train", "upload", "power", "energy", "bound", "divergence",
    "channel", "failure",
]  # fmt: skip
OfDevice = Literal["cut", "frequency", "energy"]

#: row of every number of a round
_ROUND_ROWS: Mapping[OfRound, int] = MappingProxyType({"number": 0, "delay": 1, "clock": 2, "tested": 3})
#: numbers of a floor in a round, by row; the place of the failure among all causes is in the row behind them
_OF_FLOORS: Mapping[OfFloor, Callable[[GatewayRecord], float | Absent | None]] = MappingProxyType(
    {
        "selected": lambda gateway: gateway.selected,
        "completed": lambda gateway: gateway.completed,
        "target": lambda gateway: gateway.target_rate,
        "download": lambda gateway: gateway.download_s,
        "train": lambda gateway: gateway.train_s,
        "upload": lambda gateway: gateway.upload_s,
        "power": lambda gateway: gateway.power_w,
        "energy": lambda gateway: gateway.energy_j,
        "bound": lambda gateway: gateway.divergence_bound,
        "divergence": lambda gateway: gateway.divergence,
        "channel": lambda gateway: gateway.channel,
    }
)
_FLOOR_ROWS: Mapping[OfFloor, int] = MappingProxyType({name: row for row, name in enumerate((*_OF_FLOORS, "failure"))})
#: numbers of a device in a round, by row
_OF_DEVICES: Mapping[OfDevice, Callable[[DeviceRecord], float | None]] = MappingProxyType(
    {
        "cut": lambda device: device.cut,
        "frequency": lambda device: device.gateway_frequency_hz,
        "energy": lambda device: device.energy_j,
    }
)
_DEVICE_ROWS: Mapping[OfDevice, int] = MappingProxyType({name: row for row, name in enumerate(_OF_DEVICES)})


class LogColumns:
    """The rounds of a log that were added so far."""

    def __init__(self, scenario: Scenario, room: int = _ROOM) -> None:
        self.plant: PlantArrays = arrays_of(scenario)
        self.causes: list[str] = []  #: of failures
        self.predicts_numbers = scenario.training.predicts_numbers
        floors, devices = self.plant.gateways.count, len(self.plant.devices.names)
        self._counts: list[int] = self.plant.devices.on_floor(floors).tolist()
        self._rounds = np.empty((len(_ROUND_ROWS), room))
        self._floors = np.empty((len(_FLOOR_ROWS), room, floors))
        self._devices = np.empty((len(_DEVICE_ROWS), room, devices))
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

    def of_rounds(self, name: OfRound) -> Floats:
        """(T,) number from 1, delay [s], clock [s], or what the test gave (see `value_of_test`); may be written to."""
        return self._rounds[_ROUND_ROWS[name], : self._size]

    def of_floors(self, name: OfFloor) -> Floats:
        """(T, M) as the log has it, nan for what is null; `failure` is the place of the cause in `causes`."""
        return self._floors[_FLOOR_ROWS[name], : self._size]

    def of_devices(self, name: OfDevice) -> Floats:
        """(T, N) cut, frequency of the gateway [Hz], energy [J]; nan where not selected."""
        return self._devices[_DEVICE_ROWS[name], : self._size]

    @property
    def width(self) -> int:
        """Numbers that a round takes."""
        return sum(part[:, 0].size for part in (self._rounds, self._floors, self._devices))

    def add(self, record: RoundRecord) -> None:
        """Take one more round."""
        if self._size == self._rounds.shape[1]:
            self._move(np.arange(self._size), 2 * self._size)
        t, self._size = self._size, self._size + 1
        self._rounds[:, t] = record.round + 1, record.delay, record.clock, self.result_of(record)
        for row, of in zip(self._floors[:, t], _OF_FLOORS.values(), strict=False):
            row[:] = [_number(of(gateway)) for gateway in record.gateways]
        self._floors[-1, t] = [self._place_of(gateway.failure) for gateway in record.gateways]
        self._devices[:, t] = np.nan
        begin = 0
        for count, gateway in zip(self._counts, record.gateways, strict=True):
            if gateway.devices:
                values = [[_number(of(device)) for device in gateway.devices] for of in _OF_DEVICES.values()]
                self._devices[:, t, begin : begin + count] = values
            begin += count

    def result_of(self, record: RoundRecord) -> float:
        """What the test of a round gave, as `tested` has it."""
        return _number(value_of_test(record, predicts_numbers=self.predicts_numbers))

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

    def __getitem__(self, at: slice) -> "LogColumns":
        """The rounds in these places; the numbers are shared, and rounds that are added later are not seen."""
        part = object.__new__(LogColumns)
        part.plant, part.causes, part._counts = self.plant, self.causes, self._counts
        part.predicts_numbers = self.predicts_numbers
        part._rounds, part._floors, part._devices = (
            array[:, : self._size][:, at] for array in (self._rounds, self._floors, self._devices)
        )
        part._size = part._rounds.shape[1]
        return part


def _number(value: float | Absent | None) -> float:
    return math.nan if value is None or isinstance(value, Absent) else float(value)
