"""Policies that only the study needs: an oracle that knows the best floors, and rounds of which a share completes."""

__all__ = ["Always", "Thinned"]

from dataclasses import dataclass

import numpy as np

from fedfloor.scheduling.allocating import allocated
from fedfloor.scheduling.policies.round_robin import RoundRobinScheduler
from fedfloor.scheduling.state import IDLE, Decision, RoundState


@dataclass(frozen=True, slots=True)
class Always:
    """The same floors in every round, with the exact allocation: `floors=0-3-4` are the first, fourth and fifth."""

    floors: str = "0-3-4"

    def schedule(self, state: RoundState) -> Decision:
        """Serve the floors."""
        return allocated(state, np.array([int(number) for number in self.floors.split("-")]), "exact")


@dataclass(frozen=True, slots=True)
class Thinned:
    """Round robin with the exact allocation, of which a share of the floors completes and the others stay out."""

    share: float = 0.5  #: [1] probability that a floor takes part when its turn comes

    def schedule(self, state: RoundState) -> Decision:
        """Serve the floors of the turn, without those that the draw leaves out."""
        turn = RoundRobinScheduler(allocation="exact").schedule(state)
        stays = np.random.default_rng([state.seed, state.index, 11]).random(turn.channel.size) < self.share
        return Decision(np.where(stays, turn.channel, IDLE), turn.allocation)
