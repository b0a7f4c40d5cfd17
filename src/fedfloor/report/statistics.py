"""What runs are held against: the same seed, the same number of rounds, and an interval over seeds."""

__all__ = [
    "AVERAGED",
    "Interval",
    "averaged",
    "final_accuracy",
    "interval",
    "last_accuracy",
    "matched",
    "reference_of",
    "rounds_to_reach",
]

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit  # scipy.stats takes a second to load

from fedfloor.report.policies import spec_of
from fedfloor.report.reading import ReadRun, Series
from fedfloor.rounds.summary import summarise

#: Evaluations that convergence is judged by, and at most so many of which a final accuracy is the mean. Who took part
#: last moves a single one by up to ten points, and round robin with two groups is tested after one and the other in
#: turn. The table that compares series shows the last evaluation beside it.
AVERAGED = 5


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over seeds with its 95 % t-interval; of one seed, or where nothing is finite, there is none."""

    mean: float
    low: float | None
    high: float | None
    count: int  #: seeds

    @property
    def half_width(self) -> float | None:
        """Half the interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def excludes_zero(self) -> bool:
        """Whether chance alone is an unlikely cause; never of one seed."""
        return self.low is not None and self.high is not None and (self.low > 0.0 or self.high < 0.0)


def interval(values: Sequence[float]) -> Interval:
    """Mean and 95 % t-interval of at least one value; of paired differences it is the paired interval."""
    mean = float(np.mean(values))
    if len(values) < 2 or not math.isfinite(mean):
        return Interval(mean, None, None, len(values))
    half = float(stdtrit(len(values) - 1, 0.975) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return Interval(mean, mean - half, mean + half, len(values))


def reference_of(found: Sequence[Series]) -> Series:
    """The series that others are held against: ddsra with the exact solver and the least V, else the first found."""
    of_ddsra = [(rank, series) for series in found if (rank := _rank(series)) is not None]
    return min(of_ddsra, key=lambda entry: entry[0])[1] if of_ddsra else found[0]


def _rank(series: Series) -> tuple[bool, float] | None:
    """Where a ddsra series stands among those that others could be held against, the least first; None of others."""
    spec = spec_of(series.runs[0].policy)
    if spec is None or spec.name != "ddsra":
        return None
    settings = dict(spec.settings)
    v = settings.get("v")
    return settings.get("solver") != "exact", float(v) if isinstance(v, int | float) else math.inf


def matched(*series: Series, whole: bool = False) -> list[tuple[ReadRun, ...]]:
    """For every seed that all of them have, their runs, cut to the rounds that all of them have unless `whole`."""
    by_seed = [{run.scenario.seed: run for run in part.runs} for part in series]
    shared = [seed for seed in by_seed[0] if all(seed in part for part in by_seed)]
    groups = [tuple(part[seed] for part in by_seed) for seed in shared]
    return groups if whole else [_cut(runs) for runs in groups]


def _cut(runs: Sequence[ReadRun]) -> tuple[ReadRun, ...]:
    least = min(len(run.records) for run in runs)
    return tuple(
        run
        if len(run.records) == least
        else replace(run, records=run.records[:least], summary=summarise(run.records[:least]))
        for run in runs
    )


def averaged(evaluations: int) -> int:
    """Over how many of them accuracy is averaged: the last tenth, at most five and at least one.

    More of a short run would be what it was when it had hardly begun.
    """
    return max(1, min(AVERAGED, evaluations // 10))


def final_accuracy(run: ReadRun) -> float | None:
    """Mean of the last evaluations, as many as `averaged` says; None without training."""
    values = run.accuracy[1]
    return float(np.mean(values[-averaged(len(values)) :])) if values else None


def last_accuracy(run: ReadRun) -> float | None:
    """The last evaluation by itself; None without training."""
    values = run.accuracy[1]
    return values[-1] if values else None


def rounds_to_reach(run: ReadRun, level: float, width: int = AVERAGED) -> int | None:
    """First round whose mean with the evaluations before it, so many in all, reaches the level; None if none does."""
    rounds, values = run.accuracy
    ends = range(width, len(values) + 1)
    return next((rounds[end - 1] for end in ends if float(np.mean(values[end - width : end])) >= level), None)
