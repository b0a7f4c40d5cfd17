"""Options of one floor: the cuts that each device can afford, and the cheapest of them at any time T.

An option is (a, w, g): the device works for a seconds, the gateway for w cycles, and the gateway holds g bytes. To
finish by T the gateway runs at f = w/(T - a) and spends v w f^2 = v w^3/(T - a)^2. The costs of two options cross at
most once, because comparing w^{3/2}/(T - a) leads to a linear equation. So the cheapest cut of a device is a short list
of pieces in T.
"""

__all__ = [
    "ENERGY",
    "FREQUENCY",
    "WITHIN",
    "Budget",
    "Options",
    "Pieces",
    "choice_at",
    "fastest_time",
    "pieces_of",
    "total_at",
]

import math
from typing import NamedTuple

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.scheduling.solver.compiling import compiled

ENERGY, FREQUENCY = 1.5, 1.0  #: power of w that a piece list compares
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

    a: Floats  #: [s]    time on the device
    w: Floats  #: [1]    cycles on the gateway
    g: Floats  #: [byte] memory on the gateway
    cut: Ints
    many: Ints


class Pieces(NamedTuple):
    """Cheapest option of n devices, piece by piece in T; arrays (n, L+1), of which row i is filled up to `many[i]`."""

    start: Floats  #: [s]
    option: Ints
    many: Ints


@compiled
def pieces_of(options: Options, power: float) -> Pieces:
    """Pieces of T on which one option has the least w^power/(T - a); the first starts, open, at the least a."""
    a, w = options.a, options.w
    start, option = np.empty_like(a), np.zeros(a.shape, np.int64)
    many = np.zeros(options.many.size, np.int64)
    for i in range(many.size):
        current = 0
        for k in range(1, options.many[i]):
            if a[i, k] < a[i, current] or (a[i, k] == a[i, current] and w[i, k] < w[i, current]):
                current = k
        start[i, 0], option[i, 0], many[i] = a[i, current], current, 1
        while True:
            least, follower, height = math.inf, -1, w[i, current] ** power
            for k in range(options.many[i]):
                lower = w[i, k] ** power
                if lower < height:
                    crossing = (height * a[i, k] - lower * a[i, current]) / (height - lower)
                    if crossing < least or (crossing == least and w[i, k] < w[i, follower]):
                        least, follower = crossing, k
            if follower < 0:
                break
            p = many[i]
            start[i, p], option[i, p], many[i] = max(least, start[i, p - 1]), follower, p + 1
            current = follower
    return Pieces(start, option, many)


@compiled
def choice_at(i: int, time: float, pieces: Pieces, left: bool) -> int:
    """Option of device i at a time T; on a border, the option that ends there if `left`, else the one that starts."""
    low, high = 0, pieces.many[i]
    while high - low > 1:
        middle = (low + high) // 2
        if pieces.start[i, middle] < time or (pieces.start[i, middle] == time and not left):
            low = middle
        else:
            high = middle
    return int(pieces.option[i, low])


@compiled
def total_at(time: float, options: Options, pieces: Pieces, power: float, left: bool) -> tuple[float, float]:
    """Sum over the devices at their pieces, and its derivative in T; (inf, -inf) if T is too early.

    ENERGY: sum w^3/(T - a)^2, training energy over v. FREQUENCY: sum w/(T - a).
    """
    total, slope = 0.0, 0.0
    for i in range(pieces.many.size):
        k = choice_at(i, time, pieces, left)
        cycles, spare = options.w[i, k], time - options.a[i, k]
        if cycles == 0.0:
            if spare < 0.0:
                return math.inf, -math.inf
            continue
        if spare <= 0.0:
            return math.inf, -math.inf
        rate = cycles / spare
        if power == FREQUENCY:
            total += rate
            slope -= rate / spare
        else:
            total += cycles * rate * rate
            slope -= 2.0 * cycles * rate * rate / spare
    return total, slope


@compiled
def fastest_time(options: Options, quickest: Pieces, max_frequency: float) -> float:
    """Least time T [s] at which the options of least frequency fit the gateway's maximum frequency."""
    low = 0.0
    for i in range(quickest.many.size):
        low = max(low, quickest.start[i, 0])
    if total_at(low, options, quickest, FREQUENCY, False)[0] <= max_frequency:
        return low
    step = max(low, 1e-9)
    high = low + step
    while total_at(high, options, quickest, FREQUENCY, False)[0] > max_frequency:
        step *= 2.0
        low, high = high, high + step
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high:
            break
        if total_at(middle, options, quickest, FREQUENCY, False)[0] > max_frequency:
            low = middle
        else:
            high = middle
    return high
