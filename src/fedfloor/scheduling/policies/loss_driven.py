"""Baseline: floors by their last training loss."""

__all__ = ["LossDriven"]

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedfloor.scheduling.allocating import Selecting
from fedfloor.scheduling.ranking import by_loss
from fedfloor.scheduling.state import Decision, RoundState


@dataclass(frozen=True, slots=True)
class LossDriven(Selecting):
    """One floor per channel, those with the lowest last training loss, new ones first (paper, Sec. VII-A)."""

    needs_training: ClassVar[bool] = True
    needs_history: ClassVar[bool] = True

    def schedule(self, state: RoundState) -> Decision:
        """Pick floors that have no loss yet, then those with the lowest loss, then those that failed when tried."""
        # Paper note: the paper does not say which way the loss drives; Fig. 6 shuts out floors whose loss stays high.
        order = by_loss(state, lowest_first=True)
        return self.served(state, np.sort(order[: state.channels]))
