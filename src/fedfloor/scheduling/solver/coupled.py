"""Least delay of a floor whose devices compete for the gateway's memory or frequency.

Few combinations of cuts are all tried, each a convex problem in T. Many are searched: for a fixed T the cheapest cuts
are a multiple-choice knapsack with two resources, its energy E*(T) falls with T, so on [a, b] no time is better than
a + U(E - E*(b)). Intervals are halved where that bound is lowest, until it meets the best cuts found.
"""

__all__ = ["TOLERANCE", "combinations", "enumerated_minimum", "fixed_fastest", "knapsack", "searched_minimum"]

import math

import numpy as np
import numpy.typing as npt

from fedfloor.scheduling.solver.compiling import compiled
from fedfloor.scheduling.solver.floor import WITHIN, Budget, Options
from fedfloor.scheduling.solver.slack import Minimum, convex_minimum
from fedfloor.scheduling.solver.uplink import Link, best_upload, shortest_upload

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_NODES = 50_000  #: most nodes of one knapsack's search
_SPLITS = 1_000  #: most halvings of T
TOLERANCE = 1e-6  #: gap, relative to the delay, at which the search ends


@compiled
def combinations(many: Ints, most: int) -> int:
    """Number of ways to choose one option per device, or `most` + 1 if there are more."""
    product = 1
    for count in many:
        product *= count
        if product > most:
            return most + 1
    return product


@compiled
def fixed_fastest(a: Floats, w: Floats, max_frequency: float) -> float:
    """Least T at which fixed cuts (n,) fit the gateway's greatest frequency."""
    low, cycles = 0.0, 0.0
    for i in range(a.size):
        low = max(low, a[i])
        cycles += w[i]
    if cycles == 0.0:
        return low
    high = low + cycles / max_frequency  # every device as late as the slowest
    for i in range(a.size):
        low = max(low, a[i] + w[i] / max_frequency)  # every device alone
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high:
            break
        used = 0.0
        for i in range(a.size):
            if w[i] > 0.0:
                used += w[i] / (middle - a[i])
        if used > max_frequency:
            low = middle
        else:
            high = middle
    return high


@compiled
def _choice_minimum(
    choice: Ints, options: Options, budget: Budget, link: Link, bound: float, a: Floats, w: Floats
) -> Minimum:
    """Least delay of one choice of cuts; inf if it cannot be below the bound. a and w (n,) are scratch."""
    for i in range(choice.size):
        a[i], w[i] = options.a[i, choice[i]], options.w[i, choice[i]]
    earliest = fixed_fastest(a, w, budget.max_frequency)
    if earliest + shortest_upload(link) >= bound:
        return Minimum(math.inf, earliest)
    return convex_minimum(earliest, math.inf, a, w, budget, link)


@compiled
def enumerated_minimum(
    options: Options, budget: Budget, link: Link, floor_bound: float, best_choice: Ints, a: Floats, w: Floats
) -> Minimum:
    """Least delay over all combinations of cuts; fills `best_choice`, ends early at the lower bound given."""
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
        while i < choice.size:  # count on, first device fastest
            choice[i] += 1
            if choice[i] < options.many[i]:
                break
            choice[i] = 0
            i += 1
        if i == choice.size:
            return Minimum(best, best_at)


@compiled
def _reduced(
    mu: float, nu: float, cost: Floats, space: Floats, rate: Floats, many: Ints, choice: Ints
) -> tuple[float, float, float, float]:
    """Every device's least cost + mu space + nu rate: the sum, and the cost, space and rate of that choice."""
    total, costs, spaces, rates = 0.0, 0.0, 0.0, 0.0
    for i in range(many.size):
        least, pick = math.inf, -1
        for k in range(many[i]):
            value = cost[i, k] + mu * space[i, k] + nu * rate[i, k]
            if value < least:
                least, pick = value, k
        if pick < 0:
            return math.inf, math.inf, math.inf, math.inf
        choice[i] = pick
        total += least
        costs += cost[i, pick]
        spaces += space[i, pick]
        rates += rate[i, pick]
    return total, costs, spaces, rates


