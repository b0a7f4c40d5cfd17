"""Who is served on which channel, given the delay of every floor on every channel.

Among the assignments that serve as many floors as possible, minimise V max(delay) - sum(queue). Under a limit on the
delay, the floors that can be served together form a transversal matroid, whose heaviest basis the greedy algorithm
finds; a basis is as large as possible by itself. The weight grows with the limit, so intervals of limits can be cut off
by bounds.
"""

__all__ = ["Assignment", "assign"]

from dataclasses import dataclass

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.scheduling.solver.compiling import compiled
from fedfloor.scheduling.state import IDLE


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """A round's assignment."""

    channel: Ints  #: (M,) channel or IDLE
    delay: float  #: [s] of the slowest floor served; 0 if none is
    objective: float  #: V delay - sum of the queues served


@compiled
def _heaviest_basis(delay: Floats, limit: float, order: Ints, channel: Ints, owner: Ints) -> int:
    """Serve floors greedily in the given order within the limit; fills channel (M,) and owner (J,), returns how many.

    A search that fails reaches channels that no later search can free either: they are closed for good.
    """
    floors, channels = delay.shape
    channel[:] = IDLE
    owner[:] = -1
    came_from = np.empty(channels, np.int64)  # floor from which a channel was reached
    seen = np.zeros(channels, np.int64)  # round of the search that reached it; -1 closed for good
    queue = np.empty(channels + 1, np.int64)
    served = 0
    for turn in range(1, floors + 1):
        if served == channels:
            break
        root = order[turn - 1]
        queue[0] = root
        head, tail, free = 0, 1, -1
        while head < tail and free < 0:
            m = queue[head]
            head += 1
            for j in range(channels):
                if seen[j] >= 0 and seen[j] != turn and delay[m, j] <= limit:
                    seen[j] = turn
                    came_from[j] = m
                    if owner[j] < 0:
                        free = j
                        break
                    queue[tail] = owner[j]
                    tail += 1
        if free < 0:
            for j in range(channels):
                if seen[j] == turn:
                    seen[j] = -1
            continue
        served += 1
        j = free
        while True:  # shift the floors along the path
            m = came_from[j]
            before = channel[m]
            channel[m], owner[j] = j, m
            if m == root:
                break
            j = before
    return served


def assign(delay: Floats, queue: Floats, tradeoff: float) -> Assignment:
    """Optimal assignment for delays (M, J) [s], inf where a floor cannot be served, and queues (M,)."""
    floors, channels = delay.shape
    order = np.lexsort((np.arange(floors), -queue))  # heaviest first, then the lower index
    channel, owner = np.empty(floors, np.int64), np.empty(channels, np.int64)

    def within(limit: float) -> tuple[int, float]:
        served = _heaviest_basis(delay, limit, order, channel, owner)
        return served, float(queue[channel != IDLE].sum())

    limits = np.unique(delay[np.isfinite(delay)])
    if limits.size == 0:
        return Assignment(np.full(floors, IDLE), 0.0, 0.0)
    most, heaviest = within(limits[-1])
    low, high = 0, limits.size - 1  # the least limit that serves as many
    while low < high:
        middle = (low + high) // 2
        if within(limits[middle])[0] == most:
            high = middle
        else:
            low = middle + 1
    weights: dict[int, float] = {limits.size - 1: heaviest}

    def weight(index: int) -> float:
        if index not in weights:
            weights[index] = within(limits[index])[1]
        return weights[index]

    best, best_at = tradeoff * limits[low] - weight(low), low
    spans = [(low, limits.size - 1)]
    while spans:  # lower limits first, so that ties go to the smaller delay
        begin, end = spans.pop()
        here = tradeoff * limits[begin] - weight(begin)
        if here < best or (here == best and begin < best_at):
            best, best_at = here, begin
        # The weight is the same up to the end, or no limit beyond `begin` can make up for its own delay.
        if weight(begin) == weight(end) or begin + 1 > end or tradeoff * limits[begin + 1] - weight(end) >= best:
            continue
        middle = (begin + 1 + end) // 2
        spans.append((middle, end))
        if begin + 1 <= middle - 1:
            spans.append((begin + 1, middle - 1))
    within(limits[best_at])
    slowest = float(delay[channel != IDLE, channel[channel != IDLE]].max())
    return Assignment(channel.copy(), slowest, tradeoff * slowest - float(queue[channel != IDLE].sum()))
