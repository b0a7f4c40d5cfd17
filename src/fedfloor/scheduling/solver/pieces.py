"""Best option of every device at any training time T, as short lists of pieces in T.

`quickest` compares the frequencies w/(T - a), `cheapest` the energies v w^3/(T - a)^2 + c. If a device's options have
equal c, comparing w^{3/2}/(T - a) does the same and leads to a linear equation: two options cross at most once. With
different c they cross at most twice. Their difference has one stationary point, where their frequencies are equal, so
on either side of it there is at most one root. n options then have at most 2 n - 1 pieces, and one may come back.
"""

__all__ = ["Pieces", "cheapest_pieces", "choice_at", "energy_at", "fastest_time", "quickest_pieces"]

import math
from typing import NamedTuple

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.scheduling.solver.compiling import compiled
from fedfloor.scheduling.solver.floor import Options, computing_energy

_ENERGY, _FREQUENCY = 1.5, 1.0  #: power of w that is compared


class Pieces(NamedTuple):
    """Best option of n devices, piece by piece in T; arrays (n, 2L+2), of which row i is filled up to `many[i]`."""

    start: Floats  #: [s] the first piece starts, open, at the least a
    option: Ints
    many: Ints


@compiled
def quickest_pieces(options: Options) -> Pieces:
    """Pieces of T on which one option has the least frequency."""
    pieces = _empty_pieces(options)
    for i in range(options.many.size):
        _fill_by_power(i, options, _FREQUENCY, pieces)
    return pieces


@compiled
def cheapest_pieces(options: Options, capacitance: float) -> Pieces:
    """Pieces of T on which one option has the least energy."""
    pieces = _empty_pieces(options)
    for i in range(options.many.size):
        alike = True
        for k in range(1, options.many[i]):
            alike = alike and options.c[i, k] == options.c[i, 0]
        if alike:
            _fill_by_power(i, options, _ENERGY, pieces)
        else:
            _fill_by_energy(i, options, capacitance, pieces)
    return pieces


@compiled
def _empty_pieces(options: Options) -> Pieces:
    count, width = options.a.shape
    return Pieces(np.empty((count, 2 * width)), np.zeros((count, 2 * width), np.int64), np.zeros(count, np.int64))


@compiled
def _first_option(i: int, options: Options) -> int:
    """Option that is the best right after the least a: the one with the least a, then w, then c."""
    a, w, c, first = options.a[i], options.w[i], options.c[i], 0
    for k in range(1, options.many[i]):
        if a[k] != a[first]:
            first = k if a[k] < a[first] else first
        elif w[k] < w[first] or (w[k] == w[first] and c[k] < c[first]):
            first = k
    return first


@compiled
def _fill_by_power(i: int, options: Options, power: float, pieces: Pieces) -> None:
    """Fill the pieces of device i on which one option has the least w^power/(T - a)."""
    a, w = options.a, options.w
    start, option, many = pieces
    current = _first_option(i, options)
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


@compiled
def _fill_by_energy(i: int, options: Options, capacitance: float, pieces: Pieces) -> None:
    """Fill the pieces of device i on which one option has the least v w^3/(T - a)^2 + c.

    A follower is strictly cheaper when it takes over, so the list ends, whatever is rounded.
    """
    start, option, many = pieces
    current = _first_option(i, options)
    start[i, 0], option[i, 0], many[i] = options.a[i, current], current, 1
    while True:
        now, follower, least, cost = start[i, many[i] - 1], -1, math.inf, math.inf
        for k in range(options.many[i]):
            if k == current:
                continue
            takeover = _takeover(i, current, k, now, least, options, capacitance)
            if takeover < math.inf:
                energy = _energy(takeover, i, k, options, capacitance)
                if takeover < least or energy < cost:
                    follower, least, cost = k, takeover, energy
        if follower < 0:
            break
        if least > now and many[i] < start.shape[1]:
            many[i] += 1
        start[i, many[i] - 1], option[i, many[i] - 1] = least, follower
        current = follower


@compiled
def _energy(time: float, i: int, k: int, options: Options, capacitance: float) -> float:
    """Energy [J] of option k of device i at a time T; inf if T is too early."""
    return float(computing_energy(time, i, k, options, capacitance) + options.c[i, k])


@compiled
def _saving(time: float, i: int, current: int, k: int, options: Options, capacitance: float) -> float:
    """Energy [J] that option k saves against the current one at a time T at which the current one can be had."""
    other = _energy(time, i, k, options, capacitance)
    return _energy(time, i, current, options, capacitance) - other if other < math.inf else -math.inf


