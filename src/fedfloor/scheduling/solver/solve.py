"""One interface for both solvers: the state of a round -> a decision with its objective and proven gap."""

__all__ = ["best_decision", "exact_delays", "fastest_delay", "first_delay", "solve"]

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.scheduling.solver.assignment import Assignment, assign
from fedfloor.scheduling.solver.compiling import decided, is_compiled, is_deferred
from fedfloor.scheduling.solver.exact import exact_plan, least_delays
from fedfloor.scheduling.solver.packing import Packed, pack
from fedfloor.scheduling.solver.paper import alternate, descended_delays, descended_plan
from fedfloor.scheduling.solver.reasons import reasons
from fedfloor.scheduling.solver.solution import Solution
from fedfloor.scheduling.state import IDLE, Allocation, Decision, RoundState

Result = TypeVar("Result")
_SMALL = 200  #: floor-channel pairs that the interpreter may decide


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """The best channels of a round, and what they were found with."""

    assignment: Assignment
    packed: Packed
    download: Floats  #: (M, J) [s]
    delay: Floats  #: (M, J) [s] of every floor on every channel; inf where it cannot take part
    bound: Floats | None  #: (M, J) [s] proven lower bounds on the delays; None if the solver proves none


def best_decision(state: RoundState, tradeoff: float, solver: str = "exact") -> Decision:
    """Decide a round: `exact` finds the global optimum, `paper` runs Algorithm 1."""
    return _interpreted_once(state, solver, lambda: _decision(state, _found(state, tradeoff, solver), solver))


def solve(state: RoundState, tradeoff: float, solver: str = "exact") -> Solution:
    """The best decision with what is proven about it and why floors are left out, which takes a little longer."""
    return _interpreted_once(state, solver, lambda: _solution(state, tradeoff, solver))


def _interpreted_once(state: RoundState, solver: str, decide: Callable[[], Result]) -> Result:
    """The result of `decide`; the interpreter gets the first small round before the compiler is loaded."""
    is_small = state.floors * state.channels <= _SMALL
    return decided(decide, is_small=is_small, first_delay=partial(first_delay, solver))


def first_delay(solver: str) -> str:
    """What takes long before the first decision; empty if nothing does."""
    last = exact_plan if solver == "exact" else descended_plan  # compiled last in a decision
    is_ready = is_deferred() or is_compiled(last)
    return "" if is_ready else "the solver is compiled once, which takes a minute or more"


def _found(state: RoundState, tradeoff: float, solver: str) -> _Found:
    packed, download = pack(state)
    if solver == "exact":
        delays = least_delays(packed, download)
        return _Found(assign(delays.best, state.queue, tradeoff), packed, download, delays.best, delays.bound)
    delay = descended_delays(packed, download)
    return _Found(alternate(delay, state.queue, tradeoff), packed, download, delay, None)


def _decision(state: RoundState, found: _Found, solver: str) -> Decision:
    channel = found.assignment.channel
    return Decision(channel=channel, allocation=_allocation(state, found.packed, channel, solver))


def _solution(state: RoundState, tradeoff: float, solver: str) -> Solution:
    found = _found(state, tradeoff, solver)
    best = found.assignment
    return Solution(
        _decision(state, found, solver),
        best.delay,
        best.objective,
        None if found.bound is None else _gap(best, found.delay, found.bound, state.queue, tradeoff),
        reasons(state, found.packed, found.download, best.channel, found.delay, solver),
    )


def exact_delays(state: RoundState) -> Floats:
    """Least delay of every floor on every channel, (M, J) [s]; inf where it cannot take part."""
    return _interpreted_once(state, "exact", lambda: least_delays(*pack(state)).best)


def fastest_delay(state: RoundState) -> float:
    """Least delay [s] of any floor on any channel, so of any round that serves a floor; 0 if none can be served."""
    delays = exact_delays(state)
    return float(delays.min()) if np.isfinite(delays).any() else 0.0


def _gap(best: Assignment, delay: Floats, bound: Floats, queue: Floats, tradeoff: float) -> float | None:
    """Largest possible distance of the objective from the optimum, relative to max(1, V delay).

    None if the bounds do not rule out that more floors can be served, because then objectives do not compare.
    """
    if np.array_equal(delay, bound):
        return 0.0
    proven = assign(bound, queue, tradeoff)
    if np.count_nonzero(proven.channel != IDLE) > np.count_nonzero(best.channel != IDLE):
        return None
    return max(0.0, (best.objective - proven.objective) / max(1.0, tradeoff * best.delay))


def _allocation(state: RoundState, packed: Packed, channel: Ints, solver: str) -> Allocation:
    """Cuts, frequencies and powers of the floors served; other floors get the shallowest cut, 0 Hz and 0 W."""
    devices = state.plant.devices.floor.size
    cut, frequency = np.full(devices, state.plant.workload.min_cut), np.zeros(devices)
    power = np.zeros(state.floors)
    plan = exact_plan if solver == "exact" else descended_plan
    for m in np.flatnonzero(channel != IDLE):
        rows = slice(int(packed.first[m]), int(packed.first[m + 1]))  # devices of the floor
        power[m] = min(plan(packed, int(m), int(channel[m]), cut[rows], frequency[rows]), packed.max_power[m])
    return Allocation(cut, frequency, power)
