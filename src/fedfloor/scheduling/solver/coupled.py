"""Least delay of a floor whose devices compete for the gateway's memory or frequency.

If there are few combinations of cuts, all are tried, each a convex problem in T. Many combinations are searched: for a
fixed T the cheapest cuts are a multiple-choice knapsack with two resources. Its energy E*(T) falls with T, so no T in
[a, b] gives less than a + U(E - E*(b)). The interval with the lowest bound is halved, until the bound meets the best
cuts so far.
"""

__all__ = ["TOLERANCE", "combinations", "enumerated_minimum", "fixed_fastest", "searched_minimum"]

import math

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.scheduling.solver.compiling import compiled
from fedfloor.scheduling.solver.convex import Minimum, convex_minimum
from fedfloor.scheduling.solver.endless import endless_energy
from fedfloor.scheduling.solver.floor import WITHIN, Budget, Options, computing_energy, reduced
from fedfloor.scheduling.solver.knapsack import cheapest_choice
from fedfloor.scheduling.solver.uplink import Link, best_upload, shortest_upload

_SPLITS = 1_000  #: largest number of halvings of T
TOLERANCE = 1e-6  #: gap, relative to the delay, at which the search ends


@compiled
def combinations(many: Ints, most: int) -> int:
    """Number of ways to choose one option per device; `most` + 1 if it is larger than `most`."""
    product = 1
    for count in many:
        product *= count
        if product > most:
            return most + 1
    return product


@compiled
def fixed_fastest(a: Floats, w: Floats, max_frequency: float) -> float:
    """Least T [s] at which fixed cuts (n,) fit the gateway's maximum frequency."""
    low, cycles = 0.0, 0.0
    for i in range(a.size):
        low = max(low, a[i])
        cycles += w[i]
    if cycles == 0.0:
        return low
    high = low + cycles / max_frequency  # late enough even if every device took as long as the slowest
    for i in range(a.size):
        low = max(low, a[i] + w[i] / max_frequency)  # no earlier, even if a device had the gateway alone
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high:
            break
        hertz = 0.0
        for i in range(a.size):
            if w[i] > 0.0:
                hertz += w[i] / (middle - a[i])
        if hertz > max_frequency:
            low = middle
        else:
            high = middle
    return high


@compiled
def _choice_minimum(
    choice: Ints, options: Options, budget: Budget, link: Link, bound: float, a: Floats, w: Floats
) -> Minimum:
    """Least delay of one choice of cuts; inf if it cannot be below the bound. a and w (n,) are scratch."""
    fixed = 0.0
    for i in range(choice.size):
        a[i], w[i] = options.a[i, choice[i]], options.w[i, choice[i]]
        fixed += options.c[i, choice[i]]
    earliest = fixed_fastest(a, w, budget.max_frequency)
    left = reduced(budget, fixed)
    if earliest + shortest_upload(link) >= bound or best_upload(left.energy, link)[0] == math.inf:
        return Minimum(math.inf, earliest)
    return convex_minimum(earliest, math.inf, a, w, left, link)


@compiled
def enumerated_minimum(
    options: Options, budget: Budget, link: Link, floor_bound: float, best_choice: Ints, a: Floats, w: Floats
) -> Minimum:
    """Least delay over all combinations of cuts; fills `best_choice`, ends early at the lower bound `floor_bound`."""
    choice = np.zeros(options.many.size, np.int64)
    best, best_at = math.inf, 0.0
    while True:
        space = 0.0
        for i in range(choice.size):
            space += options.g[i, choice[i]]
        if space <= budget.memory * WITHIN:
            value, at = _choice_minimum(choice, options, budget, link, best, a, w)
            if value < best:
                best, best_at = value, at
                best_choice[:] = choice
                if best <= floor_bound * (1.0 + 1e-12):
                    return Minimum(best, best_at)
        i = 0
        while i < choice.size:  # next combination; the first device changes fastest
            choice[i] += 1
            if choice[i] < options.many[i]:
                break
            choice[i] = 0
            i += 1
        if i == choice.size:
            return Minimum(best, best_at)


@compiled
def _needs_at(time: float, options: Options, budget: Budget) -> tuple[Floats, Floats, Floats]:
    """Energy [J] of every option at a time T, and its memory and frequency as shares of the limits; (n, L+1) each."""
    count, width = options.a.shape
    cost, space, rate = np.full((count, width), math.inf), np.zeros((count, width)), np.zeros((count, width))
    for i in range(count):
        for k in range(options.many[i]):
            cost[i, k] = computing_energy(time, i, k, options, budget.capacitance) + options.c[i, k]
            space[i, k] = options.g[i, k] / budget.memory
            if cost[i, k] < math.inf and options.w[i, k] > 0.0:
                rate[i, k] = options.w[i, k] / (time - options.a[i, k]) / budget.max_frequency
    return cost, space, rate


@compiled
def _least_rate(time: float, options: Options, budget: Budget, choice: Ints) -> float:
    """Proven lower bound on the frequency at a time T, as a share of its limit, within the memory; fills `choice`.

    Above 1 no training ends by T, however much energy there is; inf means that no choice fits the memory.
    """
    energy, space, rate = _needs_at(time, options, budget)
    for i in range(choice.size):
        for k in range(options.many[i]):
            if energy[i, k] == math.inf:
                rate[i, k] = math.inf
    return cheapest_choice(rate, space, np.zeros_like(rate), options.many, math.inf, choice)[0]


