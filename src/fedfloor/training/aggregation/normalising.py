"""Equal say for floors that did different numbers of iterations (FedNova, Wang et al. 2020)."""

__all__ = ["iteration_scales", "step_weight"]

import numpy as np

from fedfloor.arrays import Floats, Ints


def step_weight(iterations: Ints, momentum: float) -> Floats:
    """How many gradients the change of so many iterations contains, same shape: |a|_1 of the paper.

    Without momentum these are the iterations K. With heavy-ball momentum mu from rest, a gradient counts
    (1 - mu^k) / (1 - mu) times if its step is the k-th from the end: (K - mu (1 - mu^K) / (1 - mu)) / (1 - mu) in all.
    """
    steps = iterations.astype(np.float64)
    return np.asarray((steps - momentum * (1.0 - momentum**steps) / (1.0 - momentum)) / (1.0 - momentum))


def iteration_scales(iterations: Ints, points: Floats, momentum: float) -> Floats:
    """Factors of the floors' changes, (k,): the mean step weight, by points, over the floor's own."""
    weight = step_weight(iterations, momentum)
    return np.asarray(np.sum(points / points.sum() * weight) / weight)
