"""Adaptive step sizes on the base station."""

__all__ = ["FedYogi"]

from dataclasses import dataclass

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.references import check_choice, check_setting
from fedfloor.training.aggregation.contract import Gathered, Memory, Step, stepped

_SECOND_MOMENTS = ("yogi", "adam", "adagrad")


@dataclass(frozen=True, slots=True)
class FedYogi:
    """Own step size per weight: W += learning_rate m / (sqrt(v) + tau), m and v moments (Reddi et al. 2021)."""

    learning_rate: float = 0.01  #: eta
    beta1: float = 0.9  #: of the first moment
    beta2: float = 0.99  #: of the second moment
    tau: float = 1e-3  #: adaptivity; the second moment starts at its square
    second_moment: str = "yogi"  #: or `adam` (FedAdam), `adagrad` (FedAdagrad)

    def __post_init__(self) -> None:
        check_setting("learning_rate", self.learning_rate, 1e-9, 1e9)
        check_setting("beta1", self.beta1, 0.0, 0.9999)
        check_setting("beta2", self.beta2, 0.0, 0.9999)
        check_setting("tau", self.tau, 1e-12, 1e3)
        check_choice("second_moment", self.second_moment, _SECOND_MOMENTS)

    def step(self, gathered: Gathered, memory: Memory) -> Step:
        """Step by the moments (Algorithm 2 of the paper)."""
        change, square = gathered.change, np.full(gathered.weights.size, self.tau**2)
        first = (1.0 - self.beta1) * change
        if memory:
            first += self.beta1 * memory["first"].astype(np.float64)
            square = memory["second"].astype(np.float64)
        second = self._second(square, np.square(change))
        weights = gathered.weights + self.learning_rate * first / (np.sqrt(second) + self.tau)
        return stepped(weights, first=first, second=second)

    def _second(self, before: Floats, square: Floats) -> Floats:
        """The next second moment (P,) from the one before and the squared change."""
        if self.second_moment == "adagrad":
            return before + square
        if self.second_moment == "adam":
            return self.beta2 * before + (1.0 - self.beta2) * square
        return before - (1.0 - self.beta2) * square * np.sign(before - square)
