"""Options of one floor: what each device and its gateway need at every cut that the device can afford.

An option is (a, w, c, g): the device computes and sends for a seconds, the gateway computes w cycles, spends c joules
on the link to the device, and holds g bytes. To finish by T the gateway runs at f = w/(T - a) and spends
v w f^2 + c = v w^3/(T - a)^2 + c. Nothing is monotone in the cut: a deeper cut may send less and so take less time.
"""

__all__ = ["WITHIN", "Budget", "Options", "computing_energy", "least_space", "reduced", "undominated"]

import math
from typing import NamedTuple

from fedfloor.arrays import Floats, Ints
from fedfloor.scheduling.solver.compiling import compiled

WITHIN = 1.0 + 1e-9  #: tolerance of every limit, as in `costs.compute.exceeds`


class Budget(NamedTuple):
    """Resources of a gateway in a round."""

    capacitance: float  #: [W/Hz^3] v
    min_frequency: float  #: [Hz]
    max_frequency: float  #: [Hz]
    memory: float  #: [byte]
    energy: float  #: [J]


class Options(NamedTuple):
    """Options of n devices, from shallow to deep cuts; arrays (n, L+1), of which row i is filled up to `many[i]`."""

    a: Floats  #: [s]    time on the device and its link
    w: Floats  #: [1]    cycles on the gateway
    c: Floats  #: [J]    fixed energy of the gateway (device link)
    g: Floats  #: [byte] memory on the gateway
    cut: Ints
    many: Ints


@compiled
def undominated(options: Options) -> Options:
    """Remove, in place, the options that are no better than another one in a, w, c and g; ties go to the deeper cut."""
    a, w, c, g, cut, many = options
    for i in range(many.size):
        kept = 0
        for k in range(many[i]):
            beaten = False
            for other in range(many[i]):
                if other < kept or other > k:  # the shallower ones that are kept, and all deeper ones
                    no_better = a[i, other] <= a[i, k] and w[i, other] <= w[i, k]
                    beaten = beaten or (no_better and c[i, other] <= c[i, k] and g[i, other] <= g[i, k])
            if not beaten:
                a[i, kept], w[i, kept], c[i, kept], g[i, kept] = a[i, k], w[i, k], c[i, k], g[i, k]
                cut[i, kept] = cut[i, k]
                kept += 1
        many[i] = kept
    return options


@compiled
def computing_energy(time: float, i: int, k: int, options: Options, capacitance: float) -> float:
    """Energy [J] v w^3/(T - a)^2 of computing for device i with option k by a time T; inf if T is too early."""
    cycles, spare = options.w[i, k], time - options.a[i, k]
    if cycles == 0.0:
        return 0.0 if spare >= 0.0 else math.inf
    if spare <= 0.0:
        return math.inf
    hertz = cycles / spare
    return float(capacitance * cycles * hertz * hertz)


@compiled
def least_space(options: Options) -> float:
    """Least memory [byte] on the gateway over all choices of options."""
    total = 0.0
    for i in range(options.many.size):
        least = math.inf
        for k in range(options.many[i]):
            least = min(least, options.g[i, k])
        total += least
    return total


@compiled
def reduced(budget: Budget, energy: float) -> Budget:
    """Budget that is left after an energy [J] is spent."""
    return Budget(budget.capacitance, budget.min_frequency, budget.max_frequency, budget.memory, budget.energy - energy)
