"""How selecting policies give the floors that they chose cuts, frequencies, powers and channels.

fixed     the allocation of the scenario's `[baseline]`
exact     the solver's: the best of everything for the chosen floors
one_cut   the best single cut for all devices, frequencies and powers of `[baseline]`
dtfl      each device takes the deepest cut that delays nobody (DTFL), frequencies and powers of `[baseline]`
"""

__all__ = ["ALLOCATIONS", "Selecting", "allocated", "floor_delays"]

import dataclasses
from dataclasses import dataclass, field

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.costs.compute import affordable, split_of
from fedfloor.references import check_choice
from fedfloor.scheduling.state import IDLE, Allocation, Decision, RoundState, fixed_allocation
from fedfloor.scheduling.usage import (
    LinkTimes,
    link_times,
    sending_energy,
    short_of_energy,
    short_of_memory,
    training_usage,
    usage_of,
)

ALLOCATIONS = ("fixed", "exact", "one_cut", "dtfl")
_FIXED = ALLOCATIONS[0]
#: [s] stands for a link that never delivers, so that the assignment stays solvable
_NEVER = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Selecting:
    """What the policies have in common that select floors and leave the rest to an allocation."""

    #: left out of the policy's name if it has its default, as if it did not exist
    allocation: str = field(default=_FIXED, metadata={"unwritten": True})

    def __post_init__(self) -> None:
        check_choice("allocation", self.allocation, ALLOCATIONS)

    def delays(self, state: RoundState) -> Floats:
        """Delay of every floor on every channel under the allocation in use, (M, J) [s]."""
        return floor_delays(state, self.allocation)

    def served(self, state: RoundState, floors: Ints, *, within: float = np.inf) -> Decision:
        """The decision that serves floors, at most J; see `allocated`."""
        return allocated(state, floors, self.allocation, within=within)

    def first_delay(self) -> str:
        """Say that the solver is compiled first, if it is needed; empty otherwise."""
        if self.allocation != "exact":
            return ""
        from fedfloor.scheduling.solver.solve import first_delay  # noqa: PLC0415  # the compiler takes long to load

        return first_delay("exact")


def floor_delays(state: RoundState, allocation: str = _FIXED) -> Floats:
    """Delay of every floor on every channel if it is served alone, (M, J) [s]; very long where it never ends.

    Under `exact` it is inf where a floor cannot take part. Under `one_cut` and `dtfl`, other
    floors may change the cuts of a floor that is not alone.
    """
    check_choice("allocation", allocation, ALLOCATIONS)
    if allocation == "exact":
        from fedfloor.scheduling.solver.solve import exact_delays  # noqa: PLC0415  # the compiler takes long to load

        return exact_delays(state)
    if allocation == "one_cut":
        return _one_cut_delays(state)
    resources = fixed_allocation(state)
    if allocation == "dtfl":
        resources = dataclasses.replace(resources, cut=_tiered_cuts(state, state.plant.devices.floor))
    return _delays_of(state, resources)


def allocated(state: RoundState, floors: Ints, allocation: str = _FIXED, *, within: float = np.inf) -> Decision:
    """The decision that serves floors (at most J), on the channels with the least total delay.

    Links slower than `within` [s] are used only where nothing else is left. `exact` minimises the delay of the round
    instead, and leaves out floors that have not enough energy or memory.
    """
    check_choice("allocation", allocation, ALLOCATIONS)
    if allocation == "exact":
        return _exact(state, floors)
    if allocation == "one_cut":
        return _with_one_cut(state, floors, within)
    resources = fixed_allocation(state)
    if allocation == "dtfl":
        chosen = np.isin(state.plant.devices.floor, floors)
        cut = np.where(chosen, _tiered_cuts(state, np.where(chosen, 0, 1)), resources.cut)
        resources = dataclasses.replace(resources, cut=cut)
    channel = _best_channels(_delays_of(state, resources), floors, within)
    return Decision(channel) if allocation == _FIXED else Decision(channel, resources)


def _delays_of(state: RoundState, allocation: Allocation) -> Floats:
    """Delay of every floor on every channel under an allocation, (M, J) [s]."""
    training = training_usage(state, allocation.cut, allocation.frequency).time
    return _delays(link_times(state, allocation.power), training)


def _delays(links: LinkTimes, training: Floats) -> Floats:
    """Delay of every floor on every channel, (M, J) [s], whose training takes so long, (M,) [s]."""
    return np.minimum(links.download + links.upload + training[:, None], _NEVER)


