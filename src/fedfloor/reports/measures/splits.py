"""How a floor's round divides into parts, mean over the rounds in which the floor was selected."""

__all__ = ["Split", "split_of", "without"]

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.reports.arrays import RunArrays, SeriesArrays
from fedfloor.reports.measures.seeds import floors_of


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Parts of a floor's round, mean over the rounds in which it was selected; nan for floors that never were."""

    floors: tuple[str, ...]
    parts: tuple[str, ...]  #: (K,) names
    values: Floats  #: (K, M) [s] or [J]
    selected: Ints  #: (M,) floor-rounds behind the mean


def split_of(series: SeriesArrays, parts: tuple[str, ...], measure: Callable[[RunArrays], Floats]) -> Split:
    """Mean of a measure (K, T, M) of the parts of every floor's rounds."""
    floors = floors_of(series)
    place = {name: index for index, name in enumerate(floors)}
    total, selected = np.zeros((len(parts), len(floors))), np.zeros(len(floors), dtype=np.int64)
    for run in series.runs:
        at = [place[name] for name in run.floors]
        total[:, at] += np.where(run.selected, measure(run), 0.0).sum(axis=1)
        selected[at] += run.selected.sum(axis=0)
    mean = np.divide(total, selected, out=np.full(total.shape, np.nan), where=selected > 0)
    return Split(floors, parts, mean, selected)


def without(split: Split, part: str) -> Split:
    """The split without one of its parts."""
    kept = [index for index, name in enumerate(split.parts) if name != part]
    return replace(split, parts=tuple(split.parts[index] for index in kept), values=split.values[kept])
