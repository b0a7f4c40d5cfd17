"""Least delay of a floor whose devices compete for the gateway's memory or frequency.

If there are few combinations of cuts, all are tried, each a convex problem in T. Many combinations are searched: for a
fixed T the cheapest cuts are a multiple-choice knapsack with two resources. Its energy E*(T) falls with T, so no T in
[a, b] gives less than a + U(E - E*(b)). The interval with the lowest bound is halved, until the bound meets the best
cuts so far. With a minimum frequency the knapsack bounds E*(T) from below, and a gap may remain.
"""

__all__ = ["TOLERANCE", "combinations", "enumerated_minimum", "fixed_fastest", "searched_minimum"]

import math

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.scheduling.solver.compiling import compiled, compiled_only
from fedfloor.scheduling.solver.convex import Minimum, convex_minimum, fixed_energy, raised_level
from fedfloor.scheduling.solver.endless import endless_energy, one_idle
from fedfloor.scheduling.solver.floor import WITHIN, Budget, Options, computing_energy, reduced
from fedfloor.scheduling.solver.knapsack import cheapest_choice
from fedfloor.scheduling.solver.uplink import Link, best_upload, shortest_upload

_SPLITS = 1_000  #: largest number of halvings of T
_PRICES = 8  #: largest number of prices of the minimum frequency that are tried at a time T
_CLOSE = 1e-9  #: gap, relative to the energy, at which no further price is tried
_ROUNDING = 1e-11  #: share of what is added to costs that rounding may take away
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


@compiled_only
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
def _energy_line(
    low: float, high: float, idle: bool, options: Options, budget: Budget, limit: float, choice: Ints
) -> tuple[float, float]:
    """Energy [J] at `low` of a straight line that ends at E*(high) and lies below E*(T) for T in [low, high].

    Every option's energy lies above its tangent at `high`. The least sum of tangents is concave in T, so it lies above
    its chord, which is this line. Returns a lower bound and what `choice` costs, as `cheapest_choice` does. A minimum
    frequency is ignored. If `idle`, a device has to be idle, which takes that frequency for free, and the maximum
    frequency is ignored.
    """
    energy, space, rate = _needs_at(high, options, budget)
    for i in range(choice.size):
        for k in range(options.many[i]):
            if energy[i, k] < math.inf and options.w[i, k] > 0.0:
                computing = computing_energy(high, i, k, options, budget.capacitance)
                energy[i, k] += 2.0 * computing * (high - low) / (high - options.a[i, k])
    if idle:
        rate = one_idle(options)
    return cheapest_choice(energy, space, rate, options.many, limit, choice)


@compiled
def _raised_line(
    low: float, high: float, price: float, options: Options, budget: Budget, limit: float, choice: Ints
) -> tuple[float, float]:
    """Like `_energy_line` for the choices without an idle device, of which none gets less than the minimum frequency F.

    As in `endless`, a price u turns F into a part of the costs: with f the higher of w/(T - a) and u/w, an option costs
    c + v (w f^2 - 2 u f), which is convex in T, and all options together cost 2 v u F more.
    """
    cost, space, rate = _needs_at(high, options, budget)
    weight, added = budget.capacitance * price * price, 2.0 * budget.capacitance * price * budget.min_frequency
    for i in range(choice.size):
        highest = 0.0  # of 1/w; u^2/w is added to every cost, so that none is negative
        for k in range(options.many[i]):
            if options.w[i, k] == 0.0:
                cost[i, k] = math.inf
            elif cost[i, k] < math.inf:
                highest = max(highest, 1.0 / options.w[i, k])
        for k in range(options.many[i]):
            if cost[i, k] < math.inf:
                cycles, spare = options.w[i, k], high - options.a[i, k]
                cost[i, k] = options.c[i, k] + weight * (highest - 1.0 / cycles)
                above = cycles * cycles / spare - price  # w f - u
                if above > 0.0:
                    slope = 2.0 * above / spare * cycles / spare
                    cost[i, k] += budget.capacitance * (above * above / cycles + slope * (high - low))
        added -= weight * highest * (1.0 + _ROUNDING)
    least, attained = cheapest_choice(cost, space, rate, options.many, limit - added, choice)
    return least + added if least + added > 0.0 else 0.0, attained + added


