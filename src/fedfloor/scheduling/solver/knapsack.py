"""Cheapest choice of one option per device within two limits: a multiple-choice knapsack, solved exactly.

Prices on both limits give a lower bound. Then the devices are added one by one to a list of partial choices. A partial
choice stays only if no other beats it in cost, space and rate together, and if its price bound is below the best cost
so far.
"""

__all__ = ["cheapest_choice"]

import math

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.scheduling.solver.compiling import compiled
from fedfloor.scheduling.solver.floor import WITHIN

_STATES = 20_000  #: largest number of partial choices at a time
_CLOSE = 1e-9  #: gap, relative to the cost, that is not worth a search
_RELAXED = 1.0 + 2e-9  #: both limits in price bounds: beyond `WITHIN`, so that rounding at high prices proves nothing


@compiled
def _priced(mu: float, nu: float, cost: Floats, space: Floats, rate: Floats, many: Ints, choice: Ints) -> Floats:
    """Least cost + mu space + nu rate of every device, summed; and the space and rate of that choice, (3,)."""
    sums = np.zeros(3)
    for i in range(many.size):
        least, pick = math.inf, -1
        for k in range(many[i]):
            value = cost[i, k] + mu * space[i, k] + nu * rate[i, k]
            if value < least:
                least, pick = value, k
        if pick < 0:
            sums[:] = math.inf
            return sums
        choice[i] = pick
        sums[0] += least
        sums[1] += space[i, pick]
        sums[2] += rate[i, pick]
    return sums


@compiled
def _smallest(cost: Floats, space: Floats, rate: Floats, many: Ints, choice: Ints) -> tuple[float, float]:
    """Least space of any choice, which fills `choice`, and its rate; every device must have an option."""
    spaces, rates = 0.0, 0.0
    for i in range(many.size):
        least, pick = math.inf, -1
        for k in range(many[i]):
            if cost[i, k] < math.inf and space[i, k] < least:
                least, pick = space[i, k], k
        choice[i] = pick
        spaces += least
        rates += rate[i, pick]
    return spaces, rates


@compiled
def _space_price(nu: float, cost: Floats, space: Floats, rate: Floats, many: Ints, choice: Ints) -> Floats:
    """Price mu of the space whose bound is about the highest for a price nu of the rate: mu, bound and rate, (3,).

    `choice` is filled with a choice that fits the space. If there is none, and only then, the bound is inf.
    """
    result = np.array([0.0, math.inf, math.inf])
    sums = _priced(0.0, nu, cost, space, rate, many, choice)
    if sums[1] <= WITHIN or sums[0] == math.inf:
        result[1], result[2] = sums[0] - nu * _RELAXED, sums[2]
        return result
    least, result[2] = _smallest(cost, space, rate, many, choice)
    if least > WITHIN:
        return result
    low, high, bound = 0.0, 1e-3 * max(sums[0], 1e-9), sums[0] - nu * _RELAXED
    trial, highest = choice.copy(), 1e30 * high
    while True:
        sums = _priced(high, nu, cost, space, rate, many, trial)
        if sums[1] <= WITHIN:
            break
        bound, low, high = max(bound, sums[0] - (high + nu) * _RELAXED), high, high * 8.0
        if high > highest:  # only rounding leads here, because then the price outweighs everything else
            result[0], result[1] = low, bound
            return result
    choice[:] = trial
    for _ in range(30):
        result[0], result[2] = high, sums[2]
        bound = max(bound, sums[0] - (high + nu) * _RELAXED)
        if high - low <= 1e-6 * high:
            break
        middle = 0.5 * (low + high)
        trial_sums = _priced(middle, nu, cost, space, rate, many, trial)
        if trial_sums[1] > WITHIN:
            low = middle
            bound = max(bound, trial_sums[0] - (middle + nu) * _RELAXED)
        else:
            high, sums = middle, trial_sums
            choice[:] = trial
    result[1] = bound
    return result


