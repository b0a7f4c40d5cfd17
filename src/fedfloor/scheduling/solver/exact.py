"""Global minimum of the delay of every floor on every channel, and the allocation that attains it."""

__all__ = ["ENUMERATED", "SIDE_BY_SIDE", "Delays", "Floor", "exact_plan", "floor_of", "least_delay", "least_delays"]

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.scheduling.solver.compiling import compiled, compiled_parallel, prange
from fedfloor.scheduling.solver.convex import convex_minimum, fixed_energy, raised_level
from fedfloor.scheduling.solver.coupled import combinations, enumerated_minimum, searched_minimum
from fedfloor.scheduling.solver.floor import WITHIN, Budget, Options, least_space, reduced
from fedfloor.scheduling.solver.packing import Packed, floor_budget, floor_link, floor_options
from fedfloor.scheduling.solver.pieces import Pieces, cheapest_pieces, choice_at, fastest_time, quickest_pieces
from fedfloor.scheduling.solver.slack import Segments, relaxed_minimum, segments_of
from fedfloor.scheduling.solver.uplink import Link, best_upload, upload_power

SIDE_BY_SIDE = 1_000  #: number of floor-channel pairs from which a second core pays off
ENUMERATED = 256  #: up to this many combinations of cuts are all tried; more are searched


@dataclass(frozen=True, slots=True, eq=False)
class Delays:
    """Least delay of every floor on every channel, download included; inf where it cannot take part."""

    best: Floats  #: (M, J) [s] attained
    bound: Floats  #: (M, J) [s] proven lower bound


@compiled
def _fits(time: float, choice: Ints, options: Options, budget: Budget) -> bool:
    """Whether a choice of cuts with training time `time` fits the memory and the frequency limits."""
    space, hertz, idle = 0.0, 0.0, False
    for i in range(choice.size):
        k = choice[i]
        space += options.g[i, k]
        if options.w[i, k] > 0.0:
            hertz += options.w[i, k] / (time - options.a[i, k])
        else:
            idle = True
    if hertz < budget.min_frequency and not idle:
        return False
    return space <= budget.memory * WITHIN and hertz <= budget.max_frequency * WITHIN


class Floor(NamedTuple):
    """Everything about a floor in a round that does not depend on its channel."""

    options: Options
    budget: Budget
    cheapest: Pieces
    quickest: Pieces
    segments: Segments


@compiled
def floor_of(options: Options, budget: Budget) -> Floor:
    """Floor with these options, of which every device has one."""
    cheapest, quickest = cheapest_pieces(options, budget.capacitance), quickest_pieces(options)
    earliest = fastest_time(options, quickest, budget.max_frequency)
    return Floor(options, budget, cheapest, quickest, segments_of(options, cheapest, earliest))


@compiled
def least_delay(floor: Floor, link: Link, choice: Ints, a: Floats, w: Floats) -> tuple[float, float, float]:
    """Least training and upload time of a floor on a channel, its T, and a proven lower bound.

    Fills `choice` (n,); a and w (n,) are scratch.
    """
    options, budget, cheapest, quickest, segments = floor
    devices, earliest = options.many.size, segments.begin[0]
    bound, at = relaxed_minimum(segments, options, cheapest, budget, link, a, w)
    if bound == math.inf:
        return math.inf, at, math.inf
    for i in range(devices):
        choice[i] = choice_at(i, at, cheapest, False)
    if _fits(at, choice, options, budget):
        return bound, at, bound
    # If energy is plentiful the fastest cuts win, whatever they cost.
    space, fixed = 0.0, 0.0
    for i in range(devices):
        choice[i] = choice_at(i, earliest, quickest, False)
        a[i], w[i] = options.a[i, choice[i]], options.w[i, choice[i]]
        space += options.g[i, choice[i]]
        fixed += options.c[i, choice[i]]
    if space <= budget.memory * WITHIN:
        value, at = convex_minimum(earliest, math.inf, a, w, reduced(budget, fixed), link)
        if value <= bound * (1.0 + 1e-12):
            return value, at, bound
    if combinations(options.many, ENUMERATED) <= ENUMERATED:
        value, at = enumerated_minimum(options, budget, link, bound, choice, a, w)
        return value, at, value
    return searched_minimum(earliest, options, budget, link, bound, choice, a, w)


