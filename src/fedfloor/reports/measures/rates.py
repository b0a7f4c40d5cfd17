"""Participation rates derived from the bound and from the observed divergence, for a figure and for a claim."""

__all__ = ["Rates", "rates"]

from dataclasses import dataclass

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.reports.arrays import RunArrays, SeriesArrays
from fedfloor.reports.measures.seeds import floors_of, mean_per_floor
from fedfloor.theory.participation import participation_rates


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Participation rates, mean over seeds, each array (M,)."""

    floors: tuple[str, ...]
    derived: Floats  #: [1] from the bound
    observed: Floats  #: [1] from the divergence that was measured


def rates(series: SeriesArrays) -> Rates | None:
    """Derived rates and those that the observed divergence gives, both by Eq. (13); None without observation."""
    observing = SeriesArrays(series.label, tuple(run for run in series.runs if _observed_rounds(run).size))
    if not observing.runs:
        return None
    floors = floors_of(observing)
    return Rates(
        floors,
        derived=mean_per_floor(observing, floors, lambda run: run.target.mean(axis=0)),
        observed=mean_per_floor(observing, floors, _rates_of_run),
    )


def _observed_rounds(run: RunArrays) -> Ints:
    """Indices of the rounds whose divergence was measured."""
    return np.flatnonzero(np.isfinite(run.divergence).any(axis=1))


def _rates_of_run(run: RunArrays) -> Floats:
    """Mean over the observed rounds of Eq. (13) with the observed divergence, (M,)."""
    channels = run.run.scenario.radio.channels
    by_round = [participation_rates(run.divergence[t], channels) for t in _observed_rounds(run)]
    return np.asarray(np.mean(by_round, axis=0), dtype=float)
