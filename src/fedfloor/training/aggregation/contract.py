"""Input and output of an aggregation rule: `Gathered` and `Memory` -> `Step`."""

__all__ = ["Gathered", "Memory", "Rule", "Step", "Update", "stepped"]

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedfloor.arrays import Floats, Vector

#: what a rule keeps between rounds, by name; empty before the first one, and part of every checkpoint
Memory = Mapping[str, Vector]


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """What one floor changed."""

    floor: int  #: m
    share: float  #: [1] its weight in the mean
    change: Vector  #: (P,) Delta_m, its weights after training minus those that it downloaded


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """What the base station has after a round that at least one floor completed.

    Vectors hold the P weights that training learns. Statistics of batch norm are averaged without the rule.
    """

    weights: Vector  #: (P,) W^t
    mean: Vector  #: (P,) W^t plus every floor's change times its share: the next weights of plain averaging
    points: Floats  #: (M,) [1] D_m / sum of all D_m, of every floor of the plant
    updates: Callable[[], Iterator[Update]]  #: one after the other, in the order of the floors

    @property
    def change(self) -> Floats:
        """Mean change of the floors, (P,), in float64."""
        return self.mean.astype(np.float64) - self.weights


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What a rule makes of a round."""

    weights: Vector  #: (P,) W^{t+1}
    memory: Memory  #: for the next round


class Rule(Protocol):
    """An aggregation rule: a small class with one pure method."""

    def step(self, gathered: Gathered, memory: Memory) -> Step:
        """Make the next weights. Reads its arguments, changes nothing: same arguments, same step."""


def stepped(weights: Floats, **memory: Floats) -> Step:
    """The step to these weights (P,), both weights and memory rounded to float32."""
    with np.errstate(over="ignore"):  # the run ends with a message if a weight is not finite
        kept = {name: values.astype(np.float32) for name, values in memory.items()}
        return Step(weights.astype(np.float32), kept)
