"""FedCS (Nishio and Yonetani, ICC 2019): as many floors as finish before a deadline."""

__all__ = ["FedCs"]

from dataclasses import dataclass

import numpy as np

from fedfloor.references import check_setting
from fedfloor.scheduling.allocating import Selecting
from fedfloor.scheduling.state import Decision, RoundState


@dataclass(frozen=True, slots=True)
class FedCs(Selecting):
    """Most floors that finish by a deadline; among such sets the one with the least total delay (FedCS)."""

    deadline_s: float = 180.0  #: [s] T_round; three minutes in the paper

    def __post_init__(self) -> None:
        Selecting.__post_init__(self)
        check_setting("deadline_s", self.deadline_s, 0.0, 1e9)

    def schedule(self, state: RoundState) -> Decision:
        """Pick the largest set of floors with a channel each on which they finish in time."""
        from scipy.optimize import linear_sum_assignment  # noqa: PLC0415  # takes half a second to load

        # The paper's clients upload one after the other, so that each lengthens the round. Here J floors upload at
        # the same time, and the largest set is an assignment: a floor that is late costs more than all in time.
        delay = self.delays(state)
        in_time = delay <= self.deadline_s
        late = 1.0 + min(delay.shape) * float(np.max(delay, where=in_time, initial=0.0))
        rows, columns = linear_sum_assignment(np.where(in_time, delay, late))
        return self.served(state, rows[in_time[rows, columns]], within=self.deadline_s)
