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
    extra = np.zeros(completes.size, np.int64)
    for count in range(1, state.plant.workload.extra_iterations + 1):
        usage = usage_of(state, channel, allocation, np.full(extra.size, count))
        fits = completes & (usage.delay <= within) & ~usage.short_of_energy
        if not fits.any():
            break
        extra[fits] = count  # needs grow with the number, so that all smaller ones fit too
    return extra
