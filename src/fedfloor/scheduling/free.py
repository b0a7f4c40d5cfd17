"""Free iterations: what floors do while they would wait for the slowest one."""

__all__ = ["free_iterations"]

import numpy as np

from fedfloor.arrays import Bools, Ints
from fedfloor.scheduling.state import Allocation, RoundState
from fedfloor.scheduling.usage import usage_of


def free_iterations(
    state: RoundState, channel: Ints, allocation: Allocation, completes: Bools, *, within: float
) -> Ints:
    """Most iterations beyond K, (M,) [1], that each floor can do in the time `within` [s] and with its energy.

    Cuts, frequencies, power and channels stay as they were decided, and memory does not depend on it. A floor that does
    not complete the round (M,) gets none.
    """
    fits = np.zeros(completes.size, np.int64)  # the most that is known to fit
    above = np.where(completes, state.plant.workload.extra_iterations + 1, 1)  # the least that is known not to
    while np.any(above - fits > 1):  # needs grow with the number, so each step halves what is left
        middle = (fits + above) // 2
        usage = usage_of(state, channel, allocation, middle)
        is_enough = (usage.delay <= within) & ~usage.short_of_energy
        fits, above = np.where(is_enough, middle, fits), np.where(is_enough, above, middle)
    return fits