@compiled
def _energy_needed(time: float, choice: Ints, options: Options, budget: Budget, a: Floats, w: Floats) -> float:
    """Energy [J] of a choice at a time T, the minimum frequency included; a and w (n,) are filled."""
    fixed = 0.0
    for i in range(choice.size):
        a[i], w[i] = options.a[i, choice[i]], options.w[i, choice[i]]
        fixed += options.c[i, choice[i]]
    return fixed + fixed_energy(time, a, w, budget)[0]


@compiled
def _least_energy(
    time: float, options: Options, budget: Budget, limit: float, choice: Ints, a: Floats, w: Floats
) -> tuple[float, float, float]:
    """Least energy E*(T) [J]: proven lower bound, energy of `choice`, and the price that the bound needs, if not 0.

    The energy of `choice` is inf, and `choice` is unchanged, if the limit is too low. a and w (n,) are scratch.
    """
    least, best = _energy_line(time, time, False, options, budget, limit, choice)
    if budget.min_frequency == 0.0 or best == math.inf:
        return least, best, 0.0
    trial, idle_choice = choice.copy(), choice.copy()
    best = _energy_needed(time, trial, options, budget, a, w)
    if best <= least * (1.0 + _CLOSE):
        return least, best, 0.0
    idle, energy = _energy_line(time, time, True, options, budget, limit, idle_choice)
    if energy < best:
        best = energy
        choice[:] = idle_choice
    price, best_price, low, high = 0.0, 0.0, 0.0, math.inf
    for _ in range(_PRICES):
        hertz = 0.0
        for i in range(a.size):
            hertz += max(w[i] / (time - a[i]), price / w[i])
        if hertz < budget.min_frequency:
            low = price
        else:
            high = price
        price = 0.5 * (low + high) if 0.0 < low < high < math.inf else raised_level(time, a, w, budget.min_frequency)
        bound, attained = _raised_line(time, time, price, options, budget, min(limit, idle), trial)
        if min(bound, idle) > least:
            least, best_price = min(bound, idle), price
        if attained == math.inf:
            break
        energy = _energy_needed(time, trial, options, budget, a, w)
        if energy < best:
            best = energy
            choice[:] = trial
        if best <= least * (1.0 + _CLOSE):
            break
    return least, best, best_price


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


@compiled_only
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
    at_end, at_price = np.zeros(_SPLITS + 1), np.zeros(_SPLITS + 1)  # least energy at the interval's end, its price
    begin[0], end[0], bound[0] = earliest, max(best - shortest, earliest), floor_bound
    intervals = 1
    while intervals <= _SPLITS:
        worst = np.argmin(bound[:intervals])
        low, high, old_bound = begin[worst], end[worst], bound[worst]
        middle = 0.5 * (low + high)
        if old_bound >= best * (1.0 - TOLERANCE) or not low < middle < high:
            break
        least_rate, least_energy, price = _least_rate(middle, options, budget, choice), math.inf, 0.0
        if least_rate < math.inf:
            value, at = _choice_minimum(choice, options, budget, link, best, a, w)
            if value < best:
                best, best_at = value, at
                best_choice[:] = choice
        if least_rate <= WITHIN:
            least_energy, choice_energy, price = _least_energy(middle, options, budget, limit, choice, a, w)
            if choice_energy < math.inf:
                value, at = _choice_minimum(choice, options, budget, link, best, a, w)
                if value < best:
                    best, best_at = value, at
                    best_choice[:] = choice
        begin[intervals], end[intervals], bound[intervals] = middle, high, old_bound
        at_end[intervals], at_price[intervals] = at_end[worst], at_price[worst]
        end[worst], at_end[worst], at_price[worst] = middle, least_energy, price
        for k in (worst, intervals):
            left, right, least = begin[k], end[k], at_end[k]
            upload, _ = best_upload(budget.energy - least, link)
            bound[k] = max(bound[k], left + upload)
            if bound[k] < best * (1.0 - TOLERANCE) and least > 0.0:
                steeper, _ = _energy_line(left, right, at_price[k] > 0.0, options, budget, limit, choice)
                if at_price[k] > 0.0:
                    raised, _ = _raised_line(left, right, at_price[k], options, budget, limit, choice)
                    steeper = min(steeper, raised)
                bound[k] = max(bound[k], _least_on_line(left, right, steeper, least, budget, link))
        intervals += 1
    return best, best_at, min(best, bound[:intervals].min())
