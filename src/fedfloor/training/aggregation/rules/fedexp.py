"""Extrapolation: a longer step where the floors pull in different directions."""

__all__ = ["FedExP"]

from dataclasses import dataclass

import numpy as np

from fedfloor.references import check_setting
from fedfloor.training.aggregation.contract import Gathered, Memory, Step, stepped


@dataclass(frozen=True, slots=True)
class FedExP:
    """Step size max(1, sum of shares |change_m|^2 / (2 (|mean|^2 + epsilon))) (Jhunjhunwala et al. 2023)."""

    epsilon: float = 1e-3  #: bounds the step where changes cancel out

    def __post_init__(self) -> None:
        check_setting("epsilon", self.epsilon, 0.0, 1e9)

    def step(self, gathered: Gathered, memory: Memory) -> Step:  # noqa: ARG002  # it keeps nothing
        """Extrapolate the mean change."""
        change = gathered.change
        lengths = [
            update.share * float(np.square(update.change, dtype=np.float64).sum()) for update in gathered.updates()
        ]
        mean = float(np.square(change).sum()) + self.epsilon
        rate = max(1.0, sum(lengths) / (2.0 * mean)) if mean > 0.0 else 1.0
        return stepped(gathered.weights + rate * change)