@compiled
def _cost_if_fits(choice: Ints, cost: Floats, space: Floats, rate: Floats) -> float:
    costs, spaces, rates = 0.0, 0.0, 0.0
    for i in range(choice.size):
        costs += cost[i, choice[i]]
        spaces += space[i, choice[i]]
        rates += rate[i, choice[i]]
    return costs if spaces <= WITHIN and rates <= WITHIN else math.inf


@compiled
def _dearest(cost: Floats, many: Ints) -> float:
    """Highest cost of any choice."""
    total = 0.0
    for i in range(many.size):
        most = 0.0
        for k in range(many[i]):
            if cost[i, k] < math.inf:
                most = max(most, cost[i, k])
        total += most
    return total


@compiled
def cheapest_choice(
    cost: Floats, space: Floats, rate: Floats, many: Ints, limit: float, choice: Ints
) -> tuple[float, float]:
    """Least cost of one option per device with space and rate at most 1: proven lower bound, and cost of `choice`.

    Arrays are (n, K), row i filled up to `many[i]`; an option that costs inf does not exist. A choice that costs the
    limit or more counts as infeasible: then the second result is inf, `choice` is unchanged, and the first result may
    be the limit.
    """
    trial = np.zeros(many.size, np.int64)
    mu, bound, rates = _space_price(0.0, cost, space, rate, many, trial)
    if math.isinf(bound):
        return math.inf, math.inf
    best, nu = math.inf, 0.0
    dearest = _dearest(cost, many) * WITHIN
    if rates <= WITHIN:
        best = _cost_if_fits(trial, cost, space, rate)
        if best < limit:
            choice[:] = trial
        if mu == 0.0:
            return min(best, limit), best if best < limit else math.inf
    else:
        low, high = 0.0, 1e-2 * max(bound, 1e-9)
        for _ in range(40):
            middle = 0.5 * (low + high) if rates <= WITHIN else high
            if high - low <= 1e-4 * high or bound >= limit:
                break
            if bound > dearest:
                return math.inf, math.inf  # no choice costs that much, so none fits
            price, value, busy = _space_price(middle, cost, space, rate, many, trial)
            # The bound is concave in nu. Where it no longer rises and the choice stays, higher prices lead nowhere.
            if value <= bound and busy == rates > WITHIN:
                break
            if value > bound:
                bound, mu, nu = value, price, middle
            if busy <= WITHIN:
                rates, high = busy, middle
                fitting = _cost_if_fits(trial, cost, space, rate)
                if fitting < min(best, limit):
                    best = fitting
                    choice[:] = trial
            elif rates <= WITHIN:
                low = middle
            else:
                rates, low, high = busy, high, high * 8.0
    if bound >= limit or best <= bound * (1.0 + _CLOSE):
        return min(bound, limit, best), best if best < limit else math.inf
    least, complete = _undominated(cost, space, rate, many, mu, nu, min(best, limit), choice)
    best = min(best, least)
    return min(best, limit) if complete else min(bound, best, limit), best if best < limit else math.inf


@compiled
def _ranked(mu: float, nu: float, cost: Floats, space: Floats, rate: Floats, many: Ints) -> tuple[Ints, Ints, Floats]:
    """Order of the devices, largest price gap between their two best options first; options by price; and prices."""
    price, rank = np.full(cost.shape, math.inf), np.zeros(cost.shape, np.int64)
    regret = np.zeros(many.size)
    for i in range(many.size):
        for k in range(many[i]):
            price[i, k] = cost[i, k] + mu * space[i, k] + nu * rate[i, k]
        rank[i] = np.argsort(price[i])
        if many[i] > 1:
            regret[i] = price[i, rank[i, 1]] - price[i, rank[i, 0]]
    return np.argsort(-regret), rank, price


