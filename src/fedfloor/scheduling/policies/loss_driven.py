"""Baseline: floors by their last training loss."""

__all__ = ["LossDriven"]

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedfloor.scheduling.fixed import on_best_channels
from fedfloor.scheduling.state import Decision, RoundState


@dataclass(frozen=True, slots=True)
class LossDriven:
    """J floors with the lowest last training loss, new ones first; fixed allocation (Sec. VII-A)."""

    needs_training: ClassVar[bool] = True

    def schedule(self, state: RoundState) -> Decision:
        """Pick floors that have no loss yet, then those with the lowest loss."""
        # Paper note: the paper does not say which way the loss drives; Fig. 6 shuts out floors whose loss stays high.
        order = np.argsort(np.nan_to_num(state.last_loss, nan=-np.inf), kind="stable")
        return on_best_channels(state, np.sort(order[: min(state.gain_up.shape)]))
