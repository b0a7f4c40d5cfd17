"""Baseline: the fastest floors."""

__all__ = ["DelayDriven"]

from dataclasses import dataclass

import numpy as np

from fedfloor.scheduling.allocating import Selecting
from fedfloor.scheduling.state import Decision, RoundState


@dataclass(frozen=True, slots=True)
class DelayDriven(Selecting):
    """One floor per channel, those with the least delay of the round (paper, Sec. VII-A)."""

    def schedule(self, state: RoundState) -> Decision:
        """Pick the J floors whose largest delay is smallest."""
        from fedfloor.scheduling.solver.assignment import assign  # noqa: PLC0415  # the compiler takes long to load

        fastest = assign(self.delays(state), np.zeros(state.floors), 1.0)
        return self.served(state, np.flatnonzero(fastest.channel >= 0), within=fastest.delay)
