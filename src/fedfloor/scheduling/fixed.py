"""What the baselines share: floors chosen without looking at their means, channels by least total delay."""

__all__ = ["on_best_channels"]

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from fedfloor.scheduling.figures import link_times, training_figures
from fedfloor.scheduling.state import IDLE, Decision, RoundState, fixed_allocation

Ints = npt.NDArray[np.int64]

#: [s] stands for a link that never delivers, so that the assignment stays solvable
_NEVER = 1e12


def on_best_channels(state: RoundState, picked: Ints) -> Decision:
    """The picked floors on the channels with the least total delay under the fixed allocation (at most J floors)."""
    allocation = fixed_allocation(state)
    links = link_times(state, allocation.power)
    training = training_figures(state, allocation.cut, allocation.frequency).time
    delay = np.minimum(links.download + links.upload + training[:, None], _NEVER)  # (M, J)
    rows, columns = linear_sum_assignment(delay[picked])
    channel = np.full(state.plant.gateways.count, IDLE)
    channel[picked[rows]] = columns
    return Decision(channel=channel)
