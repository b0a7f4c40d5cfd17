"""How runs are compared: on the same seeds, over the same number of rounds, with an interval over seeds."""

__all__ = [
    "FEWEST_SEEDS",
    "Interval",
    "Judged",
    "final_score",
    "final_tests",
    "first_reaching",
    "interval",
    "last_score",
    "matched",
    "percent_more",
    "reference_of",
    "rounds_to_reach",
    "score_gain",
    "smoothed",
    "steadiness",
    "window_of",
]

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import stdtrit  # scipy.stats takes a second to load

from fedfloor.arrays import Floats, Ints
from fedfloor.reports.policies import solver_of, tradeoff_of
from fedfloor.reports.reading import ReadRun, Series
from fedfloor.reports.scores import score_of
from fedfloor.reports.sorting import natural_key
from fedfloor.rounds.summary import RunSummary, final_rounds
from fedfloor.scenario import Scenario

#: Seeds that an interval needs at least. With fewer, the factor of the t-distribution is so large (12.7 for two, 4.3
#: for three) that an interval says little, and every seed's value is shown instead.
FEWEST_SEEDS = 4


def percent_more(value: float, reference: float) -> float:
    """By how many percent a value exceeds a reference; negative if it is smaller.

    Returns nan if either of them is endless or unknown, or if the reference is 0.
    """
    if not (math.isfinite(value) and 0.0 < reference < math.inf):
        return math.nan
    return 100.0 * (value / reference - 1.0)


class Judged(Protocol):
    """What measures need to know of a run, whether it is read from its folder or from a line of a study."""

    @property
    def scenario(self) -> Scenario:
        """What ran."""

    @property
    def policy(self) -> str:
        """Who decided, with settings."""

    @property
    def summary(self) -> RunSummary:
        """The run in a few numbers."""

    @property
    def tests(self) -> tuple[list[int], list[float]]:
        """After how many rounds the model was tested, and what each test gave; see `score_of`."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over seeds with its 95 % t-interval; fewer than four seeds, or a mean that is not finite, have none."""

    mean: float
    low: float | None
    high: float | None
    values: tuple[float, ...]  #: of every seed

    @property
    def count(self) -> int:
        """Number of seeds."""
        return len(self.values)

    @property
    def half_width(self) -> float | None:
        """Half the interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def excludes_zero(self) -> bool:
        """Whether chance alone is an unlikely cause; never true without an interval."""
        return self.low is not None and self.high is not None and (self.low > 0.0 or self.high < 0.0)


def interval(values: Sequence[float]) -> Interval:
    """Mean and 95 % t-interval of at least one value; for paired differences this is the paired interval."""
    mean = float(np.mean(values))
    if len(values) < FEWEST_SEEDS or not math.isfinite(mean):
        return Interval(mean, None, None, tuple(values))
    half = float(stdtrit(len(values) - 1, 0.975) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return Interval(mean, mean - half, mean + half, tuple(values))


def reference_of(candidates: Sequence[Series]) -> Series:
    """The series that others are compared with: the exact solver and the smallest V, or the first without any V.

    Of several variants of that policy it is the one with the usual settings.
    """
    ranked = [(rank, series) for series in candidates if (rank := _rank(series)) is not None]
    return min(ranked, key=lambda entry: entry[0])[1] if ranked else candidates[0]


def _rank(series: Series) -> tuple[bool, float, bool, Sequence[object]] | None:
    """Place of a series among the candidates for a reference, lowest first; None for policies without V."""
    policy = series.runs[0].policy
    tradeoff = tradeoff_of(policy)
    if tradeoff is None:
        return None
    return solver_of(policy) != "exact", tradeoff, bool(series.runs[0].variant), natural_key(series.label)


def matched(*series: Series, whole: bool = False) -> list[tuple[ReadRun, ...]]:
    """The runs of every seed that all series have, cut to the rounds that all of them have unless `whole`."""
    by_seed = [{run.scenario.seed: run for run in part.runs} for part in series]
    shared = [seed for seed in by_seed[0] if all(seed in part for part in by_seed)]
    groups = [tuple(part[seed] for part in by_seed) for seed in shared]
    if whole:
        return groups
    return [tuple(run.first(min(len(part.records) for part in runs)) for run in runs) for runs in groups]


def window_of(*runs: Judged) -> int:
    """Number of rounds over which the tests of runs are smoothed: as many as make the final score of the shortest."""
    return final_rounds(min((run.summary.rounds for run in runs), default=0))


def smoothed(rounds: Floats | Ints, values: Floats, window: int) -> Floats:
    """Mean of the tests of the last `window` rounds, at every test: rounds and values (k,) -> (k,)."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    end = np.arange(1, values.size + 1)
    begin = np.searchsorted(rounds, np.asarray(rounds) - window, side="right")
    return np.asarray((total[end] - total[begin]) / (end - begin), dtype=float)


def final_tests(run: Judged) -> tuple[Ints, Floats]:
    """Rounds and values (k,) of the tests whose mean is the final score: those of the last rounds with a test."""
    rounds, values = np.array(run.tests[0], dtype=int), np.array(run.tests[1], dtype=float)
    last = rounds > (rounds[-1] if rounds.size else 0) - window_of(run)
    return rounds[last], values[last]


def final_score(run: Judged) -> float | None:
    """Final accuracy or error: the mean of the final tests; None without training."""
    _, values = final_tests(run)
    return float(values.mean()) if values.size else None


def steadiness(run: Judged) -> float | None:
    """Standard deviation of the final tests from the straight line through them; None for fewer than three.

    A model that still learns is not unsteady: only what is beside its course counts.
    """
    rounds, values = final_tests(run)
    if values.size < 3:
        return None
    apart = values - np.polynomial.Polynomial.fit(rounds, values, 1)(rounds)
    return math.sqrt(float(apart @ apart) / (values.size - 2))


def last_score(run: Judged) -> float | None:
    """The last evaluation by itself; None without training."""
    values = run.tests[1]
    return values[-1] if values else None


def score_gain(ours: Judged, reference: Judged, of: Callable[[Judged], float | None] = final_score) -> float | None:
    """By how much the score of a run exceeds that of another: points of accuracy, or percent of the other's error.

    None if one of them was not tested, or if they do not measure the same.
    """
    score, first, second = score_of(ours.scenario), of(ours), of(reference)
    if first is None or second is None or score is not score_of(reference.scenario):
        return None
    return 100.0 * (first - second) if score.is_share else percent_more(first, second)


def rounds_to_reach(run: Judged, level: float) -> int | None:
    """First round with a whole window of rounds behind it whose smoothed score is no worse than the level, or None."""
    rounds, values = np.array(run.tests[0], dtype=int), np.array(run.tests[1])
    sign = score_of(run.scenario).sign
    reached = first_reaching(rounds, sign * values, window_of(run), sign * level)
    return None if reached is None else int(rounds[reached])


def first_reaching(rounds: Ints, values: Floats, window: int, level: float) -> int | None:
    """Place among the tests, rounds and values (k,), of the first one whose smoothed value reaches the level, or None.

    It has a whole window of rounds behind it, or all of a run that is shorter.
    """
    whole = rounds >= min(window, rounds[-1] if rounds.size else 0)
    reached = np.flatnonzero((smoothed(rounds, values, window) >= level) & whole)
    return int(reached[0]) if reached.size else None
