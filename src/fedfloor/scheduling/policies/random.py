"""Baseline: floors drawn at random."""

__all__ = ["RandomScheduler"]

from dataclasses import dataclass

import numpy as np

from fedfloor.scheduling.allocating import Selecting
from fedfloor.scheduling.state import Decision, RoundState


@dataclass(frozen=True, slots=True)
class RandomScheduler(Selecting):
    """One floor per channel, drawn uniformly in every round (paper, Sec. VII-A)."""

    def schedule(self, state: RoundState) -> Decision:
        """Draw the floors of this round."""
        rng = np.random.default_rng([state.seed, state.index])  # a new draw in every round, the same one on replay
        return self.served(state, rng.choice(state.floors, size=min(state.floors, state.channels), replace=False))
