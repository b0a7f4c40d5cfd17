"""How often floors take part, how often they should, and why they fail."""

__all__ = ["Divergence", "Failures", "Participation", "Rates", "divergence", "failures", "participation", "rates"]

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.reports.arrays import RunArrays, SeriesArrays
from fedfloor.reports.measures.seeds import floors_of, over_seeds
from fedfloor.theory.participation import participation_rates


@dataclass(frozen=True, slots=True, eq=False)
class Participation:
    """How often floors took part, mean over seeds, each array (M,)."""

    floors: tuple[str, ...]
    target: Floats  #: [1]
    achieved: Floats  #: [1] share of rounds whose model was averaged


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Participation rates from the bound and from what was observed (paper Fig. 2), mean over seeds, each (M,)."""

    floors: tuple[str, ...]
    derived: Floats  #: [1]
    observed: Floats  #: [1]


@dataclass(frozen=True, slots=True, eq=False)
class Divergence:
    """Theorem 1: bound and measurement of every floor in every observed round, each array (P,)."""

    floors: tuple[str, ...]  #: (M,)
    floor: Ints  #: index into floors
    round: Ints  #: from 1
    seed: Ints
    measured: Floats
    bound: Floats

    @property
    def broken(self) -> int:
        """How often a measurement is above its bound."""
        return int(np.sum(self.measured > self.bound))


@dataclass(frozen=True, slots=True, eq=False)
class Failures:
    """Floor-rounds that failed, all runs of a series."""

    counts: Mapping[str, int]  #: by cause
    selected: int  #: floor-rounds that were picked


def participation(series: SeriesArrays) -> Participation:
    """Achieved and wanted participation of every floor."""
    floors = floors_of(series)
    return Participation(
        floors,
        target=over_seeds(series, floors, lambda run: run.target.mean(axis=0)),
        achieved=over_seeds(series, floors, lambda run: run.completed.mean(axis=0)),
    )


def rates(series: SeriesArrays) -> Rates | None:
    """Rates as derived and as they would follow from the observed divergence, Eq. (13) both; None if none was seen."""
    seen = SeriesArrays(series.label, tuple(run for run in series.runs if _observed(run).size))
    if not seen.runs:
        return None
    floors = floors_of(seen)
    return Rates(
        floors,
        derived=over_seeds(seen, floors, lambda run: run.target.mean(axis=0)),
        observed=over_seeds(seen, floors, _observed_rates),
    )


def divergence(series: SeriesArrays) -> Divergence | None:
    """Theorem 1's bound beside what was measured; None if nothing was, or no bound is known."""
    floors = floors_of(series)
    found: list[Floats] = []
    for run in series.runs:
        t, m = np.nonzero(np.isfinite(run.divergence) & np.isfinite(run.bound))
        index = np.array([floors.index(name) for name in run.floors])
        seed = np.full(t.size, run.run.scenario.seed)
        found.append(np.stack([index[m], run.rounds[t], seed, run.divergence[t, m], run.bound[t, m]]))
    floor, rounds, seeds, measured, bound = np.concatenate(found, axis=1)
    if measured.size == 0:
        return None
    return Divergence(floors, floor.astype(int), rounds.astype(int), seeds.astype(int), measured, bound)


def failures(series: SeriesArrays) -> Failures:
    """What went wrong, by cause, most frequent first."""
    counts: Counter[str] = Counter()
    for run in series.runs:
        counts.update(run.run.summary.failures)
    return Failures(dict(counts.most_common()), sum(int(run.selected.sum()) for run in series.runs))


def _observed(run: RunArrays) -> Ints:
    """Rounds, from 0, whose divergence was measured."""
    return np.flatnonzero(np.isfinite(run.divergence).any(axis=1))


def _observed_rates(run: RunArrays) -> Floats:
    """Mean over the observed rounds of Eq. (13) with the observed divergence, (M,)."""
    channels = run.run.scenario.radio.channels
    found = [participation_rates(run.divergence[t], channels) for t in _observed(run)]
    return np.asarray(np.mean(found, axis=0), dtype=float)