@compiled
def _able(options: Options, budget: Budget) -> bool:
    """Whether every device has a cut, and the cuts of least memory fit the gateway."""
    for i in range(options.many.size):
        if options.many[i] == 0:
            return False
    return least_space(options) <= budget.memory * WITHIN


@compiled
def _floor_delays(packed: Packed, m: int, download: Floats, best: Floats, bound: Floats) -> None:
    """Fill row m of best and bound (M, J)."""
    options, budget = floor_options(packed, m), floor_budget(packed, m)
    best[m, :] = math.inf
    bound[m, :] = math.inf
    if not _able(options, budget):
        return
    floor = floor_of(options, budget)
    choice, a, w = np.zeros(options.many.size, np.int64), np.empty(options.many.size), np.empty(options.many.size)
    for j in range(best.shape[1]):
        value, _, proven = least_delay(floor, floor_link(packed, m, j), choice, a, w)
        best[m, j] = value + download[m, j]
        bound[m, j] = proven + download[m, j]


@compiled
def _delays_in_turn(packed: Packed, download: Floats, best: Floats, bound: Floats) -> None:
    for m in range(best.shape[0]):
        _floor_delays(packed, m, download, best, bound)


@compiled_parallel
def _delays_side_by_side(packed: Packed, download: Floats, best: Floats, bound: Floats) -> None:
    for m in prange(best.shape[0]):
        _floor_delays(packed, m, download, best, bound)


@compiled
def exact_plan(packed: Packed, m: int, j: int, cut: Ints, frequency: Floats) -> float:
    """Fill cut and frequency (n,) of floor m on channel j at its least delay, and return its power [W]."""
    options, budget, link = floor_options(packed, m), floor_budget(packed, m), floor_link(packed, m, j)
    choice, a, w = np.zeros(options.many.size, np.int64), np.empty(options.many.size), np.empty(options.many.size)
    value, time, _ = least_delay(floor_of(options, budget), link, choice, a, w)
    hertz, fixed, idle = 0.0, 0.0, -1
    for i in range(choice.size):
        k = choice[i]
        a[i], w[i], cut[i] = options.a[i, k], options.w[i, k], options.cut[i, k]
        frequency[i] = w[i] / (time - a[i]) if w[i] > 0.0 else 0.0
        hertz += frequency[i]
        fixed += options.c[i, k]
        if w[i] == 0.0:
            idle = i
    if hertz > budget.max_frequency:  # by rounding, if a device leaves the gateway almost no work
        for i in range(choice.size):
            frequency[i] *= budget.max_frequency / hertz
    if hertz < budget.min_frequency:
        if idle >= 0:
            frequency[idle] = budget.min_frequency - hertz
        else:
            level = raised_level(time, a, w, budget.min_frequency)
            for i in range(choice.size):
                frequency[i] = max(frequency[i], level / w[i])
    # The upload time follows from the energy left: as a difference of two long times it would lose its digits.
    upload, _ = best_upload(budget.energy - fixed - fixed_energy(time, a, w, budget)[0], link)
    return upload_power(upload if upload < math.inf else value - time, link)


def least_delays(packed: Packed, download: Floats) -> Delays:
    """Least delay of every floor on every channel, with download times (M, J) [s]."""
    best, bound = np.empty_like(download), np.empty_like(download)
    fill = _delays_side_by_side if best.size >= SIDE_BY_SIDE else _delays_in_turn
    fill(packed, download, best, bound)
    return Delays(best, bound)
