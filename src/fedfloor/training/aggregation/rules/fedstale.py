"""Between plain averaging and FedVARP."""

__all__ = ["FedStale"]

from dataclasses import dataclass

from fedfloor.references import check_setting
from fedfloor.training.aggregation.absent import with_absent_floors
from fedfloor.training.aggregation.contract import Gathered, Memory, Step


@dataclass(frozen=True, slots=True)
class FedStale:
    """Last changes of absent floors with the weight `stale` (Rodio & Neglia 2024); keeps a model per floor."""

    stale: float = 0.5  #: weight of the last changes: 0 is plain averaging, 1 is FedVARP

    def __post_init__(self) -> None:
        check_setting("stale", self.stale, 0.0, 1.0)

    def step(self, gathered: Gathered, memory: Memory) -> Step:
        """Replace the last changes of the floors that took part."""
        return with_absent_floors(gathered, memory, float(self.stale))
