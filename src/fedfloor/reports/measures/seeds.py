"""Figures of several runs, put together: floors are matched by name, what is unknown is left out."""

__all__ = ["floors_of", "mean_known", "over_seeds"]

from collections.abc import Callable, Sequence

import numpy as np

from fedfloor.arrays import Bools, Floats
from fedfloor.reports.arrays import RunArrays, SeriesArrays


def mean_known(values: Floats, known: Bools) -> Floats:
    """Mean over the first axis of what is known, nan where nothing is."""
    count = known.sum(axis=0)
    total: Floats = np.where(known, values, 0.0).sum(axis=0)
    return np.asarray(np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0), dtype=float)


def floors_of(series: SeriesArrays) -> tuple[str, ...]:
    """Floors of all seeds, in the order they are met."""
    return tuple(dict.fromkeys(name for run in series.runs for name in run.floors))


def over_seeds(series: SeriesArrays, floors: Sequence[str], of_run: Callable[[RunArrays], Floats]) -> Floats:
    """Mean over runs of a figure (..., M) per floor; floors are matched by name."""
    place = {name: index for index, name in enumerate(floors)}
    rows = []
    for run in series.runs:
        value = of_run(run)
        row = np.full((*value.shape[:-1], len(floors)), np.nan)
        row[..., [place[name] for name in run.floors]] = value
        rows.append(row)
    values = np.stack(rows)
    return mean_known(values, ~np.isnan(values))
