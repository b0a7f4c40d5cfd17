"""What the baselines share: floors chosen without looking at their means, channels by least total delay."""

__all__ = ["fixed_delays", "on_best_channels"]

import numpy as np
from scipy.optimize import linear_sum_assignment

from fedfloor.arrays import Floats, Ints
from fedfloor.scheduling.state import IDLE, Decision, RoundState, fixed_allocation
from fedfloor.scheduling.usage import link_times, training_usage

#: [s] stands for a link that never delivers, so that the assignment stays solvable
_NEVER = 1e12


def fixed_delays(state: RoundState) -> Floats:
    """Delay of every floor on every channel under the fixed allocation, (M, J) [s]."""
    allocation = fixed_allocation(state)
    links = link_times(state, allocation.power)
    training = training_usage(state, allocation.cut, allocation.frequency).time
    return np.minimum(links.download + links.upload + training[:, None], _NEVER)


def on_best_channels(state: RoundState, picked: Ints, *, within: float = np.inf) -> Decision:
    """The picked floors (at most J) on the channels with the least total delay under the fixed allocation.

    `within` [s] forbids links slower than that, as far as the floors can do without them.
    """
    delay = fixed_delays(state)
    rows, columns = linear_sum_assignment(np.where(delay <= within, delay, _NEVER)[picked])
    channel = np.full(state.plant.gateways.count, IDLE)
    channel[picked[rows]] = columns
    return Decision(channel=channel)
