"""Run logs as arrays, laid out once for all figures and tables. Unknown is nan, endless is inf."""

__all__ = ["Columns", "RunArrays", "SeriesArrays", "lay_out", "lay_out_run", "tested"]

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from fedfloor.arrays import Bools, Floats, Ints
from fedfloor.costs.plant import PlantArrays, arrays_of
from fedfloor.reports.reading import Collection, ReadRun, Series
from fedfloor.rounds.record import Absent, GatewayRecord, RoundRecord
from fedfloor.rounds.summary import error_of_test
from fedfloor.scenario import Scenario


@dataclass(frozen=True, slots=True, eq=False)
class RunArrays:
    """One run's log as arrays over T rounds, M floors and N devices."""

    run: ReadRun
    plant: PlantArrays
    rounds: Ints  #: (T,) from 1: how many rounds had been run
    delay: Floats  #: (T,) [s]
    clock: Floats  #: (T,) [s] simulated time at the end of the round
    accuracy: Floats  #: (T,) [1] nan where the model was not tested
    error: Floats  #: (T,) root mean square error; nan where the model was not tested or predicts classes
    selected: Bools  #: (T, M)
    completed: Bools  #: (T, M)
    target: Floats  #: (T, M) [1] target rate
    download: Floats  #: (T, M) [s]
    train: Floats  #: (T, M) [s] of the slowest device, its gateway's part included
    upload: Floats  #: (T, M) [s]
    power: Floats  #: (T, M) [W] nan where not selected
    energy: Floats  #: (T, M) [J] of the gateway
    bound: Floats  #: (T, M) Theorem 1's; nan where unknown
    divergence: Floats  #: (T, M) nan where not observed
    cut: Floats  #: (T, N) [1] nan where not selected
    frequency: Floats  #: (T, N) [Hz] of the gateway for this device
    device_energy: Floats  #: (T, N) [J]

    @property
    def floors(self) -> tuple[str, ...]:
        """Names, (M,)."""
        return self.plant.gateways.names

    @property
    def devices(self) -> tuple[str, ...]:
        """Names, (N,)."""
        return self.plant.devices.names


@dataclass(frozen=True, slots=True, eq=False)
class SeriesArrays:
    """Runs that differ in nothing but their seed."""

    label: str
    runs: tuple[RunArrays, ...]  #: by seed


def lay_out(collection: Collection) -> tuple[SeriesArrays, ...]:
    """All runs of a collection as arrays."""
    return tuple(_series(series) for series in collection.series)


def _series(series: Series) -> SeriesArrays:
    return SeriesArrays(series.label, tuple(lay_out_run(run) for run in series.runs))


#: values of a floor in a round, in the order in which `Columns.arrays` takes them apart
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
)


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Rounds as arrays that are filled one by one, with room for T rounds."""

    plant: PlantArrays
    of_rounds: Floats  #: (5, T) number from 1, delay [s], clock [s], accuracy, error
    of_floors: Floats  #: (10, T, M) in the order of _OF_FLOORS
    of_devices: Floats  #: (3, T, N) cut, frequency [Hz], energy [J]; nan where not selected

    @classmethod
    def of(cls, scenario: Scenario, rounds: int) -> Self:
        """Columns with room for so many rounds of a scenario."""
        plant = arrays_of(scenario)
        of_floors = np.empty((len(_OF_FLOORS), rounds, plant.gateways.count))
        return cls(plant, np.empty((5, rounds)), of_floors, np.empty((3, rounds, len(plant.devices.names))))

    def put(self, t: int, record: RoundRecord) -> None:
        """Fill place `t` with a round."""
        self.of_rounds[:, t] = record.round + 1, record.delay, record.clock, *tested(record)
        self.of_floors[:, t] = [[_number(of(gateway)) for gateway in record.gateways] for of in _OF_FLOORS]
        self.of_devices[:, t] = np.nan
        begin = 0
        for count, gateway in zip(self._counts, record.gateways, strict=True):
            if gateway.devices:
                values = [(entry.cut, _number(entry.gateway_frequency_hz), entry.energy_j) for entry in gateway.devices]
                self.of_devices[:, t, begin : begin + count] = np.array(values, float).T
            begin += count

    @property
    def _counts(self) -> list[int]:
        """Devices of every floor."""
        counts: list[int] = self.plant.devices.on_floor(self.plant.gateways.count).tolist()
        return counts

    def taken(self, at: Ints, room: int) -> "Columns":
        """The rounds in these places as new columns, with room for `room` rounds in all."""
        parts = [np.empty((*part.shape[:1], room, *part.shape[2:])) for part in self._parts]
        for new, old in zip(parts, self._parts, strict=True):
            new[:, : at.size] = old[:, at]
        return Columns(self.plant, *parts)

    @property
    def _parts(self) -> tuple[Floats, Floats, Floats]:
        return self.of_rounds, self.of_floors, self.of_devices

    def arrays(self, run: ReadRun, rounds: int) -> RunArrays:
        """The first rounds, as arrays of a run."""
        number, delay, clock, accuracy, error = self.of_rounds[:, :rounds]
        floors = self.of_floors[:, :rounds]
        selected, completed, target, download, train, upload, power, energy, bound, divergence = floors
        cut, frequency, device_energy = self.of_devices[:, :rounds]
        return RunArrays(
            run=run,
            plant=self.plant,
            rounds=number.astype(np.int64),
            delay=delay,
            clock=clock,
            accuracy=accuracy,
            error=error,
            selected=selected == 1.0,
            completed=completed == 1.0,
            target=target,
            download=_endless(download),
            train=_endless(train),
            upload=_endless(upload),
            power=power,
            energy=energy,
            bound=bound,
            divergence=divergence,
            cut=cut,
            frequency=frequency,
            device_energy=device_energy,
        )


def lay_out_run(run: ReadRun) -> RunArrays:
    """One run as arrays, filled in one pass over its log."""
    columns = Columns.of(run.scenario, len(run.records))
    for t, record in enumerate(run.records):
        columns.put(t, record)
    return columns.arrays(run, len(run.records))


def tested(record: RoundRecord) -> tuple[float, float]:
    """Accuracy and error of a round's model; nan where it was not tested, and for what it does not predict."""
    return _number(record.accuracy), _number(error_of_test(record))


def _number(value: float | Absent | None) -> float:
    return math.nan if value is None or isinstance(value, Absent) else float(value)


def _endless(values: Floats) -> Floats:
    """Times of floors, where a log writes null for a time without end."""
    return np.where(np.isnan(values), np.inf, values)