@compiled
def _takeover(i: int, current: int, k: int, now: float, latest: float, options: Options, capacitance: float) -> float:
    """First time in [now, latest] at which option k is cheaper than the current one; inf if there is none."""
    a, w = options.a[i], options.w[i]
    low, high = max(now, float(a[k])), latest
    if low <= high and _saving(low, i, current, k, options, capacitance) > 0.0:
        return low
    # The saving grows exactly while option k has the higher frequency: from `low` to `high`.
    if w[k] == w[current]:
        high = high if a[k] > a[current] else low
    else:
        equal = (w[current] * a[k] - w[k] * a[current]) / (w[current] - w[k])  # where both frequencies are equal
        low, high = (max(low, equal), high) if w[k] > w[current] else (low, min(high, equal))
    if low >= high:
        return math.inf
    if high == math.inf:  # in the end the saving is the difference of the fixed energies
        if options.c[i, k] >= options.c[i, current]:
            return math.inf
        step = max(low, 1e-9)
        high = low + step
        while not _saving(high, i, current, k, options, capacitance) > 0.0:
            step *= 2.0
            low, high = high, high + step
    elif not _saving(high, i, current, k, options, capacitance) > 0.0:
        return math.inf
    return _first_saving(low, high, i, current, k, options, capacitance)


@compiled
def _first_saving(low: float, high: float, i: int, current: int, k: int, options: Options, capacitance: float) -> float:
    """Time just behind the root of a saving that grows from `low`, where it is not positive, to `high`, where it is."""
    left, right = (
        _saving(low, i, current, k, options, capacitance),
        _saving(high, i, current, k, options, capacitance),
    )
    last_side = 0
    for turn in range(200):
        # Secant steps. The saving at an end that stays twice is halved (Illinois rule), so that both ends move.
        middle = high - right * (high - low) / (right - left) if left > -math.inf and turn % 8 < 7 else low
        if not low < middle < high:
            middle = 0.5 * (low + high)
        if high - low <= 1e-14 * high or not low < middle < high:
            break
        saving = _saving(middle, i, current, k, options, capacitance)
        if saving > 0.0:
            high, right = middle, saving
            left = 0.5 * left if last_side == 1 else left
            last_side = 1
        else:
            low, left = middle, saving
            right = 0.5 * right if last_side == -1 else right
            last_side = -1
    return high


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
def energy_at(time: float, options: Options, cheapest: Pieces, capacitance: float, left: bool) -> tuple[float, float]:
    """Energy E*(T) [J] of the devices at their cheapest options, and its derivative; (inf, -inf) if T is too early."""
    total, slope, fixed = 0.0, 0.0, 0.0
    for i in range(cheapest.many.size):
        k = choice_at(i, time, cheapest, left)
        cycles, spare = options.w[i, k], time - options.a[i, k]
        fixed += options.c[i, k]
        if cycles == 0.0:
            if spare < 0.0:
                return math.inf, -math.inf
            continue
        if spare <= 0.0:
            return math.inf, -math.inf
        rate = cycles / spare
        total += cycles * rate * rate
        slope -= 2.0 * cycles * rate * rate / spare
    return capacitance * total + fixed, capacitance * slope


@compiled
def _frequency_at(time: float, options: Options, quickest: Pieces) -> float:
    """Frequency [Hz] of the devices at their quickest options; inf if T is too early."""
    total = 0.0
    for i in range(quickest.many.size):
        k = choice_at(i, time, quickest, False)
        cycles, spare = options.w[i, k], time - options.a[i, k]
        if cycles == 0.0:
            if spare < 0.0:
                return math.inf
            continue
        if spare <= 0.0:
            return math.inf
        total += cycles / spare
    return total


@compiled
def fastest_time(options: Options, quickest: Pieces, max_frequency: float) -> float:
    """Least time T [s] at which the options of least frequency fit the gateway's maximum frequency."""
    low = 0.0
    for i in range(quickest.many.size):
        low = max(low, quickest.start[i, 0])
    if _frequency_at(low, options, quickest) <= max_frequency:
        return low
    step = max(low, 1e-9)
    high = low + step
    while _frequency_at(high, options, quickest) > max_frequency:
        step *= 2.0
        low, high = high, high + step
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high:
            break
        if _frequency_at(middle, options, quickest) > max_frequency:
            low = middle
        else:
            high = middle
    return high
