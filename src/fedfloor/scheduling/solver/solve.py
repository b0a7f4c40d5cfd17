"""One interface for both solvers: the state of a round -> a decision with its objective and proven gap."""

__all__ = ["exact_delays", "fastest_delay", "first_delay", "solve"]

from functools import partial

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.scheduling.solver.assignment import Assignment, assign
from fedfloor.scheduling.solver.compiling import decided, is_compiled, is_deferred
from fedfloor.scheduling.solver.exact import exact_plan, least_delays
from fedfloor.scheduling.solver.packing import Packed, pack
from fedfloor.scheduling.solver.paper import alternate, descended_delays, descended_plan
from fedfloor.scheduling.solver.reasons import reasons
from fedfloor.scheduling.solver.solution import Solution
from fedfloor.scheduling.state import IDLE, Allocation, Decision, RoundState

_SMALL = 200  #: floor-channel pairs that the interpreter may decide


def solve(state: RoundState, tradeoff: float, solver: str = "exact") -> Solution:
    """Decide a round: `exact` finds the global optimum, `paper` runs Algorithm 1."""
    return decided(
        partial(_solved, state, tradeoff, solver),
        is_small=_is_small(state),
        first_delay=partial(first_delay, solver),
    )


def _is_small(state: RoundState) -> bool:
    """Whether the interpreter decides the round before the compiler would be loaded."""
    return state.weather.uplink_gain.size <= _SMALL


def first_delay(solver: str) -> str:
    """What takes long before the first decision; empty if nothing does."""
    last = exact_plan if solver == "exact" else descended_plan  # compiled last in a decision
    is_ready = is_deferred() or is_compiled(last)
    return "" if is_ready else "the solver is compiled once, which takes a minute or more"


def _solved(state: RoundState, tradeoff: float, solver: str) -> Solution:
    packed, download = pack(state)
    if solver == "exact":
        delays = least_delays(packed, download)
        best = assign(delays.best, state.queue, tradeoff)
        delay, gap = delays.best, _gap(best, delays.best, delays.bound, state.queue, tradeoff)
    else:
        delay = descended_delays(packed, download)
        best, gap = alternate(delay, state.queue, tradeoff), None
    decision = Decision(channel=best.channel, allocation=_allocation(state, packed, best, solver))
    return Solution(
        decision, best.delay, best.objective, gap, reasons(state, packed, download, best.channel, delay, solver)
    )


def exact_delays(state: RoundState) -> Floats:
    """Least delay of every floor on every channel, (M, J) [s]; inf where it cannot take part."""
    return decided(
        lambda: least_delays(*pack(state)).best, is_small=_is_small(state), first_delay=partial(first_delay, "exact")
    )


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


def _allocation(state: RoundState, packed: Packed, best: Assignment, solver: str) -> Allocation:
    """Cuts, frequencies and powers of the floors served; other floors get the shallowest cut, 0 Hz and 0 W."""
    devices, floors = state.plant.devices.floor.size, state.plant.gateways.count
    cut, frequency = np.full(devices, state.plant.workload.min_cut), np.zeros(devices)
    power = np.zeros(floors)
    plan = exact_plan if solver == "exact" else descended_plan
    for m in np.flatnonzero(best.channel >= 0):
        rows = slice(int(packed.first[m]), int(packed.first[m + 1]))  # devices of the floor
        power[m] = min(plan(packed, int(m), int(best.channel[m]), cut[rows], frequency[rows]), packed.max_power[m])
    return Allocation(cut, frequency, power)
