"""How accuracy and time go on over rounds."""

__all__ = ["Curve", "accuracy_over_rounds", "accuracy_over_time", "delay_over_rounds"]

import math
from dataclasses import dataclass

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.reports.arrays import RunArrays, SeriesArrays
from fedfloor.reports.measures.seeds import mean_known
from fedfloor.reports.statistics import averaged


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A line with its band over seeds, each array (X,)."""

    x: Floats
    mean: Floats
    low: Floats  #: least over the runs
    high: Floats  #: greatest over the runs
    runs: Ints  #: how many runs got this far


def accuracy_over_rounds(series: SeriesArrays) -> Curve | None:
    """Test accuracy against rounds; None without training."""
    points = [_tested(run, run.rounds.astype(float)) for run in series.runs]
    grid = np.unique(np.concatenate([x for x, _ in points]))
    if grid.size == 0:
        return None
    values = np.full((len(points), grid.size), np.nan)
    for row, (x, y) in zip(values, points, strict=True):
        row[np.searchsorted(grid, x)] = y
    return _band(grid, values)


def accuracy_over_time(series: SeriesArrays, points: int = 400) -> Curve | None:
    """Test accuracy against simulated time [s]; None if nothing was tested while all runs were going.

    Every run keeps its last tested value. The curve begins with the last run to be tested and ends with the first to
    end, so that it is about the same runs throughout; a run that is still going counts as far as it has come.
    """
    runs = [run for run in series.runs if _tested(run, run.clock)[0].size]
    if not runs:
        return None
    tested = [_tested(run, run.clock) for run in runs]
    ends = [float(run.clock[-1]) for run in runs]
    common = min((end for run, end in zip(runs, ends, strict=True) if run.run.ended), default=math.inf)
    grid = np.unique(np.concatenate([*(x for x, _ in tested), [end for end in ends if end < math.inf]]))
    grid = grid[(grid >= max(x[0] for x, _ in tested)) & (grid <= common)]
    if grid.size == 0:
        return None
    if grid.size > points:
        grid = np.linspace(grid[0], grid[-1], points)
    values = np.full((len(tested), grid.size), np.nan)
    for row, (x, y), end in zip(values, tested, ends, strict=True):
        known = grid <= end
        row[known] = y[np.searchsorted(x, grid[known], side="right") - 1]
    return _band(grid, values)


def delay_over_rounds(series: SeriesArrays) -> Curve:
    """Simulated time [s] that rounds have taken together."""
    longest = max((run.rounds for run in series.runs), key=len)
    values = np.full((len(series.runs), longest.size), np.nan)
    for row, run in zip(values, series.runs, strict=True):
        row[: run.clock.size] = run.clock
    return _band(longest.astype(float), values)


def _tested(run: RunArrays, x: Floats) -> tuple[Floats, Floats]:
    """Where a run was tested, and the mean of that evaluation and those before it, as a final accuracy is one."""
    known = np.isfinite(run.accuracy) & np.isfinite(x)
    values = run.accuracy[known]
    total = np.concatenate([[0.0], np.cumsum(values)])
    end = np.arange(1, values.size + 1)
    begin = np.maximum(0, end - averaged(values.size))
    return x[known], (total[end] - total[begin]) / (end - begin)


def _band(x: Floats, values: Floats) -> Curve:
    """Mean, least and greatest over runs (R, X)."""
    known = ~np.isnan(values)
    low = np.where(known, values, np.inf).min(axis=0)
    high = np.where(known, values, -np.inf).max(axis=0)
    return Curve(x, mean_known(values, known), low, high, known.sum(axis=0))
