"""Least delay of a floor on a channel when its devices do not compete for the gateway's memory and frequency.

Each device then takes its own cheapest cut. Between two borders of the piece lists the cuts do not change, so each
segment of T is a convex problem. What a floor needs at its borders does not depend on the channel: it is computed once,
when a channel first asks for it. E*(T) falls with T, so T in [s, t) gives no less than s + U(E - E*(t)). This rules out
whole stretches of segments.
"""

__all__ = ["Segments", "relaxed_minimum", "segments_of"]

import math
from typing import NamedTuple

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.scheduling.solver.compiling import compiled
from fedfloor.scheduling.solver.convex import Minimum, convex_minimum, inner_minimum
from fedfloor.scheduling.solver.floor import Budget, Options
from fedfloor.scheduling.solver.pieces import Pieces, choice_at, energy_at
from fedfloor.scheduling.solver.uplink import Link, best_upload, shortest_upload, upload_power

_MARGIN = 1e-9  #: nothing is ruled out that comes this close to the best delay, because rounding might decide


class Segments(NamedTuple):
    """Segments of T on which no device changes its cheapest cut, arrays (K,); energies are nan until needed."""

    begin: Floats  #: [s] sorted; a segment ends where the next begins, and the last one never
    energy: Floats  #: [J] E*(T) at the beginning
    slope: Floats  #: [W] its derivative there
    end_energy: Floats  #: [J] E*(T) just before the end
    end_slope: Floats  #: [W] its derivative there


@compiled
def segments_of(options: Options, cheapest: Pieces, earliest: float) -> Segments:
    """Segments of a floor from the earliest T [s] on."""
    many, endless = 1, 0.0
    for i in range(cheapest.many.size):
        endless += options.c[i, cheapest.option[i, cheapest.many[i] - 1]]
        for p in range(1, cheapest.many[i]):
            if cheapest.start[i, p] > earliest:
                many += 1
    begin = np.empty(many)
    begin[0] = earliest
    k = 1
    for i in range(cheapest.many.size):
        for p in range(1, cheapest.many[i]):
            if cheapest.start[i, p] > earliest:
                begin[k] = cheapest.start[i, p]
                k += 1
    begin.sort()
    unknown = np.full((4, many), math.nan)
    unknown[2, many - 1], unknown[3, many - 1] = endless, 0.0
    return Segments(begin, unknown[0], unknown[1], unknown[2], unknown[3])


@compiled
def _know_begin(k: int, segments: Segments, options: Options, cheapest: Pieces, capacitance: float) -> None:
    if math.isnan(segments.energy[k]):
        energy, slope = energy_at(segments.begin[k], options, cheapest, capacitance, False)
        segments.energy[k], segments.slope[k] = energy, slope


@compiled
def _know_end(k: int, segments: Segments, options: Options, cheapest: Pieces, capacitance: float) -> None:
    if math.isnan(segments.end_energy[k]):
        energy, slope = energy_at(segments.begin[k + 1], options, cheapest, capacitance, True)
        segments.end_energy[k], segments.end_slope[k] = energy, slope


@compiled
def _upload_and_slope(energy: float, slope: float, budget: Budget, link: Link) -> tuple[float, float]:
    """U(E - E*(T)) and the derivative of T + U(E - E*(T)), given E* and its slope; (inf, -inf) if E is too small."""
    upload, gain = best_upload(budget.energy - energy, link)
    if upload == math.inf:
        return math.inf, -math.inf
    return upload, 1.0 - gain * slope if gain < 0.0 else 1.0


@compiled
def _first_guess(segments: Segments, options: Options, cheapest: Pieces, budget: Budget, link: Link) -> int:
    """Segment before the first border at which the delay rises, as far as bisection can tell."""
    low, high = 0, segments.begin.size
    while low < high:
        middle = (low + high) // 2
        _know_begin(middle, segments, options, cheapest, budget.capacitance)
        if _upload_and_slope(segments.energy[middle], segments.slope[middle], budget, link)[1] < 0.0:
            low = middle + 1
        else:
            high = middle
    return max(low - 1, 0)


