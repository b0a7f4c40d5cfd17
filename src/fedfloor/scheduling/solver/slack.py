"""Least delay of a floor on a channel when its devices do not compete for the gateway's memory and frequency.

Each device then takes its own cheapest cut. Between two borders of the piece lists the cuts do not change, and
T + U(E - E*(T)) is convex in T: U is convex and falls with its energy, and E - E*(T) is concave. Each segment needs one
root, and segments that cannot win are skipped.
"""

__all__ = ["Minimum", "borders", "convex_minimum", "fixed_energy", "raised_level", "relaxed_minimum"]

import math
from typing import NamedTuple

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.scheduling.solver.compiling import compiled
from fedfloor.scheduling.solver.floor import ENERGY, Budget, Options, Pieces, choice_at, total_at
from fedfloor.scheduling.solver.uplink import Link, best_upload, shortest_upload

_LATEST = 1e300  #: [s] if the energy does not suffice until then, it never does


class Minimum(NamedTuple):
    """Least delay of training and upload together."""

    value: float  #: [s] inf if the energy never suffices
    time: float  #: [s] T, of the training


@compiled
def borders(pieces: Pieces, earliest: float) -> Floats:
    """Sorted times [s] at which any device changes its cut, beginning with the earliest T, (K,)."""
    many = 1
    for i in range(pieces.many.size):
        for p in range(1, pieces.many[i]):
            if pieces.start[i, p] > earliest:
                many += 1
    times = np.empty(many)
    times[0] = earliest
    k = 1
    for i in range(pieces.many.size):
        for p in range(1, pieces.many[i]):
            if pieces.start[i, p] > earliest:
                times[k] = pieces.start[i, p]
                k += 1
    times.sort()
    return times


@compiled
def fixed_energy(time: float, a: Floats, w: Floats, budget: Budget) -> tuple[float, float]:
    """Least training energy [J] of fixed cuts (n,) at time T, and its derivative.

    Frequencies exceed w/(T - a) only if their sum would otherwise miss its minimum. Those below level/w
    then rise to it, because there one more hertz costs the same on all of them.
    """
    total, slope, hertz, idle = 0.0, 0.0, 0.0, False
    for i in range(a.size):
        spare = time - a[i]
        if w[i] == 0.0:
            if spare < 0.0:
                return math.inf, -math.inf
            idle = True
            continue
        if spare <= 0.0:
            return math.inf, -math.inf
        rate = w[i] / spare
        hertz += rate
        total += w[i] * rate * rate
        slope -= 2.0 * w[i] * rate * rate / spare
    if hertz < budget.min_frequency and not idle:  # an idle device would fill up the frequency at no cost
        level = raised_level(time, a, w, budget.min_frequency)
        total, slope = 0.0, 0.0
        for i in range(a.size):
            spare = time - a[i]
            rate = w[i] / spare
            if rate > level / w[i]:
                total += w[i] * rate * rate
                slope -= 2.0 * (w[i] * rate - level) * rate / spare
            else:
                total += level * level / w[i]
    return budget.capacitance * total, budget.capacitance * slope


@compiled
def raised_level(time: float, a: Floats, w: Floats, min_frequency: float) -> float:
    """Level at which the frequencies max(w/(T - a), level/w) add up to the minimum; all w > 0."""
    low, high = 0.0, 0.0
    for i in range(a.size):
        high = max(high, min_frequency * w[i])
    for _ in range(200):
        level = 0.5 * (low + high)
        if level <= low or level >= high:
            break
        hertz = 0.0
        for i in range(a.size):
            hertz += max(w[i] / (time - a[i]), level / w[i])
        if hertz < min_frequency:
            low = level
        else:
            high = level
    return high


@compiled
def _delay(time: float, a: Floats, w: Floats, budget: Budget, link: Link) -> tuple[float, float]:
    """T + U(E - E(T)) of fixed cuts, and its derivative; (inf, -inf) if the energy does not suffice."""
    energy, slope = fixed_energy(time, a, w, budget)
    upload, gain = best_upload(budget.energy - energy, link)
    if upload == math.inf:
        return math.inf, -math.inf
    return time + upload, 1.0 - gain * slope if gain < 0.0 else 1.0


