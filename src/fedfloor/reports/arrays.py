"""Run logs as arrays, laid out once for all figures and tables. Unknown is nan, endless is inf."""

__all__ = ["RunArrays", "SeriesArrays", "lay_out", "lay_out_run"]

from dataclasses import dataclass

import numpy as np

from fedfloor.arrays import Bools, Floats, Ints
from fedfloor.costs.plant import PlantArrays
from fedfloor.reports.reading import Collection, ReadRun, Series
from fedfloor.reports.scores import Score


@dataclass(frozen=True, slots=True, eq=False)
class RunArrays:
    """One run's log as arrays over T rounds, M floors and N devices."""

    run: ReadRun
    plant: PlantArrays
    causes: tuple[str, ...]  #: of failures, as the log names them
    rounds: Ints  #: (T,) from 1: how many rounds had been run
    delay: Floats  #: (T,) [s]
    clock: Floats  #: (T,) [s] simulated time at the end of the round
    tested: Floats  #: (T,) accuracy or error, see `ReadRun.score`; nan where the model was not tested
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
    channel: Ints  #: (T, M) -1 where none
    failure: Ints  #: (T, M) place of the cause in `causes`; -1 where none
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

    @property
    def score(self) -> Score:
        """What tests of the runs measure."""
        return self.runs[0].run.score


def lay_out(collection: Collection) -> tuple[SeriesArrays, ...]:
    """All runs of a collection as arrays."""
    return tuple(_series(series) for series in collection.series)


def _series(series: Series) -> SeriesArrays:
    return SeriesArrays(series.label, tuple(lay_out_run(run) for run in series.runs))


def lay_out_run(run: ReadRun) -> RunArrays:
    """One run as arrays."""
    columns = run.columns
    of_rounds, of_floors, of_devices = columns.of_rounds, columns.of_floors, columns.of_devices
    return RunArrays(
        run=run,
        plant=columns.plant,
        causes=tuple(columns.causes),
        rounds=of_rounds("number").astype(np.int64),
        delay=of_rounds("delay"),
        clock=of_rounds("clock"),
        tested=of_rounds("tested"),
        selected=of_floors("selected") == 1.0,
        completed=of_floors("completed") == 1.0,
        target=of_floors("target"),
        download=_endless(of_floors("download")),
        train=_endless(of_floors("train")),
        upload=_endless(of_floors("upload")),
        power=of_floors("power"),
        energy=of_floors("energy"),
        bound=of_floors("bound"),
        divergence=of_floors("divergence"),
        channel=_places(of_floors("channel")),
        failure=_places(of_floors("failure")),
        cut=of_devices("cut"),
        frequency=of_devices("frequency"),
        device_energy=of_devices("energy"),
    )


def _places(values: Floats) -> Ints:
    """Whole numbers, -1 where there is none."""
    return np.where(np.isnan(values), -1.0, values).astype(np.int64)


def _endless(values: Floats) -> Floats:
    """Times of floors, where a log writes null for a time without end."""
    return np.where(np.isnan(values), np.inf, values)