@compiled
def _best_mu(
    nu: float, cost: Floats, space: Floats, rate: Floats, many: Ints, choice: Ints, trial: Ints
) -> tuple[float, float, float]:
    """Memory price with the highest bound at a given frequency price: mu, the bound, and the rate left in `choice`.

    Space and rate are in units of their limits. `choice` fits the memory.
    """
    total, _, spaces, rates = _reduced(0.0, nu, cost, space, rate, many, choice)
    if spaces <= 1.0:
        return 0.0, total - nu, rates
    low, high = 0.0, 1e-9
    while _reduced(high, nu, cost, space, rate, many, choice)[2] > 1.0:
        low, high = high, high * 8.0
        if high > 1e30:
            return high, -math.inf, math.inf
    bound = -math.inf
    for _ in range(60):
        middle = 0.5 * (low + high)
        total, _, spaces, _ = _reduced(middle, nu, cost, space, rate, many, trial)
        bound = max(bound, total - middle - nu)
        if spaces > 1.0:
            low = middle
        else:
            high = middle
            choice[:] = trial
        if high - low <= 1e-9 * high:
            break
    total, _, _, rates = _reduced(high, nu, cost, space, rate, many, choice)
    return high, max(bound, total - high - nu), rates


@compiled
def _cost_if_fits(choice: Ints, cost: Floats, space: Floats, rate: Floats) -> float:
    costs, spaces, rates = 0.0, 0.0, 0.0
    for i in range(choice.size):
        costs += cost[i, choice[i]]
        spaces += space[i, choice[i]]
        rates += rate[i, choice[i]]
    return costs if spaces <= WITHIN and rates <= WITHIN else math.inf


@compiled
def _improve(choice: Ints, cost: Floats, space: Floats, rate: Floats, many: Ints) -> None:
    """Change single devices for the better while everything fits."""
    spaces, rates = 0.0, 0.0
    for i in range(choice.size):
        spaces += space[i, choice[i]]
        rates += rate[i, choice[i]]
    better = True
    while better:
        better = False
        for i in range(choice.size):
            now = choice[i]
            for k in range(many[i]):
                fits = spaces - space[i, now] + space[i, k] <= 1.0 and rates - rate[i, now] + rate[i, k] <= 1.0
                if cost[i, k] < cost[i, choice[i]] and fits:
                    choice[i] = k
            if choice[i] != now:
                spaces += space[i, choice[i]] - space[i, now]
                rates += rate[i, choice[i]] - rate[i, now]
                better = True


@compiled
def _needs_at(time: float, options: Options, budget: Budget) -> tuple[Floats, Floats, Floats]:
    """Energy [J] of every option at a time, and its space and rate in units of their limits; (n, L+1) each."""
    count, width = options.a.shape
    cost, space, rate = np.full((count, width), math.inf), np.zeros((count, width)), np.zeros((count, width))
    for i in range(count):
        for k in range(options.many[i]):
            cycles, spare = options.w[i, k], time - options.a[i, k]
            space[i, k] = options.g[i, k] / budget.memory
            if cycles == 0.0:
                if spare >= 0.0:
                    cost[i, k] = 0.0
            elif spare > 0.0:
                hertz = cycles / spare
                rate[i, k] = hertz / budget.max_frequency
                cost[i, k] = budget.capacitance * cycles * hertz * hertz
    return cost, space, rate


