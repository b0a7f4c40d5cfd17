"""Assignment of floors to channels, given the delay of every floor on every channel.

Among the assignments that serve as many floors as possible, it minimises V max(delay) - sum(queue). Under a limit on
the delay, the floors that can be served together form a transversal matroid. The greedy algorithm finds its heaviest
basis, and all bases have the largest possible size. The weight grows with the limit, so bounds rule out whole intervals
of limits; the interval with the lowest bound is halved first.
"""

__all__ = ["Assignment", "assign", "assignment_of"]

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.scheduling.solver.compiling import compiled
from fedfloor.scheduling.state import IDLE
from fedfloor.scheduling.usage import objective_of


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """Channels of a round with their delay and objective."""

    channel: Ints  #: (M,) channel or IDLE
    delay: float  #: [s] of the slowest floor served; 0 if none is served
    objective: float  #: V delay - sum of the queues served


@compiled
def _heaviest_basis(delay: Floats, limit: float, order: Ints, channel: Ints, owner: Ints) -> int:
    """Serve floors greedily, in order, within the limit; fills channel (M,) and owner (J,), returns the number served.

    A search that fails has reached only channels that no later search can free, so they are closed for good.
    """
    floors, channels = delay.shape
    channel[:] = IDLE
    owner[:] = -1
    predecessor = np.empty(channels, np.int64)  # floor from which a channel was reached
    visit = np.zeros(channels, np.int64)  # number of the search that reached a channel; -1: closed for good
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
                if visit[j] >= 0 and visit[j] != turn and delay[m, j] <= limit:
                    visit[j] = turn
                    predecessor[j] = m
                    if owner[j] < 0:
                        free = j
                        break
                    queue[tail] = owner[j]
                    tail += 1
        if free < 0:
            for j in range(channels):
                if visit[j] == turn:
                    visit[j] = -1
            continue
        served += 1
        j = free
        while True:  # shift the floors along the path
            m = predecessor[j]
            previous = channel[m]
            channel[m], owner[j] = j, m
            if m == root:
                break
            j = previous
    return served


def assign(delay: Floats, queue: Floats, tradeoff: float) -> Assignment:
    """Optimal assignment for delays (M, J) [s], inf where a floor cannot be served, and queues (M,)."""
    floors, channels = delay.shape
    order = np.lexsort((np.arange(floors), -queue))  # heaviest first, then the lower index
    channel, owner = np.empty(floors, np.int64), np.empty(channels, np.int64)
    limits = np.unique(delay[np.isfinite(delay)])
    if not limits.size:
        return assignment_of(np.full(floors, IDLE), delay, queue, tradeoff)

    def within(index: int) -> tuple[int, float]:
        served = _heaviest_basis(delay, limits[index], order, channel, owner)
        return served, float(queue[channel != IDLE].sum())

    def objective(index: int, weight: float) -> float:
        return tradeoff * float(limits[index]) - weight

    last = limits.size - 1
    most, heaviest = within(last)
    low, high = 0, last  # `low` becomes the least limit that serves as many floors
    while low < high:
        middle = (low + high) // 2
        if within(middle)[0] == most:
            high = middle
        else:
            low = middle + 1
    weight = {last: heaviest, low: within(low)[1]}
    best = min((objective(index, weight[index]), index) for index in weight)  # ties go to the smaller delay
    spans = [(objective(low + 1, heaviest), low, last)] if last > low + 1 else []
    while spans:
        # Between `begin` and `end` no limit costs less than the first one there or gains more than `end`.
        bound, begin, end = heappop(spans)
        if (bound, begin + 1) >= best:
            break
        middle = (begin + end) // 2
        weight[middle] = within(middle)[1]
        best = min(best, (objective(middle, weight[middle]), middle))
        for start, stop in ((begin, middle), (middle, end)):
            if stop > start + 1 and weight[start] < weight[stop]:
                heappush(spans, (objective(start + 1, weight[stop]), start, stop))
    within(best[1])
    return assignment_of(channel.copy(), delay, queue, tradeoff)


def assignment_of(channel: Ints, delay: Floats, queue: Floats, tradeoff: float) -> Assignment:
    """Delay and objective of channels (M,) for delays (M, J) [s] and queues (M,); both are 0 if no floor is served."""
    served = channel != IDLE
    if not served.any():
        return Assignment(channel, 0.0, 0.0)
    slowest = float(delay[served, channel[served]].max())
    return Assignment(channel, slowest, objective_of(tradeoff, slowest, float(queue[served].sum())))
