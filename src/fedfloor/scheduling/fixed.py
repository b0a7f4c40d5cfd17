"""Shared by the baselines: delays under the fixed allocation, and the channels with the least total delay."""

__all__ = ["fixed_delays", "on_best_channels"]

import numpy as np

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


def on_best_channels(state: RoundState, floors: Ints, *, within: float = np.inf) -> Decision:
    """Put floors (at most J) on the channels with the least total delay under the fixed allocation.

    Links slower than `within` [s] are used only where nothing else is left.
    """
    delay = fixed_delays(state)
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415  # takes half a second to load

    rows, columns = linear_sum_assignment(np.where(delay <= within, delay, _NEVER)[floors])
    channel = np.full(state.plant.gateways.count, IDLE)
    channel[floors[rows]] = columns
    return Decision(channel=channel)