@compiled
def knapsack(time: float, options: Options, budget: Budget, choice: Ints) -> tuple[float, float]:
    """Bounds on the least training energy E*(T) [J] within memory and frequency: proven, and that of `choice`."""
    cost, space, rate = _needs_at(time, options, budget)
    many = options.many
    trial = np.zeros(many.size, np.int64)
    nu = 0.0
    mu, bound, rates = _best_mu(nu, cost, space, rate, many, choice, trial)
    if math.isinf(bound):
        return math.inf, math.inf
    best, best_choice = _cost_if_fits(choice, cost, space, rate), choice.copy()
    if mu == 0.0 and best < math.inf:
        return best, best
    if rates > 1.0:
        low, high = 0.0, 1e-9
        while high < 1e30:
            mu, value, rates = _best_mu(high, cost, space, rate, many, choice, trial)
            if value > bound:
                bound, nu = value, high
            if rates <= 1.0:
                break
            low, high = high, high * 8.0
        for _ in range(40):
            middle = 0.5 * (low + high)
            mu, value, rates = _best_mu(middle, cost, space, rate, many, choice, trial)
            if value > bound:
                bound, nu = value, middle
            if rates > 1.0:
                low = middle
            else:
                high = middle
            fitting = _cost_if_fits(choice, cost, space, rate)
            if fitting < best:
                best = fitting
                best_choice[:] = choice
        mu = _best_mu(nu, cost, space, rate, many, choice, trial)[0]
    if best < math.inf:
        _improve(best_choice, cost, space, rate, many)
        best = _cost_if_fits(best_choice, cost, space, rate)
    if best == math.inf or best - bound > 1e-9 * best:
        # More energy than there is helps nobody: what costs more counts as not to be had.
        limit = min(best, budget.energy * WITHIN)
        cheapest, finished = _branch(cost, space, rate, many, mu, nu, limit, best_choice)
        best = min(best, cheapest) if cheapest < limit else best
        if finished:
            bound = max(bound, min(best, limit))
    choice[:] = best_choice
    return min(bound, best), best


@compiled
def _ranked(mu: float, nu: float, cost: Floats, space: Floats, rate: Floats, many: Ints) -> tuple[Ints, Ints, Floats]:
    """Order to branch in: devices whose second choice costs most first, options by price; and the prices."""
    price, rank = np.full(cost.shape, math.inf), np.zeros(cost.shape, np.int64)
    regret = np.zeros(many.size)
    for i in range(many.size):
        for k in range(many[i]):
            price[i, k] = cost[i, k] + mu * space[i, k] + nu * rate[i, k]
        rank[i] = np.argsort(price[i])
        if many[i] > 1 and price[i, rank[i, 0]] < math.inf:
            regret[i] = price[i, rank[i, 1]] - price[i, rank[i, 0]]
    return np.argsort(-regret), rank, price


@compiled
def _branch(
    cost: Floats, space: Floats, rate: Floats, many: Ints, mu: float, nu: float, best: float, best_choice: Ints
) -> tuple[float, bool]:
    """Depth-first search with the prices' bound; (least cost found, whether the search was complete)."""
    count = many.size
    order, rank, price = _ranked(mu, nu, cost, space, rate, many)
    rest, least_space, least_rate = np.zeros(count + 1), np.zeros(count + 1), np.zeros(count + 1)
    for depth in range(count - 1, -1, -1):
        i = order[depth]
        smallest, slowest = math.inf, math.inf
        for k in range(many[i]):
            if cost[i, k] < math.inf:
                smallest, slowest = min(smallest, space[i, k]), min(slowest, rate[i, k])
        rest[depth] = rest[depth + 1] + price[i, rank[i, 0]]
        least_space[depth], least_rate[depth] = least_space[depth + 1] + smallest, least_rate[depth + 1] + slowest
    pick = np.full(count, -1, np.int64)
    costs, spaces, rates = np.zeros(count + 1), np.zeros(count + 1), np.zeros(count + 1)
    depth, nodes = 0, 0
    while depth >= 0:
        if depth == count:
            if costs[count] < best:
                best = costs[count]
                for level in range(count):
                    best_choice[order[level]] = rank[order[level], pick[level]]
            depth -= 1
            continue
        i = order[depth]
        pick[depth] += 1
        if pick[depth] < many[i]:
            k = rank[i, pick[depth]]
            spent = costs[depth] + mu * spaces[depth] + nu * rates[depth]
            if spent + price[i, k] + rest[depth + 1] - mu - nu < best * (1.0 - 1e-12):
                nodes += 1
                if nodes > _NODES:
                    return best, False
                filled, busy = spaces[depth] + space[i, k], rates[depth] + rate[i, k]
                if filled + least_space[depth + 1] <= WITHIN and busy + least_rate[depth + 1] <= WITHIN:
                    depth += 1
                    costs[depth], spaces[depth], rates[depth] = costs[depth - 1] + cost[i, k], filled, busy
                continue
        pick[depth] = -1  # no option is left, or the rest only costs more
        depth -= 1
    return best, True


