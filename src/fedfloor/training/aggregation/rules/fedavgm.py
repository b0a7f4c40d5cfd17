"""Momentum on the base station."""

__all__ = ["FedAvgM"]

from dataclasses import dataclass

from fedfloor.references import check_setting
from fedfloor.training.aggregation.contract import Gathered, Memory, Step, stepped


@dataclass(frozen=True, slots=True)
class FedAvgM:
    """Heavy ball on the mean change: v = momentum v + change, W += learning_rate v (Hsu et al. 2019)."""

    momentum: float = 0.9  #: beta
    learning_rate: float = 1.0  #: eta; in the long run a steady change counts eta / (1 - beta) times

    def __post_init__(self) -> None:
        check_setting("momentum", self.momentum, 0.0, 0.9999)
        check_setting("learning_rate", self.learning_rate, 1e-9, 1e9)

    def step(self, gathered: Gathered, memory: Memory) -> Step:
        """Add the velocity to the weights."""
        velocity = gathered.change
        if "velocity" in memory:
            velocity += self.momentum * memory["velocity"].astype(velocity.dtype)
        return stepped(gathered.weights + self.learning_rate * velocity, velocity=velocity)