@compiled
def _energy_line(low: float, high: float, limit: float, options: Options, budget: Budget, scratch: Ints) -> float:
    """Energy [J] at `low` of a straight line that ends at E*(high) and lies below E*(T) for T in [low, high].

    Every option's energy lies above its tangent at `high`. The least sum of tangents is concave in T, so it lies above
    its chord, which is this line.
    """
    energy, space, rate = _needs_at(high, options, budget)
    for i in range(options.many.size):
        for k in range(options.many[i]):
            if energy[i, k] < math.inf and options.w[i, k] > 0.0:
                computing = computing_energy(high, i, k, options, budget.capacitance)
                energy[i, k] += 2.0 * computing * (high - low) / (high - options.a[i, k])
    return cheapest_choice(energy, space, rate, options.many, limit, scratch)[0]


@compiled
def _least_on_line(low: float, high: float, at_low: float, at_high: float, budget: Budget, link: Link) -> float:
    """Lower bound on T + U(E - line(T)) for T in [low, high], a convex function."""
    steep = (at_low - at_high) / (high - low)
    left, right = low, high
    lowest = -math.inf
    for _ in range(60):
        middle = 0.5 * (left + right)
        upload, gain = best_upload(budget.energy - at_high - steep * (high - middle), link)
        if upload < math.inf:
            slope = 1.0 + gain * steep
            lowest = max(lowest, middle + upload - max(slope * (middle - left), -slope * (right - middle), 0.0))
        else:
            slope = -1.0
        if slope < 0.0:
            left = middle
        else:
            right = middle
        if right - left <= 1e-9 * high:
            break
    return max(lowest, low)


@compiled
def _first_choice(
    options: Options, budget: Budget, link: Link, choice: Ints, a: Floats, w: Floats
) -> tuple[float, float, bool]:
    """Least delay of some choice that can be served, which fills `choice`, and its T; whether there may be one.

    Without links the deepest cuts need the least of everything except time. Otherwise the cuts of least energy in
    endless time tell.
    """
    space = 0.0
    for i in range(choice.size):
        choice[i] = options.many[i] - 1
        space += options.g[i, choice[i]]
    if space <= budget.memory * WITHIN:
        value, at = _choice_minimum(choice, options, budget, link, math.inf, a, w)
        if value < math.inf:
            return value, at, True
    least, attained = endless_energy(options, budget, choice)
    if best_upload(budget.energy - least, link)[0] == math.inf:
        return math.inf, 0.0, False
    if attained == math.inf:
        return math.inf, 0.0, True
    value, at = _choice_minimum(choice, options, budget, link, math.inf, a, w)
    return value, at, True


@compiled
def searched_minimum(
    earliest: float,
    options: Options,
    budget: Budget,
    link: Link,
    floor_bound: float,
    best_choice: Ints,
    a: Floats,
    w: Floats,
) -> tuple[float, float, float]:
    """Least delay of the search, its T, and a proven lower bound; fills `best_choice`."""
    best, best_at, feasible = _first_choice(options, budget, link, best_choice, a, w)
    if best == math.inf:
        return math.inf, earliest, floor_bound if feasible else math.inf
    choice, shortest = np.zeros_like(best_choice), shortest_upload(link)
    limit = budget.energy * WITHIN  # a choice that needs more energy is useless
    begin, end, bound = np.empty(_SPLITS + 1), np.empty(_SPLITS + 1), np.empty(_SPLITS + 1)
    at_end = np.zeros(_SPLITS + 1)  # least energy at the interval's end
    begin[0], end[0], bound[0] = earliest, max(best - shortest, earliest), floor_bound
    intervals = 1
    while intervals <= _SPLITS:
        worst = np.argmin(bound[:intervals])
        low, high, old_bound = begin[worst], end[worst], bound[worst]
        middle = 0.5 * (low + high)
        if old_bound >= best * (1.0 - TOLERANCE) or not low < middle < high:
            break
        least_rate, least_energy = _least_rate(middle, options, budget, choice), math.inf
        if least_rate < math.inf:
            value, at = _choice_minimum(choice, options, budget, link, best, a, w)
            if value < best:
                best, best_at = value, at
                best_choice[:] = choice
        if least_rate <= WITHIN:
            energy, space, rate = _needs_at(middle, options, budget)
            least_energy, choice_energy = cheapest_choice(energy, space, rate, options.many, limit, choice)
            if choice_energy < math.inf:
                value, at = _choice_minimum(choice, options, budget, link, best, a, w)
                if value < best:
                    best, best_at = value, at
                    best_choice[:] = choice
        begin[intervals], end[intervals], at_end[intervals], bound[intervals] = middle, high, at_end[worst], old_bound
        end[worst], at_end[worst] = middle, least_energy
        for k in (worst, intervals):
            left, right, least = begin[k], end[k], at_end[k]
            upload, _ = best_upload(budget.energy - least, link)
            bound[k] = max(bound[k], left + upload)
            if bound[k] < best * (1.0 - TOLERANCE) and least > 0.0:
                steeper = _energy_line(left, right, limit, options, budget, choice)
                bound[k] = max(bound[k], _least_on_line(left, right, steeper, least, budget, link))
        intervals += 1
    return best, best_at, min(best, bound[:intervals].min())