@compiled
def _least_rate(time: float, options: Options, budget: Budget, choice: Ints) -> float:
    """Proven lower bound on the frequency, in units of its limit, that fits the memory at a time; fills `choice`.

    Above 1 no training ends by then, however much energy there is. inf: nothing fits the memory.
    """
    cost, space, rate = _needs_at(time, options, budget)
    none = np.zeros_like(rate)
    for i in range(choice.size):
        for k in range(options.many[i]):
            if cost[i, k] == math.inf:
                rate[i, k] = math.inf
    trial = np.zeros(choice.size, np.int64)
    mu, bound, _ = _best_mu(0.0, rate, space, none, options.many, choice, trial)
    if math.isinf(bound):
        return math.inf
    _improve(choice, rate, space, none, options.many)
    attained = _cost_if_fits(choice, rate, space, none)
    if attained - bound > 1e-9 * attained:
        least, finished = _branch(rate, space, none, options.many, mu, 0.0, attained, choice)
        if finished:
            bound = least
    return bound


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
    """Least delay found, its T, and a proven lower bound; fills `best_choice`."""
    best_choice[:] = options.many - 1  # the deepest cuts need the least of everything but time
    best, best_at = _choice_minimum(best_choice, options, budget, link, math.inf, a, w)
    if best == math.inf:
        return math.inf, earliest, math.inf
    choice, shortest = np.zeros_like(best_choice), shortest_upload(link)
    begin, end, bound = np.empty(_SPLITS + 1), np.empty(_SPLITS + 1), np.empty(_SPLITS + 1)
    at_end = np.empty(_SPLITS + 1)  # least upload time with the energy that the interval's end leaves
    begin[0], end[0], bound[0], at_end[0] = earliest, max(best - shortest, earliest), floor_bound, shortest
    intervals = 1
    while intervals <= _SPLITS:
        worst = np.argmin(bound[:intervals])
        low, high, inherited = begin[worst], end[worst], bound[worst]
        middle = 0.5 * (low + high)
        if inherited >= best * (1.0 - TOLERANCE) or not low < middle < high:
            break
        needed, upload = _least_rate(middle, options, budget, choice), math.inf
        if needed < math.inf:
            value, at = _choice_minimum(choice, options, budget, link, best, a, w)
            if value < best:
                best, best_at = value, at
                best_choice[:] = choice
        if needed <= WITHIN:
            below, above = knapsack(middle, options, budget, choice)
            if above < math.inf:
                value, at = _choice_minimum(choice, options, budget, link, best, a, w)
                if value < best:
                    best, best_at = value, at
                    best_choice[:] = choice
            upload, _ = best_upload(budget.energy - below, link)
        begin[intervals], end[intervals], at_end[intervals] = middle, high, at_end[worst]
        bound[intervals] = max(inherited, middle + at_end[worst])
        end[worst], at_end[worst], bound[worst] = middle, upload, max(inherited, low + upload)
        intervals += 1
    return best, best_at, min(best, bound[:intervals].min())
