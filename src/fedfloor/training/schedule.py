"""The learning rate of a round."""

__all__ = ["RateSchedule"]

import math
from dataclasses import dataclass
from typing import Self

from fedfloor.scenario.file import Training


@dataclass(frozen=True, slots=True)
class RateSchedule:
    """The learning rate as a function of the number of the round, and of nothing else."""

    first: float  #: beta, of round 0
    kind: str = "constant"  #: or `cosine`, `step`
    rounds: int = 1  #: until the cosine is lowest, or between two steps
    factor: float = 1.0  #: of the lowest rate of the cosine, or of every step

    @classmethod
    def of(cls, training: Training) -> Self:
        """The schedule of a scenario."""
        return cls(training.learning_rate, training.schedule, training.schedule_rounds, training.schedule_factor)

    def rate(self, index: int) -> float:
        """beta(t): constant; beta (c + (1 - c) (1 + cos(pi min(t/R, 1))) / 2); or beta c^floor(t/R)."""
        if self.kind == "cosine":
            wave = (1.0 + math.cos(math.pi * min(index / self.rounds, 1.0))) / 2.0
            return self.first * (self.factor + (1.0 - self.factor) * wave)
        return self.first if self.kind == "constant" else self.first * self.factor ** (index // self.rounds)
