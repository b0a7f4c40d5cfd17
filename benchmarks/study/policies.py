"""Policies that only the study needs: an oracle, rounds of which a share completes, and queues that count losses."""

__all__ = ["Always", "LossDebts", "Thinned"]

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fedfloor.scheduling.allocating import allocated
from fedfloor.scheduling.policies.ddsra import Ddsra
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


@dataclass(frozen=True, slots=True)
class LossDebts:
    """`ddsra` that also owes rounds to floors with a high last loss, as power of choice prefers them.

    Minimises V x delay minus the sum of Q_m + loss x L_m / mean L. A floor that was never served has the highest loss.
    """

    tradeoff_setting: ClassVar[str] = "v"
    needs_training: ClassVar[bool] = True

    v: float = 1.0  #: V
    loss: float = 1.0  #: [rounds] what a floor with the mean loss is owed beside its queue

    @property
    def tradeoff(self) -> float:
        """V."""
        return self.v

    def schedule(self, state: RoundState) -> Decision:
        """Decide as `ddsra` with these queues."""
        known = ~np.isnan(state.last_loss)
        relative = np.ones(state.floors)
        if known.any():
            relative = state.last_loss / state.last_loss[known].mean()
            relative[~known] = relative[known].max()
        return Ddsra(self.v).schedule(replace(state, queue=state.queue + self.loss * relative))
