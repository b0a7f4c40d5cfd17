"""Plain averaging."""

__all__ = ["Mean"]

from dataclasses import dataclass

from fedfloor.training.aggregation.contract import Gathered, Memory, Step


@dataclass(frozen=True, slots=True)
class Mean:
    """Averages the floors' models by their numbers of points (default; McMahan et al. 2017)."""

    def step(self, gathered: Gathered, memory: Memory) -> Step:
        """Take the mean."""
        return Step(gathered.mean, memory)
