"""Run logs as arrays: every log is read once, whatever is shown of it. Unknown is nan, endless is inf."""

__all__ = ["RunArrays", "SeriesArrays", "column_of", "lay_out", "lay_out_run"]

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedfloor.arrays import Bools, Floats, Ints
from fedfloor.costs.plant import PlantArrays, arrays_of
from fedfloor.report.reading import Collection, ReadRun, Series


@dataclass(frozen=True, slots=True, eq=False)
class RunArrays:
    """One run's log as arrays over T rounds, M floors and N devices."""

    run: ReadRun
    plant: PlantArrays
    rounds: Ints  #: (T,) from 1: how many had been run
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


def lay_out_run(run: ReadRun) -> RunArrays:
    """One run as arrays."""
    plant, records = arrays_of(run.scenario), run.records
    first = np.searchsorted(plant.devices.floor, np.arange(plant.gateways.count)).tolist()
    shape = (len(records), len(plant.devices.names))
    of_device = {key: np.full(shape, np.nan) for key in ("cut", "gateway_frequency_hz", "energy_j")}
    for t, record in enumerate(records):
        for begin, entry in zip(first, record["gateways"], strict=True):
            for n, device in enumerate(entry.get("devices", ()), start=begin):
                for key, values in of_device.items():
                    values[t, n] = _number(device.get(key))
    return RunArrays(
        run=run,
        plant=plant,
        rounds=np.array([record["round"] + 1 for record in records], dtype=np.int64),
        delay=_endless(column_of(records, "delay_s")),
        clock=_endless(column_of(records, "clock_s")),
        accuracy=column_of(records, "accuracy"),
        selected=_of_floors(records, "selected") == 1.0,
        completed=_of_floors(records, "completed") == 1.0,
        target=_of_floors(records, "target_rate"),
        download=_endless(_of_floors(records, "download_s")),
        train=_endless(_of_floors(records, "train_s")),
        upload=_endless(_of_floors(records, "upload_s")),
        power=_of_floors(records, "power_w"),
        energy=_of_floors(records, "energy_j"),
        bound=_of_floors(records, "divergence_bound"),
        divergence=_of_floors(records, "divergence"),
        cut=of_device["cut"],
        frequency=of_device["gateway_frequency_hz"],
        device_energy=of_device["energy_j"],
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def column_of(records: Sequence[Mapping[str, Any]], key: str) -> Floats:
    """One key of many records, (T,); null is nan."""
    return np.array([record.get(key) for record in records], dtype=float)


def _of_floors(records: Sequence[Mapping[str, Any]], key: str) -> Floats:
    return np.array([[entry.get(key) for entry in record["gateways"]] for record in records], dtype=float)


def _endless(values: Floats) -> Floats:
    """Logs write an endless time as null."""
    return np.where(np.isnan(values), np.inf, values)
