"""Algorithm 1 of the paper with corrections: block coordinate descent, then lambda and the Hungarian method in turn.

Cuts and frequencies follow by bisection on the training delay, the power from its root. Each block keeps the others
fixed, and a block that finds nothing better leaves its variables unchanged. The descent starts from equal frequencies,
full power and the shallowest cuts. It ends when a pass changes the delay by less than a fraction 1e-9, or after 30
passes. A floor for which it finds no allocation counts as infeasible, even if an allocation exists.
"""

__all__ = ["alternate", "descended_delays", "descended_plan"]

import math

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.scheduling.solver.assignment import Assignment, assignment_of
from fedfloor.scheduling.solver.compiling import compiled, compiled_parallel, prange
from fedfloor.scheduling.solver.exact import SIDE_BY_SIDE
from fedfloor.scheduling.solver.floor import WITHIN, Budget, Options
from fedfloor.scheduling.solver.packing import Packed, floor_budget, floor_link, floor_options
from fedfloor.scheduling.solver.uplink import Link, best_upload, upload_power
from fedfloor.scheduling.state import IDLE

_PASSES = 30
_CHANGE = 1e-9
_BISECTIONS = 60


@compiled
def _training_delay(options: Options, choice: Ints, frequency: Floats) -> float:
    slowest = 0.0
    for i in range(choice.size):
        k = choice[i]
        top = options.w[i, k] / frequency[i] if options.w[i, k] > 0.0 else 0.0
        slowest = max(slowest, options.a[i, k] + top)
    return slowest


@compiled
def _training_energy(options: Options, choice: Ints, frequency: Floats, capacitance: float) -> float:
    total = 0.0
    for i in range(choice.size):
        total += capacitance * options.w[i, choice[i]] * (frequency[i] * frequency[i]) + options.c[i, choice[i]]
    return total


@compiled
def _best_cuts(options: Options, budget: Budget, frequency: Floats, upload_energy: float, choice: Ints) -> None:
    """Cuts by bisection on the delay, Eq. (21): the smallest of each admissible interval."""
    low, high = math.inf, 0.0
    for i in range(choice.size):
        for k in range(options.many[i]):
            delay = options.a[i, k] + (options.w[i, k] / frequency[i] if options.w[i, k] > 0.0 else 0.0)
            if delay < math.inf:  # a device that trains all layers has no frequency, so other cuts take forever
                low, high = min(low, delay), max(high, delay)
    trial = np.zeros_like(choice)
    for turn in range(_BISECTIONS):
        middle = high if turn == 0 else 0.5 * (low + high)
        admissible, space = True, 0.0
        for i in range(choice.size):
            trial[i] = -1
            for k in range(options.many[i]):  # C5, C7', C9' are in the options; the delay is the last condition
                delay = options.a[i, k] + (options.w[i, k] / frequency[i] if options.w[i, k] > 0.0 else 0.0)
                if delay <= middle:
                    trial[i] = k
                    break
            if trial[i] < 0:
                admissible = False
                break
            space += options.g[i, trial[i]]
        if admissible:
            joules = _training_energy(options, trial, frequency, budget.capacitance) + upload_energy
            admissible = space <= budget.memory * WITHIN and joules <= budget.energy * WITHIN  # C8', C10'
        if admissible:
            high = middle
            choice[:] = trial
        else:
            low = middle
        if turn > 0 and high - low <= 1e-12 * high:
            break


@compiled
def _best_frequencies(options: Options, budget: Budget, choice: Ints, upload_energy: float, frequency: Floats) -> None:
    """Frequencies by bisection on the delay, Eq. (22).

    Without a minimum frequency the paper's upper end is infinite, so we double the present delay until it is feasible.
    """
    low, high, bracketed = 0.0, 0.0, False
    for i in range(choice.size):
        low = max(low, options.a[i, choice[i]])
    high = max(_training_delay(options, choice, frequency), low)
    trial = np.zeros_like(frequency)
    for _ in range(2 * _BISECTIONS):
        middle = 0.5 * (low + high) if bracketed else high
        hertz = 0.0
        for i in range(choice.size):
            cycles, spare = options.w[i, choice[i]], middle - options.a[i, choice[i]]
            trial[i] = 0.0 if cycles == 0.0 else cycles / spare if spare > 0.0 else math.inf
            hertz += trial[i]
        if hertz < budget.min_frequency:  # C6 from below: an idle device gets the missing frequency, or all run faster
            idle = -1
            for i in range(choice.size):
                if options.w[i, choice[i]] == 0.0:
                    idle = i
            if idle >= 0:
                trial[idle] = budget.min_frequency - hertz
            else:
                for i in range(choice.size):
                    trial[i] *= budget.min_frequency / hertz
            hertz = budget.min_frequency
        joules = _training_energy(options, choice, trial, budget.capacitance) + upload_energy
        if hertz <= budget.max_frequency * WITHIN and joules <= budget.energy * WITHIN:
            high, bracketed = middle, True
            frequency[:] = trial
        elif bracketed:
            low = middle
        else:
            low, high = high, 2.0 * high
        if bracketed and high - low <= 1e-12 * high:
            break


