"""The policy `participation` of Fig. 3: every floor takes part as often as its target rate says."""

__all__ = ["ParticipationRate"]

from dataclasses import dataclass

from fedfloor.scheduling.allocating import Selecting
from fedfloor.scheduling.sampling import sampled, within_channels
from fedfloor.scheduling.state import Decision, RoundState
from fedfloor.streams import PolicyStream, policy_stream


@dataclass(frozen=True, slots=True)
class ParticipationRate(Selecting):
    """Floors drawn with their target rates as probabilities (paper, Sec. VII-B)."""

    def schedule(self, state: RoundState) -> Decision:
        """Draw floors by systematic sampling; rates that add up to more than all channels are scaled down."""
        channels, rng = state.channels, policy_stream(state.seed, state.index, PolicyStream.PARTICIPATION)
        return self.served(state, sampled(within_channels(state.target_rate, channels), channels, rng))
