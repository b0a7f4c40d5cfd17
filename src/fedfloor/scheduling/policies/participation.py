"""The policy `participation` of Fig. 3: every floor takes part as often as its target rate says."""

__all__ = ["ParticipationRate"]

from dataclasses import dataclass

import numpy as np

from fedfloor.scheduling.allocating import Selecting
from fedfloor.scheduling.state import Decision, RoundState


@dataclass(frozen=True, slots=True)
class ParticipationRate(Selecting):
    """Floors drawn with their target rates as probabilities (Sec. VII-B)."""

    def schedule(self, state: RoundState) -> Decision:
        """Draw floors by systematic sampling: one draw decides for all, so that their number hardly varies."""
        floors, channels = state.gain_up.shape
        rng = np.random.default_rng([state.seed, state.index, 3])
        order = rng.permutation(floors)
        rates = state.target_rate[order]
        # Rates that add up to more than all channels are scaled down.
        share = min(1.0, channels / max(rates.sum(), 1e-300))
        steps = np.floor(np.cumsum(rates * share) + rng.random())
        selection = order[np.diff(steps, prepend=0.0) > 0]
        return self.served(state, np.sort(selection[:channels]))
