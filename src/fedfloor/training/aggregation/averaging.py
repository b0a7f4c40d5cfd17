"""The averaged model: an exponential mean of the global weights, which is tested, served and exported."""

__all__ = ["AveragedModel"]

from dataclasses import dataclass, field

import numpy as np

from fedfloor.arrays import Vector


@dataclass(slots=True, eq=False)
class AveragedModel:
    """Mean of the weights after every round, the last with weight 1, the one before it with d, then d^2 and so on.

    The first weights, which are random, are not part of it. A mean that starts at them keeps the share d^t of noise.
    """

    decay: float  #: d
    weights: Vector | None = field(init=False, default=None)  #: (P,) None before the first round
    rounds: int = field(init=False, default=0)  #: number of weights in the mean

    def add(self, weights: Vector) -> None:
        """Take the weights (P,) of a round into the mean."""
        self.rounds += 1
        if self.weights is None:
            self.weights = weights
            return
        share = (1.0 - self.decay) / (1.0 - self.decay**self.rounds)
        mean = self.weights.astype(np.float64)
        mean += share * (weights - mean)
        self.weights = mean.astype(np.float32)
