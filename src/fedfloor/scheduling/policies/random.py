"""Baseline: floors drawn at random."""

__all__ = ["RandomScheduler"]

from dataclasses import dataclass

from fedfloor.scheduling.allocating import Selecting
from fedfloor.scheduling.state import Decision, RoundState
from fedfloor.streams import policy_stream


@dataclass(frozen=True, slots=True)
class RandomScheduler(Selecting):
    """One floor per channel, drawn uniformly in every round (paper, Sec. VII-A)."""

    def schedule(self, state: RoundState) -> Decision:
        """Draw the floors of this round."""
        rng = policy_stream(state.seed, state.index)
        return self.served(state, rng.choice(state.floors, size=min(state.floors, state.channels), replace=False))
