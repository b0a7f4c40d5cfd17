"""Power of choice (Cho, Wang and Joshi, AISTATS 2022), its variant rpow-d, which knows only last losses."""

__all__ = ["PowerOfChoice"]

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedfloor.costs.compute import floor_sum
from fedfloor.references import check_setting
from fedfloor.scheduling.allocating import Selecting
from fedfloor.scheduling.ranking import by_loss
from fedfloor.scheduling.state import Decision, RoundState
from fedfloor.streams import PolicyStream, policy_stream


@dataclass(frozen=True, slots=True)
class PowerOfChoice(Selecting):
    """Draws floors by the size of their data, and serves those with the highest last loss (rpow-d)."""

    needs_training: ClassVar[bool] = True
    needs_history: ClassVar[bool] = True

    d: int = 0  #: candidates; 0: twice the channels, but not all floors

    def __post_init__(self) -> None:
        Selecting.__post_init__(self)
        check_setting("d", self.d, 0, 1_000_000, whole=True)

    def schedule(self, state: RoundState) -> Decision:
        """Draw candidates without replacement, then take those with the highest loss, new ones first."""
        floors, channels = state.floors, state.channels
        data = floor_sum(state.plant.devices.batch, state.plant.devices.floor, floors)
        rng = policy_stream(state.seed, state.index, PolicyStream.POWER_OF_CHOICE)
        candidates = self.d or min(2 * channels, floors - 1)
        drawn = rng.choice(floors, size=min(max(candidates, channels), floors), replace=False, p=data / data.sum())
        order = by_loss(state, lowest_first=False)
        return self.served(state, np.sort(order[np.isin(order, drawn)][:channels]))