@compiled
def _next_right(
    k: int, best: float, segments: Segments, options: Options, cheapest: Pieces, budget: Budget, link: Link
) -> int:
    """First segment from k on that may beat the best delay; their number if there is none."""
    if best == math.inf:
        return k
    begin, count, stretch = segments.begin, segments.begin.size, 1
    while k < count:
        upload = best * (1.0 + _MARGIN) - begin[k]  # what is later than k has less time to upload
        if not upload > shortest_upload(link):
            return count
        least = upload_power(upload, link) * upload * (1.0 - _MARGIN) - 1e-12 * budget.energy
        if budget.energy - segments.end_energy[count - 1] <= least:
            return count
        last = min(k + stretch, count) - 1
        _know_end(last, segments, options, cheapest, budget.capacitance)
        if budget.energy - segments.end_energy[last] <= least:
            k, stretch = last + 1, 2 * stretch
        elif stretch == 1:
            return k
        else:
            stretch //= 2
    return count


@compiled
def _next_left(
    k: int, best: float, segments: Segments, options: Options, cheapest: Pieces, budget: Budget, link: Link
) -> int:
    """First segment from k downwards that may beat the best delay; -1 if there is none."""
    begin = segments.begin
    while k >= 0:
        _know_end(k, segments, options, cheapest, budget.capacitance)
        upload = best_upload(budget.energy - segments.end_energy[k], link)[0]  # what is earlier than k takes longer
        if upload == math.inf:
            return -1
        if begin[k] + upload < best * (1.0 + _MARGIN):
            return k
        k = int(np.searchsorted(begin[:k], best * (1.0 + _MARGIN) - upload)) - 1
    return -1


@compiled
def _segment_minimum(
    k: int,
    best: float,
    segments: Segments,
    options: Options,
    cheapest: Pieces,
    budget: Budget,
    link: Link,
    a: Floats,
    w: Floats,
) -> Minimum:
    """Least delay in segment k, inf if it cannot be below the best; a and w (n,) are scratch."""
    _know_begin(k, segments, options, cheapest, budget.capacitance)
    begin, last = segments.begin[k], k == segments.begin.size - 1
    upload, left = _upload_and_slope(segments.energy[k], segments.slope[k], budget, link)
    value = begin + upload
    if left >= 0.0 or (not last and segments.begin[k + 1] == begin):
        return Minimum(value, begin)
    end, end_value, right = math.inf, math.inf, math.inf
    if not last:
        _know_end(k, segments, options, cheapest, budget.capacitance)
        end = segments.begin[k + 1]
        upload, right = _upload_and_slope(segments.end_energy[k], segments.end_slope[k], budget, link)
        end_value = end + upload
        if right <= 0.0:
            return Minimum(end_value, end)
        # The delay lies above its tangents at both ends, so above the point where they meet.
        meet = begin if value == math.inf else (end_value - value + left * begin - right * end) / (left - right)
        if end_value - right * (end - meet) >= best * (1.0 + _MARGIN):
            return Minimum(math.inf, end)
    fixed = 0.0
    for i in range(a.size):
        option = choice_at(i, begin, cheapest, False)
        a[i], w[i] = options.a[i, option], options.w[i, option]
        fixed += options.c[i, option]
    free = Budget(budget.capacitance, 0.0, budget.max_frequency, budget.memory, budget.energy - fixed)
    if last:
        return convex_minimum(begin, end, a, w, free, link)
    return inner_minimum(begin, left, end, right, end_value, a, w, free, link)


@compiled
def relaxed_minimum(
    segments: Segments, options: Options, cheapest: Pieces, budget: Budget, link: Link, a: Floats, w: Floats
) -> Minimum:
    """Least T + U(E - E*(T)) with every device at its cheapest cut, f_min aside; a and w (n,) are scratch."""
    best, best_at = math.inf, segments.begin[0]
    if best_upload(budget.energy - segments.end_energy[segments.begin.size - 1], link)[0] == math.inf:
        return Minimum(best, best_at)
    guess = _first_guess(segments, options, cheapest, budget, link)
    k = guess
    while k < segments.begin.size:
        value, at = _segment_minimum(k, best, segments, options, cheapest, budget, link, a, w)
        if value < best:
            best, best_at = value, at
        k = _next_right(k + 1, best, segments, options, cheapest, budget, link)
    k = _next_left(guess - 1, best, segments, options, cheapest, budget, link)
    while k >= 0:
        value, at = _segment_minimum(k, best, segments, options, cheapest, budget, link, a, w)
        if value < best:
            best, best_at = value, at
        k = _next_left(k - 1, best, segments, options, cheapest, budget, link)
    return Minimum(best, best_at)
