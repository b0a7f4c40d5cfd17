"""Least delay of a floor on a channel with fixed cuts: a convex problem in the training time T.

T + U(E - E(T)) is convex, because U is convex and falls with its energy, and E - E(T) is concave. The functions here
take the cuts as a and w (n,); the budget must have been reduced by the cuts' fixed energies c.
"""

__all__ = ["Minimum", "convex_minimum", "fixed_energy", "inner_minimum", "raised_level"]

import math
from typing import NamedTuple

from fedfloor.arrays import Floats
from fedfloor.scheduling.solver.compiling import compiled
from fedfloor.scheduling.solver.floor import Budget
from fedfloor.scheduling.solver.uplink import Link, best_upload, shortest_energy, shortest_upload

_LATEST = 1e300  #: [s] if the energy does not suffice until then, it never does


class Minimum(NamedTuple):
    """Least delay of training and upload together."""

    value: float  #: [s] inf if the energy never suffices
    time: float  #: [s] T, of the training


@compiled
def fixed_energy(time: float, a: Floats, w: Floats, budget: Budget) -> tuple[float, float]:
    """Least computing energy [J] of fixed cuts (n,) at time T, and its derivative.

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
    return inner_minimum(low, left, high, right, value, a, w, budget, link)


@compiled
def _full_power_time(low: float, high: float, a: Floats, w: Floats, budget: Budget, link: Link) -> float:
    """Time close behind the first in (low, high] from which the energy allows the maximum power; high if unsure.

    The delay often has its minimum at that kink, where slopes alone lead there slowly. Newton's steps on the convex
    energy approach it from the left.
    """
    if budget.min_frequency > 0.0:  # raised frequencies need not fall with every step of rounding
        return high
    most, time = budget.energy - shortest_energy(link), high
    for _ in range(20):
        energy, slope = fixed_energy(time, a, w, budget)
        step = (most - energy) / slope
        time = max(time + step, low)
        if not abs(step) > 1e-8 * time:
            break
    time *= 1.0 + 1e-13
    if not low < time < high:
        return high
    return time if best_upload(budget.energy - fixed_energy(time, a, w, budget)[0], link)[1] == 0.0 else high


@compiled
def inner_minimum(
    low: float, left: float, high: float, right: float, value: float, a: Floats, w: Floats, budget: Budget, link: Link
) -> Minimum:
    """Least T + U(E - E(T)) of fixed cuts (n,) between times with slopes left < 0 and right >= 0; value is at high."""
    best, best_at, shortest = value, high, shortest_upload(link)
    plenty = _full_power_time(low, high, a, w, budget, link) if right == 1.0 else high
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
        value, bend = (middle + shortest, 1.0) if middle >= plenty else _delay(middle, a, w, budget, link)
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
