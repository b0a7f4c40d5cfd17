"""Baseline: floors in turn."""

__all__ = ["RoundRobinScheduler"]

from dataclasses import dataclass

import numpy as np

from fedfloor.scheduling.allocating import Selecting
from fedfloor.scheduling.state import Decision, RoundState


@dataclass(frozen=True, slots=True)
class RoundRobinScheduler(Selecting):
    """Groups of one floor per channel, one group after the other (paper, Sec. VII-A)."""

    def schedule(self, state: RoundState) -> Decision:
        """Pick the group whose turn it is."""
        floors, channels = state.floors, state.channels
        # Paper note: the paper prints ceil(J/M) groups, which is 1; ceil(M/J) groups is what fills the channels.
        group = state.index % -(-floors // channels)
        return self.served(state, np.arange(group * channels, min((group + 1) * channels, floors)))
