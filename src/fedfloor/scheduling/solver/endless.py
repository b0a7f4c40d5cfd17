"""Least energy of a floor's gateway if training may take forever: what decides whether a floor can be served at all.

Endless training costs only the fixed energies c, unless the gateway has a minimum frequency F. Then it also costs the
least sum of v w f^2 with frequencies f that add up to F, which is v F^2/S with S = sum(1/w), and nothing if a device
leaves the gateway no work and takes the frequency for free. Because F^2/S = max over u of 2 u F - u^2 S, a price u
turns the least sum into a knapsack with costs c - v u^2/w.
"""

__all__ = ["endless_energy", "one_idle"]

import math

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.scheduling.solver.compiling import compiled
from fedfloor.scheduling.solver.floor import Budget, Options
from fedfloor.scheduling.solver.knapsack import cheapest_choice

_PRICES = 60  #: largest number of prices that are tried
_CLOSE = 1e-9  #: gap, relative to the energy, at which no further price is tried


@compiled
def one_idle(options: Options) -> Floats:
    """Shares of a limit, (n, L+1), that exceed it together only if every device leaves the gateway some work."""
    count, share = options.many.size, np.zeros(options.w.shape)
    for i in range(count):
        for k in range(options.many[i]):
            if options.w[i, k] > 0.0:
                share[i, k] = 1.0 / (count - 1) if count > 1 else 2.0
    return share


@compiled
def endless_energy(options: Options, budget: Budget, choice: Ints) -> tuple[float, float]:
    """Least energy [J] of endless training within the memory: proven lower bound, and energy of `choice`, filled here.

    Both are inf, and `choice` is unchanged, if no choice fits the memory.
    """
    count, width = options.a.shape
    cost, space = np.full((count, width), math.inf), np.zeros((count, width))
    rate = one_idle(options) if budget.min_frequency > 0.0 else np.zeros((count, width))
    for i in range(count):
        for k in range(options.many[i]):
            cost[i, k], space[i, k] = options.c[i, k], options.g[i, k] / budget.memory
    least, attained = cheapest_choice(cost, space, rate, options.many, math.inf, choice)
    if budget.min_frequency == 0.0:
        return least, attained
    trial = choice.copy()
    busy_least, busy = _busy_energy(options, budget, trial)
    if busy < attained:
        choice[:] = trial
    return min(least, busy_least), min(attained, busy)


@compiled
def _busy_energy(options: Options, budget: Budget, choice: Ints) -> tuple[float, float]:
    """Like `endless_energy`, over the choices in which every device leaves the gateway some work."""
    count, width = options.a.shape
    cost, space, rate = np.full((count, width), math.inf), np.zeros((count, width)), np.zeros((count, width))
    highest = np.zeros(count)  # of 1/w
    smallest, largest = 0.0, 0.0  # S
    for i in range(count):
        lowest = math.inf
        for k in range(options.many[i]):
            space[i, k] = options.g[i, k] / budget.memory
            if options.w[i, k] > 0.0:
                highest[i], lowest = max(highest[i], 1.0 / options.w[i, k]), min(lowest, 1.0 / options.w[i, k])
        if highest[i] == 0.0:
            return math.inf, math.inf
        smallest, largest = smallest + lowest, largest + highest[i]
    trial = choice.copy()
    bound, best = 0.0, math.inf
    low, high = budget.min_frequency / largest, budget.min_frequency / smallest
    for turn in range(_PRICES):
        price = low if turn == 0 else high if turn == 1 else 0.5 * (low + high)
        weight = budget.capacitance * price * price
        for i in range(count):
            for k in range(options.many[i]):
                if options.w[i, k] > 0.0:
                    cost[i, k] = options.c[i, k] + weight * (highest[i] - 1.0 / options.w[i, k])
        least, attained = cheapest_choice(cost, space, rate, options.many, math.inf, trial)
        if attained == math.inf:
            return (math.inf, math.inf) if least == math.inf else (bound, best)
        bound = max(bound, least + 2.0 * budget.capacitance * price * budget.min_frequency - weight * largest)
        fixed, inverse = 0.0, 0.0
        for i in range(count):
            fixed += options.c[i, trial[i]]
            inverse += 1.0 / options.w[i, trial[i]]
        energy = fixed + budget.capacitance * (budget.min_frequency * budget.min_frequency) / inverse
        if energy < best:
            best = energy
            choice[:] = trial
        if best <= bound * (1.0 + _CLOSE):
            break
        if price * inverse < budget.min_frequency:
            low = price
        else:
            high = price
    return min(bound, best), best
