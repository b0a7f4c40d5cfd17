"""Baseline: the fastest floors."""

__all__ = ["DelayDriven"]

from dataclasses import dataclass

import numpy as np

from fedfloor.scheduling.fixed import fixed_delays, on_best_channels
from fedfloor.scheduling.state import Decision, RoundState


@dataclass(frozen=True, slots=True)
class DelayDriven:
    """J floors with the least delay of the round, fixed allocation (Sec. VII-A)."""

    def schedule(self, state: RoundState) -> Decision:
        """Pick the J floors whose largest delay is smallest."""
        from fedfloor.scheduling.solver.assignment import assign  # noqa: PLC0415  # the compiler takes long to load

        fastest = assign(fixed_delays(state), np.zeros(state.queue.size), 1.0)
        return on_best_channels(state, np.flatnonzero(fastest.channel >= 0), within=fastest.delay)
