"""How runs are compared: on the same seeds, over the same number of rounds, with an interval over seeds."""

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

from fedfloor.reports.policies import solver_of, tradeoff_of
from fedfloor.reports.reading import ReadRun, Series
from fedfloor.rounds.summary import summarise

#: How many evaluations convergence is judged by, and the most that a final accuracy is the mean of. A single one moves
#: by up to ten points with the floors that took part last, and round robin with two groups is tested after one group
#: and the other in turn. The table that compares series shows the last evaluation beside the mean.
AVERAGED = 5


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over seeds with its 95 % t-interval; one seed, or a mean that is not finite, has no interval."""

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
        """Whether chance alone is an unlikely cause; never true for one seed."""
        return self.low is not None and self.high is not None and (self.low > 0.0 or self.high < 0.0)


def interval(values: Sequence[float]) -> Interval:
    """Mean and 95 % t-interval of at least one value; for paired differences this is the paired interval."""
    mean = float(np.mean(values))
    if len(values) < 2 or not math.isfinite(mean):
        return Interval(mean, None, None, len(values))
    half = float(stdtrit(len(values) - 1, 0.975) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return Interval(mean, mean - half, mean + half, len(values))


def reference_of(candidates: Sequence[Series]) -> Series:
    """The series that others are compared with: the exact solver and the smallest V, or the first without any V."""
    ranked = [(rank, series) for series in candidates if (rank := _rank(series)) is not None]
    return min(ranked, key=lambda entry: entry[0])[1] if ranked else candidates[0]


def _rank(series: Series) -> tuple[bool, float] | None:
    """Place of a series among the candidates for a reference, lowest first; None for policies without V."""
    policy = series.runs[0].policy
    tradeoff = tradeoff_of(policy)
    return None if tradeoff is None else (solver_of(policy) != "exact", tradeoff)


def matched(*series: Series, whole: bool = False) -> list[tuple[ReadRun, ...]]:
    """The runs of every seed that all series have, cut to the rounds that all of them have unless `whole`."""
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
    """Over how many of the evaluations accuracy is averaged: the last tenth, at most five and at least one.

    More of a short run would show how it was when it had hardly begun.
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
    """First round at which the mean of the last `width` evaluations reaches the level; None if no round does."""
    rounds, values = run.accuracy
    ends = range(width, len(values) + 1)
    return next((rounds[end - 1] for end in ends if float(np.mean(values[end - width : end])) >= level), None)