@compiled
def _descend(options: Options, budget: Budget, link: Link, choice: Ints, frequency: Floats) -> tuple[float, float]:
    """Block coordinate descent for a floor on a channel: total delay [s] and upload time [s]; both inf if it fails."""
    frequency[:] = budget.max_frequency / frequency.size
    choice[:] = 0
    if link.most_log <= 0.0:
        return math.inf, math.inf
    upload = link.scale / link.most_log
    previous, best, best_upload_time = math.inf, math.inf, math.inf
    best_choice, best_frequency = choice.copy(), frequency.copy()
    for _ in range(_PASSES):
        upload_energy = upload_power(upload, link) * upload
        _best_cuts(options, budget, frequency, upload_energy, choice)
        _best_frequencies(options, budget, choice, upload_energy, frequency)
        training_energy = _training_energy(options, choice, frequency, budget.capacitance)
        upload, _ = best_upload(budget.energy - training_energy, link)  # Eq. (24): all energy that is left
        if upload == math.inf:
            break
        delay = _training_delay(options, choice, frequency) + upload
        space = 0.0
        for i in range(choice.size):
            space += options.g[i, choice[i]]
        hertz = frequency.sum()
        fits = space <= budget.memory * WITHIN and hertz <= budget.max_frequency * WITHIN
        if delay < best and fits and hertz >= budget.min_frequency / WITHIN:
            best, best_upload_time = delay, upload
            best_choice[:], best_frequency[:] = choice, frequency
        if abs(previous - delay) <= _CHANGE * delay:
            break
        previous = delay
    choice[:], frequency[:] = best_choice, best_frequency
    return best, best_upload_time


@compiled
def _floor_delays(packed: Packed, m: int, download: Floats, delay: Floats) -> None:
    """Fill row m of delay (M, J)."""
    options, budget = floor_options(packed, m), floor_budget(packed, m)
    choice, frequency = np.zeros(options.many.size, np.int64), np.zeros(options.many.size)
    able = bool(np.all(options.many > 0))
    for j in range(delay.shape[1]):
        delay[m, j] = math.inf
        if able:
            delay[m, j] = _descend(options, budget, floor_link(packed, m, j), choice, frequency)[0] + download[m, j]


@compiled
def _delays_in_turn(packed: Packed, download: Floats, delay: Floats) -> None:
    for m in range(delay.shape[0]):
        _floor_delays(packed, m, download, delay)


@compiled_parallel
def _delays_side_by_side(packed: Packed, download: Floats, delay: Floats) -> None:
    for m in prange(delay.shape[0]):
        _floor_delays(packed, m, download, delay)


def descended_delays(packed: Packed, download: Floats) -> Floats:
    """Delay (M, J) [s] that the descent attains, download (M, J) [s] included; inf where it finds nothing."""
    delay = np.empty_like(download)
    fill = _delays_side_by_side if delay.size >= SIDE_BY_SIDE else _delays_in_turn
    fill(packed, download, delay)
    return delay


@compiled
def descended_plan(packed: Packed, m: int, j: int, cut: Ints, frequency: Floats) -> float:
    """Fill cut and frequency (n,) of floor m on channel j, and return its power [W]."""
    options, budget, link = floor_options(packed, m), floor_budget(packed, m), floor_link(packed, m, j)
    choice = np.zeros(options.many.size, np.int64)
    _, upload = _descend(options, budget, link, choice, frequency)
    for i in range(choice.size):
        cut[i] = options.cut[i, choice[i]]
    return upload_power(upload, link)


def alternate(delay: Floats, queue: Floats, tradeoff: float) -> Assignment:
    """Hungarian assignment and lambda in turn, Eq. (27)-(31), starting with lambda = infinity."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415  # takes half a second to load

    floors, _ = delay.shape
    limit, previous = math.inf, np.full(floors, IDLE)  # lambda/V, and the channels of the last pass
    huge = 1.0 + 2.0 * float(np.sum(np.abs(queue)))  # Psi: no sum of queues makes up for a forbidden pair
    while True:
        allowed = np.isfinite(delay) & (delay <= limit)
        rows, columns = linear_sum_assignment(np.where(allowed, -queue[:, None], huge))
        valid = allowed[rows, columns]
        channel = np.full(floors, IDLE)
        channel[rows[valid]] = columns[valid]
        if not valid.any() or np.array_equal(channel, previous):
            break
        previous = channel
        # Paper note: Eq. (31) prints lambda* without the factor V that C12 has; divided by V, both are the delay.
        limit = float(delay[rows[valid], columns[valid]].max()) if tradeoff > 0.0 else math.inf
    return assignment_of(previous, delay, queue, tradeoff)
