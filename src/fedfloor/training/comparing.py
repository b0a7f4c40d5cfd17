"""How a device's gradient compares with the gradient on all data: what Theorem 1 asks for beside `Work.estimate`."""

__all__ = ["GradientComparison", "change_per_length", "compare"]

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Vector
from fedfloor.training.network.weights import distance, step_along
from fedfloor.training.work import Work


@dataclass(frozen=True, slots=True)
class GradientComparison:
    """A device's gradient beside the mean over all data."""

    delta: float  #: distance of the two
    smoothness: float  #: change of the device's gradient over a step along the mean, per length of the step


def change_per_length(there: Vector, here: Vector, length: float) -> float:
    """Change of a gradient (P,) over a step, per length of the step; 0 for a step of no length."""
    return distance(there, here) / length if length > 0.0 else 0.0


def compare(
    work: Work, n: int, limit: int, weights: Vector, gradient: Vector, mean: npt.NDArray[np.floating]
) -> GradientComparison:
    """Compare the gradient (P,) of device n at these weights with the mean of all.

    The smoothness of a device's loss is measured along the mean gradient of all devices too. A device's own step alone
    does not do: one that holds a single class has solved it after that step, and a vanished gradient looks smooth.
    """
    probe, there = step_along(weights, mean, work.job.learning_rate), np.empty_like(gradient)
    work.gradient(n, limit, probe, there)
    return GradientComparison(distance(gradient, mean), change_per_length(there, gradient, distance(probe, weights)))