def _best_channels(delay: Floats, floors: Ints, within: float) -> Ints:
    """Channels (M,) with the least total delay for some floors."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415  # takes half a second to load

    rows, columns = linear_sum_assignment(np.where(delay <= within, delay, _NEVER + delay)[floors])
    channel = np.full(delay.shape[0], IDLE)
    channel[floors[rows]] = columns
    return channel


def _exact(state: RoundState, floors: Ints) -> Decision:
    """Serve as many of the floors as can be served, with the least delay of the round."""
    from fedfloor.scheduling.solver.solve import best_decision  # noqa: PLC0415  # the compiler takes long to load

    chosen = np.isin(np.arange(state.floors), floors)
    weather = dataclasses.replace(state.weather, uplink_gain=np.where(chosen[:, None], state.weather.uplink_gain, 0.0))
    alone = dataclasses.replace(state, weather=weather, queue=np.zeros(state.floors))
    return best_decision(alone, 1.0)


def _one_cut_delays(state: RoundState) -> Floats:
    """Delay (M, J) [s] of every floor with the cut that lets it complete soonest, or at all."""
    fixed = fixed_allocation(state)
    links = link_times(state, fixed.power)
    sending = sending_energy(fixed.power[:, None], links.upload).T  # (J, M)
    best, completes = np.full(links.upload.shape, _NEVER), np.zeros(links.upload.shape, bool)
    for cut in _cuts(state):
        training = training_usage(state, np.full(fixed.cut.size, cut), fixed.frequency)
        lacks_energy = short_of_energy(state, training.gateway_energy + sending, training.device_energy).T
        lacks_memory = short_of_memory(state, training.gateway_bytes, training.device_bytes)[:, None]
        delay, able = _delays(links, training.time), ~(lacks_energy | lacks_memory)
        better = np.where(able == completes, delay < best, able)
        best[better], completes[better] = delay[better], able[better]
    return best


def _with_one_cut(state: RoundState, floors: Ints, within: float) -> Decision:
    """The cut with which most of the floors complete, then the one with the shortest round."""
    from fedfloor.scheduling.solver.assignment import assign  # noqa: PLC0415  # the compiler takes long to load

    decisions: list[tuple[int, float, int, Decision]] = []
    fixed = fixed_allocation(state)
    links = link_times(state, fixed.power)
    for cut in _cuts(state):
        candidate = dataclasses.replace(fixed, cut=np.full(fixed.cut.size, cut))
        delays = _delays(links, training_usage(state, candidate.cut, candidate.frequency).time)
        shortest = assign(delays[floors], np.zeros(floors.size), 1.0).delay  # of a round with this cut
        channel = _best_channels(delays, floors, min(shortest, within))
        usage = usage_of(state, channel, candidate)
        failing = int((usage.short_of_energy | usage.short_of_memory)[floors].sum())
        delay = float(usage.delay[floors].max(initial=0.0))
        decisions.append((failing, delay, cut, Decision(channel, candidate)))
    return min(decisions, key=lambda entry: entry[:3])[3]


def _cuts(state: RoundState) -> range:
    return range(state.plant.workload.min_cut, state.plant.workload.layers + 1)


def _tiered_cuts(state: RoundState, group: Ints) -> Ints:
    """Cuts (N,) of DTFL: with T_n(l) the longer of the two sides' times, T* = max over n of min over l of T_n(l).

    Each device takes the deepest cut with T_n(l) <= T*. The maximum is over the devices of the same group (N,). Only
    cuts within a device's own energy and memory count, if there are any.
    """
    cuts = np.array(_cuts(state))
    every = np.broadcast_to(cuts[:, None], (cuts.size, group.size))
    times, fits = _side_times(state, every), affordable(state.plant, every, state.weather.device_energy)
    times[~fits & fits.any(axis=0)] = np.inf
    least = times.min(axis=0)
    slowest = np.array([least[group == entry].max(initial=0.0) for entry in range(int(group.max()) + 1)])
    in_time = times <= slowest[group]
    return np.asarray(cuts[cuts.size - 1 - np.argmax(in_time[::-1], axis=0)])


def _side_times(state: RoundState, cut: Ints) -> Floats:
    """Longer of the times [s] of a device and its gateway at cuts (..., N), the link counted with the device."""
    plant, frequency = state.plant, fixed_allocation(state).frequency
    devices, split, links = plant.devices, split_of(plant, cut), plant.links_at(cut)
    below = split.bottom_flop / (devices.flops_per_cycle * devices.frequency)
    above = split.top_flop / (plant.gateways.flops_per_cycle[devices.floor] * frequency)
    return np.maximum(below if links is None else below + links.time, above)
