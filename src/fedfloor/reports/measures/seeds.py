"""Means over the runs of a series: floors are matched by name, unknown values are left out."""

__all__ = ["floors_of", "mean_over_runs", "mean_per_floor"]

from collections.abc import Callable, Sequence

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.reports.arrays import RunArrays, SeriesArrays


def mean_over_runs(values: Floats) -> Floats:
    """Mean over the first axis without nan; nan where all values are."""
    is_number = ~np.isnan(values)
    count = is_number.sum(axis=0)
    total: Floats = np.where(is_number, values, 0.0).sum(axis=0)
    return np.asarray(np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0), dtype=float)


def floors_of(series: SeriesArrays) -> tuple[str, ...]:
    """Names of the floors of all runs, in the order of their first appearance."""
    return tuple(dict.fromkeys(name for run in series.runs for name in run.floors))


def mean_per_floor(series: SeriesArrays, floors: Sequence[str], measure: Callable[[RunArrays], Floats]) -> Floats:
    """Mean over runs of a measure (..., M) of every floor."""
    place = {name: index for index, name in enumerate(floors)}
    rows = []
    for run in series.runs:
        values = measure(run)
        row = np.full((*values.shape[:-1], len(floors)), np.nan)
        row[..., [place[name] for name in run.floors]] = values
        rows.append(row)
    return mean_over_runs(np.stack(rows))