@compiled
def convex_minimum(low: float, high: float, a: Floats, w: Floats, budget: Budget, link: Link) -> Minimum:
    """Least T + U(E - E(T)) of fixed cuts (n,) for T in [low, high]; high may be inf."""
    value, left = _delay(low, a, w, budget, link)
    if left >= 0.0:
        return Minimum(value, low)
    if high == math.inf:
        step = max(low, 1e-6)
        high = low + step
        value, right = _delay(high, a, w, budget, link)
        while right < 0.0:
            if step > _LATEST:
                return Minimum(math.inf, low)
            step *= 2.0
            low, left = high, right
            high += step
            value, right = _delay(high, a, w, budget, link)
    else:
        value, right = _delay(high, a, w, budget, link)
        if right <= 0.0:
            return Minimum(value, high)
    best, best_at = value, high
    # Secant steps on the slope. The slope of an end that stays twice is halved (Illinois rule), so that both ends move.
    heavy_left, heavy_right, last_side = left, right, 0
    for turn in range(200):
        middle = 0.5 * (low + high)
        if heavy_left > -math.inf and turn % 8 < 7:
            middle = high - heavy_right * (high - low) / (heavy_right - heavy_left)
        if not low < middle < high:
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
        value, bend = _delay(middle, a, w, budget, link)
        if value < best:
            best, best_at = value, middle
        if bend >= 0.0:
            high, right, heavy_right = middle, bend, bend
            heavy_left = 0.5 * heavy_left if last_side == 1 else left
            last_side = 1
        else:
            low, left, heavy_left = middle, bend, bend
            heavy_right = 0.5 * heavy_right if last_side == -1 else right
            last_side = -1
        # Between the ends a convex function falls no further than its slopes allow.
        if min(-left, right) * (high - low) <= 1e-12 * best:
            break
    return Minimum(best, best_at)


@compiled
def _cheapest(
    time: float, options: Options, pieces: Pieces, budget: Budget, link: Link, left: bool
) -> tuple[float, float, float]:
    """T + U(E - E*(T)) at the cheapest cuts, U alone, and the derivative of the sum."""
    total, slope = total_at(time, options, pieces, ENERGY, left)
    upload, gain = best_upload(budget.energy - budget.capacitance * total, link)
    if upload == math.inf:
        return math.inf, math.inf, -math.inf
    return time + upload, upload, 1.0 - gain * budget.capacitance * slope if gain < 0.0 else 1.0


@compiled
def relaxed_minimum(
    times: Floats, options: Options, pieces: Pieces, budget: Budget, link: Link, a: Floats, w: Floats
) -> Minimum:
    """Least T + U(E - E*(T)) for T >= times[0] with every device at its cheapest cut; a and w (n,) are scratch."""
    earliest, segments, shortest = times[0], times.size, shortest_upload(link)
    best, best_at = math.inf, earliest
    if best_upload(budget.energy, link)[0] == math.inf:
        return Minimum(best, best_at)
    # First guess: the segment before the first border at which the value rises.
    low, high = 0, segments
    while low < high:
        middle = (low + high) // 2
        if _cheapest(times[middle], options, pieces, budget, link, False)[2] < 0.0:
            low = middle + 1
        else:
            high = middle
    guess = max(low - 1, 0)
    for way in (1, -1):
        k = guess if way == 1 else guess - 1
        while 0 <= k < segments:
            begin = times[k]
            end = times[k + 1] if k + 1 < segments else math.inf
            if way == 1 and begin + shortest >= best:
                break  # every segment to the right starts even later
            if way == -1 and earliest + _cheapest(end, options, pieces, budget, link, True)[1] >= best:
                break  # every segment to the left has even less energy
            value, _, slope = _cheapest(begin, options, pieces, budget, link, False)
            at = begin
            if slope < 0.0:
                for i in range(a.size):
                    option = choice_at(i, begin, pieces, False)
                    a[i], w[i] = options.a[i, option], options.w[i, option]
                value, at = convex_minimum(begin, end, a, w, budget, link)
            if value < best:
                best, best_at = value, at
            k += way
    return Minimum(best, best_at)