@compiled
def _front(states: Floats) -> Ints:
    """Indices of the states (cost, space, rate), (c, 3), that no other state beats in all three, by space."""
    front, size = np.empty(states.shape[0], np.int64), 0
    # Staircase of the states so far, which all need less space: as the rate rises, the cost falls.
    stair_rate, stair_cost, steps = np.empty(states.shape[0]), np.empty(states.shape[0]), 0
    for s in np.argsort(states[:, 1].copy()):  # a copy, so that one compiled sort serves all
        cost, rate = states[s, 0], states[s, 2]
        at = np.searchsorted(stair_rate[:steps], rate, side="right")
        if at > 0 and stair_cost[at - 1] <= cost:
            continue
        front[size] = s
        size += 1
        end = at  # steps from `at` to `end` are beaten by the new state
        while end < steps and stair_cost[end] >= cost:
            end += 1
        if end == at:
            for step in range(steps, at, -1):
                stair_rate[step], stair_cost[step] = stair_rate[step - 1], stair_cost[step - 1]
            steps += 1
        elif end > at + 1:
            for step in range(end, steps):
                stair_rate[step - end + at + 1], stair_cost[step - end + at + 1] = stair_rate[step], stair_cost[step]
            steps -= end - at - 1
        stair_rate[at], stair_cost[at] = rate, cost
    return front[:size]


@compiled
def _undominated(
    cost: Floats, space: Floats, rate: Floats, many: Ints, mu: float, nu: float, limit: float, choice: Ints
) -> tuple[float, bool]:
    """Least cost below the limit, which fills `choice`, else the limit; and whether the search was complete."""
    count = many.size
    order, rank, price = _ranked(mu, nu, cost, space, rate, many)
    rest, least = np.zeros(count + 1), np.zeros((count + 1, 3))  # least needs of the devices that follow
    for depth in range(count - 1, -1, -1):
        i = order[depth]
        needs = np.full(3, math.inf)
        for k in range(many[i]):
            if cost[i, k] < math.inf:
                needs[0] = min(needs[0], cost[i, k])
                needs[1], needs[2] = min(needs[1], space[i, k]), min(needs[2], rate[i, k])
        rest[depth] = rest[depth + 1] + price[i, rank[i, 0]]
        least[depth] = least[depth + 1] + needs
    states = np.zeros((1, 3))
    origin, first = np.zeros((64, 2), np.int64), np.zeros(count + 1, np.int64)  # parent and option of every state
    for depth in range(count):
        i = order[depth]
        children, total = np.empty((states.shape[0] * many[i], 3)), 0
        source = np.empty((children.shape[0], 2), np.int64)
        for s in range(states.shape[0]):
            for place in range(many[i]):
                k = rank[i, place]
                costs, spaces, rates = states[s, 0] + cost[i, k], states[s, 1] + space[i, k], states[s, 2] + rate[i, k]
                value = costs + mu * spaces + nu * rates + rest[depth + 1] - (mu + nu) * _RELAXED
                if not value < limit * (1.0 - 1e-12):
                    break  # the options that follow have higher prices
                fits = spaces + least[depth + 1, 1] <= WITHIN and rates + least[depth + 1, 2] <= WITHIN
                if fits and costs + least[depth + 1, 0] < limit:
                    children[total, 0], children[total, 1], children[total, 2] = costs, spaces, rates
                    source[total, 0], source[total, 1] = s, k
                    total += 1
        if total == 0:
            return limit, True
        front = _front(children[:total])
        if front.size > _STATES:
            return limit, False
        states = children[front]
        begin = first[depth]
        first[depth + 1] = begin + front.size
        if first[depth + 1] > origin.shape[0]:
            more = np.zeros((2 * first[depth + 1], 2), np.int64)
            more[:begin] = origin[:begin]
            origin = more
        origin[begin : begin + front.size] = source[front]
    at = np.argmin(states[:, 0])
    value = states[at, 0]
    for depth in range(count - 1, -1, -1):
        parent, choice[order[depth]] = origin[first[depth] + at]
        at = parent
    return value, True
