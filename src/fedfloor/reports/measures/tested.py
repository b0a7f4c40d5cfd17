"""What tests of runs gave, accuracy or error, as the figures against rounds and against time show it."""

__all__ = ["NOT_TESTED", "NOT_TESTED_YET", "evaluations", "over_rounds", "over_time"]

import math

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.reports.arrays import RunArrays, SeriesArrays
from fedfloor.reports.measures.curves import Curve, band
from fedfloor.reports.statistics import smoothed, window_of

#: in place of a figure of accuracy
NOT_TESTED = (
    "These logs contain no tested model: use `fedfloor run` instead of `fedfloor simulate`, or wait until "
    "`training.evaluate_every` rounds have passed."
)
#: the same for runs on real machines
NOT_TESTED_YET = (
    "No model was tested yet: that happens after every `training.evaluate_every` rounds, if the base station has the "
    "test set of the scenario's data (`fedfloor data fetch`)."
)


def evaluations(run: RunArrays, x: Floats, window: int) -> tuple[Floats, Floats]:
    """Where on x (T,) a run was tested, and its values there, each the mean of the last `window` rounds."""
    values = run.tested
    is_tested = np.isfinite(values) & np.isfinite(x)
    return x[is_tested], smoothed(run.rounds[is_tested], values[is_tested], window)


def over_rounds(series: SeriesArrays, window: int | None = None) -> Curve | None:
    """What tests gave over rounds, smoothed over a window of them; None if no model was tested.

    By default the window is that of the shortest run.
    """
    window = window or _window_of(series)
    points = [evaluations(run, run.rounds.astype(float), window) for run in series.runs]
    grid = np.unique(np.concatenate([x for x, _ in points]))
    if grid.size == 0:
        return None
    values = np.full((len(points), grid.size), np.nan)
    for row, (x, y) in zip(values, points, strict=True):
        row[np.searchsorted(grid, x)] = y
    return band(grid, values)


def over_time(series: SeriesArrays, window: int | None = None, limit: int = 400) -> Curve | None:
    """What tests gave over the time of rounds [s], at most `limit` points; None if tested runs never overlap in time.

    Tests are smoothed over a window of rounds, by default that of the shortest run, and every run keeps its last value.
    The curve begins when the last run is first tested and ends when the first run ends, so that all its points are
    about the same runs. A run that is still running counts up to its last round.
    """
    window = window or _window_of(series)
    tested = [(run, evaluations(run, run.clock, window)) for run in series.runs]
    runs, points = [run for run, part in tested if part[0].size], [part for _, part in tested if part[0].size]
    if not runs:
        return None
    ends = [float(run.clock[-1]) for run in runs]
    first_end = min((end for run, end in zip(runs, ends, strict=True) if run.run.ended), default=math.inf)
    grid = np.unique(np.concatenate([*(x for x, _ in points), [end for end in ends if end < math.inf]]))
    grid = grid[(grid >= max(x[0] for x, _ in points)) & (grid <= first_end)]
    if grid.size == 0:
        return None
    if grid.size > limit:
        grid = np.linspace(grid[0], grid[-1], limit)
    values = np.full((len(points), grid.size), np.nan)
    for row, (x, y), end in zip(values, points, ends, strict=True):
        is_reached = grid <= end
        row[is_reached] = y[np.searchsorted(x, grid[is_reached], side="right") - 1]
    return band(grid, values)


def _window_of(series: SeriesArrays) -> int:
    return window_of(*(run.run for run in series.runs))
