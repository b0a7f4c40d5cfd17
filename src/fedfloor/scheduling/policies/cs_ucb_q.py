"""CS-UCB-Q (Xia et al., IEEE TWC 2020): a bandit that learns which floors are fast, and pays participation debts."""

__all__ = ["CsUcbQ"]

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.references import check_setting
from fedfloor.scheduling.allocating import Selecting
from fedfloor.scheduling.history import History
from fedfloor.scheduling.state import Decision, RoundState, known_history


@dataclass(frozen=True, slots=True)
class CsUcbQ(Selecting):
    """Floors with the highest mix of a bound on speed and participation debt, one per channel (CS-UCB-Q)."""

    needs_history: ClassVar[bool] = True

    beta: float = 0.5  #: weight of the debts against the bounds
    max_delay_s: float = 0.0  #: [s] delay whose reward is 0; 0: the largest delay so far

    def __post_init__(self) -> None:
        Selecting.__post_init__(self)
        check_setting("beta", self.beta, 0.0, 1.0)
        check_setting("max_delay_s", self.max_delay_s, 0.0, 1e12)

    def schedule(self, state: RoundState) -> Decision:
        """Pick the floors with the highest score; of equal ones the first."""
        # The virtual queue D = max(D + c - served, 0) with c the target rate is our queue, Eq. (14).
        score = (1.0 - self.beta) * self.index(known_history(state)) + self.beta * state.queue
        order = np.argsort(-score, kind="stable")
        return self.served(state, np.sort(order[: state.channels]))

    def index(self, history: History) -> Floats:
        """Upper confidence bound on the reward of every floor, (M,): at most 1, and 1 for floors never selected.

        The reward of a round is 1 - delay/max_delay if the floor completes it, otherwise 0.
        """
        longest = self.max_delay_s or float(history.most_delay.max(initial=0.0)) or 1.0
        times = np.maximum(history.selected, 1)
        mean = np.maximum(history.completed - history.delay_sum / longest, 0.0) / times
        bound = mean + np.sqrt(2.0 * math.log(history.rounds + 1) / times)
        return np.where(history.selected == 0, 1.0, np.minimum(bound, 1.0))
