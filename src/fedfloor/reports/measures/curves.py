"""Lines over rounds or time: the mean of the seeds, with a band from the least to the greatest."""

__all__ = ["Curve", "band"]

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.reports.measures.seeds import mean_over_runs


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A line with its band over seeds, each array (X,)."""

    x: Floats
    mean: Floats
    low: Floats  #: least over the runs
    high: Floats  #: greatest over the runs
    runs: Ints  #: number of runs that reached this point

    def divided(self, *, x: float = 1.0, y: float = 1.0) -> Self:
        """The same curve in larger units."""
        return replace(self, x=self.x / x, mean=self.mean / y, low=self.low / y, high=self.high / y)


def band(x: Floats, values: Floats) -> Curve:
    """Mean, least and greatest of the values of several runs, (R, X); nan is left out."""
    is_number = ~np.isnan(values)
    low = np.where(is_number, values, np.inf).min(axis=0)
    high = np.where(is_number, values, -np.inf).max(axis=0)
    return Curve(x, mean_over_runs(values), low, high, is_number.sum(axis=0))
