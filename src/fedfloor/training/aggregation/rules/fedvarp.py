"""Variance reduction for partial participation."""

__all__ = ["FedVarp"]

from dataclasses import dataclass

from fedfloor.training.aggregation.absent import with_absent_floors
from fedfloor.training.aggregation.contract import Gathered, Memory, Step


@dataclass(frozen=True, slots=True)
class FedVarp:
    """The last change of an absent floor stands in for it (Jhunjhunwala et al. 2022); keeps a model per floor."""

    def step(self, gathered: Gathered, memory: Memory) -> Step:
        """Replace the last changes of the floors that took part."""
        return with_absent_floors(gathered, memory, 1.0)
