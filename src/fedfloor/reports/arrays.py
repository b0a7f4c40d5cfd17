"""Run logs as arrays, laid out once for all figures and tables. Unknown is nan, endless is inf."""

__all__ = ["RunArrays", "SeriesArrays", "lay_out", "lay_out_run"]

from dataclasses import dataclass

import numpy as np

from fedfloor.arrays import Bools, Floats, Ints
from fedfloor.costs.plant import PlantArrays
from fedfloor.reports.reading import Collection, ReadRun, Series
from fedfloor.reports.scores import ACCURACY, Score


@dataclass(frozen=True, slots=True, eq=False)
class RunArrays:
    """One run's log as arrays over T rounds, M floors and N devices."""

    run: ReadRun
    plant: PlantArrays
    causes: tuple[str, ...]  #: of failures, as the log names them
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
    channel: Ints  #: (T, M) -1 where none
    failure: Ints  #: (T, M) place of the cause in `causes`; -1 where none
    cut: Floats  #: (T, N) [1] nan where not selected
    frequency: Floats  #: (T, N) [Hz] of the gateway for this device
    device_energy: Floats  #: (T, N) [J]

    @property
    def tested(self) -> Floats:
        """Accuracy or error, whichever tests of the run measure, (T,); nan where the model was not tested."""
        return self.accuracy if self.run.score is ACCURACY else self.error

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
    number, delay, clock, accuracy, error = columns.of_rounds
    selected, completed, target, download, train, upload, power, energy, bound, divergence, channel, failure = (
        columns.of_floors
    )
    cut, frequency, device_energy = columns.of_devices
    return RunArrays(
        run=run,
        plant=columns.plant,
        causes=tuple(columns.causes),
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
        channel=_places(channel),
        failure=_places(failure),
        cut=cut,
        frequency=frequency,
        device_energy=device_energy,
    )


def _places(values: Floats) -> Ints:
    """Whole numbers, -1 where there is none."""
    return np.where(np.isnan(values), -1.0, values).astype(np.int64)


def _endless(values: Floats) -> Floats:
    """Times of floors, where a log writes null for a time without end."""
    return np.where(np.isnan(values), np.inf, values)
