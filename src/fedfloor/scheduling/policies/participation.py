"""The policy `participation` of Fig. 3: every floor takes part as often as its target rate says."""

__all__ = ["ParticipationRate"]

from dataclasses import dataclass

import numpy as np

from fedfloor.scheduling.allocating import Selecting
from fedfloor.scheduling.sampling import sampled, within_channels
from fedfloor.scheduling.state import Decision, RoundState


@dataclass(frozen=True, slots=True)
class ParticipationRate(Selecting):
    """Floors drawn with their target rates as probabilities (paper, Sec. VII-B)."""

    def schedule(self, state: RoundState) -> Decision:
        """Draw floors by systematic sampling; rates that add up to more than all channels are scaled down."""
        channels, rng = state.channels, np.random.default_rng([state.seed, state.index, 3])
        return self.served(state, sampled(within_channels(state.target_rate, channels), channels, rng))
