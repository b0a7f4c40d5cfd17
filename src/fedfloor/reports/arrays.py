"""Run logs as arrays, laid out once for all figures and tables. Unknown is nan, endless is inf."""

__all__ = ["RunArrays", "SeriesArrays", "lay_out", "lay_out_run"]

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedfloor.arrays import Bools, Floats, Ints
from fedfloor.costs.plant import PlantArrays, arrays_of
from fedfloor.reports.reading import Collection, ReadRun, Series
from fedfloor.rounds.record import Absent, GatewayRecord


@dataclass(frozen=True, slots=True, eq=False)
class RunArrays:
    """One run's log as arrays over T rounds, M floors and N devices."""

    run: ReadRun
    plant: PlantArrays
    rounds: Ints  #: (T,) from 1: how many rounds had been run
    delay: Floats  #: (T,) [s]
    clock: Floats  #: (T,) [s] simulated time at the end of the round
    accuracy: Floats  #: (T,) [1] nan where the model was not tested
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


#: values of a floor in a round, in the order in which `lay_out_run` takes them apart
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


def lay_out_run(run: ReadRun) -> RunArrays:
    """One run as arrays, filled in one pass over its log."""
    plant, rounds = arrays_of(run.scenario), len(run.records)
    first = np.searchsorted(plant.devices.floor, np.arange(plant.gateways.count)).tolist()
    number, delay, clock, accuracy = (np.empty(rounds) for _ in range(4))
    of_floors = np.empty((len(_OF_FLOORS), rounds, plant.gateways.count))
    cut, frequency, device_energy = (np.full((rounds, len(plant.devices.names)), np.nan) for _ in range(3))
    for t, record in enumerate(run.records):
        number[t], delay[t], clock[t] = record.round + 1, record.delay, record.clock
        accuracy[t] = _number(record.accuracy)
        of_floors[:, t] = [[_number(of(gateway)) for gateway in record.gateways] for of in _OF_FLOORS]
        for begin, gateway in zip(first, record.gateways, strict=True):
            for n, device in enumerate(gateway.devices, start=begin):
                cut[t, n], device_energy[t, n] = device.cut, device.energy_j
                frequency[t, n] = _number(device.gateway_frequency_hz)
    selected, completed, target, download, train, upload, power, energy, bound, divergence = of_floors
    return RunArrays(
        run=run,
        plant=plant,
        rounds=number.astype(np.int64),
        delay=delay,
        clock=clock,
        accuracy=accuracy,
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


def _number(value: float | Absent | None) -> float:
    return math.nan if value is None or isinstance(value, Absent) else float(value)


def _endless(values: Floats) -> Floats:
    """Times of floors, where a log writes null for a time without end."""
    return np.where(np.isnan(values), np.inf, values)
