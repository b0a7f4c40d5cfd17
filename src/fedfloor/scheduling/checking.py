"""Ask a policy for a decision, and check that it is valid: the rules that every policy must keep."""

__all__ = ["check_decision", "decide"]

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.costs.compute import exceeds, floor_sum
from fedfloor.errors import PolicyError
from fedfloor.references import asked
from fedfloor.scheduling.state import IDLE, Allocation, Decision, RoundState, Scheduler

_LEAST_WEIGHT, _MOST_WEIGHT = 1e-15, 1e15  #: of a floor in the average


def check_decision(state: RoundState, decision: Decision) -> None:
    """Refuse a decision that breaks C1-C6: channels, cuts, frequencies, powers.

    Energy and memory are not checked: a floor that lacks them fails, which is a result and not an error.
    """
    if not isinstance(decision, Decision):
        raise _invalid(state, f"it must be a Decision, got a {type(decision).__name__}")
    floors, channels = state.floors, state.channels
    channel = decision.channel
    if not isinstance(channel, np.ndarray) or channel.shape != (floors,) or channel.dtype.kind != "i":
        raise _invalid(state, f"channel must be an array of {floors} integers, one per floor, got {_kind(channel)}")
    occupied = channel[channel != IDLE]
    if np.any(occupied < 0) or np.any(occupied >= channels):
        raise _invalid(state, f"a channel must be from 0 to {channels - 1}, or IDLE = {IDLE}, got {occupied.tolist()}")
    if len(set(occupied.tolist())) != occupied.size:
        raise _invalid(state, f"a channel serves one floor, got {occupied.tolist()}")
    if decision.weight is not None:
        _check_weight(state, decision, decision.weight)
    if decision.allocation is not None:
        if not isinstance(decision.allocation, Allocation):
            raise _invalid(state, f"allocation must be an Allocation, got a {type(decision.allocation).__name__}")
        _check_allocation(state, decision, decision.allocation)


def _check_weight(state: RoundState, decision: Decision, weight: Floats) -> None:
    floors = decision.channel.size
    if not isinstance(weight, np.ndarray) or weight.shape != (floors,) or weight.dtype.kind not in "fi":
        raise _invalid(state, f"weight must be an array of {floors} numbers, one per floor, got {_kind(weight)}")
    outliers = weight[decision.selected & ~((weight >= _LEAST_WEIGHT) & (weight <= _MOST_WEIGHT))]
    if outliers.size:
        limits = f"from {_LEAST_WEIGHT:g} to {_MOST_WEIGHT:g}"
        raise _invalid(state, f"weight must be {limits} for every selected floor, got {outliers[0]:g}")


def _check_allocation(state: RoundState, decision: Decision, allocation: Allocation) -> None:
    plant, workload = state.plant, state.plant.workload
    devices, floors = plant.devices.floor.size, plant.gateways.count
    for name, values, size, kinds in (
        ("cut", allocation.cut, devices, "i"),
        ("frequency", allocation.frequency, devices, "fi"),
        ("power", allocation.power, floors, "fi"),
    ):
        if not isinstance(values, np.ndarray) or values.shape != (size,) or values.dtype.kind not in kinds:
            numbers = "integers" if kinds == "i" else "numbers"
            raise _invalid(state, f"{name} must be an array of {size} {numbers}, got {_kind(values)}")
        outliers = values[~np.isfinite(values) | (values < 0)]
        if outliers.size:
            raise _invalid(state, f"{name} must be finite and >= 0 everywhere, got {outliers[0]:g}")
    busy = decision.selected[plant.devices.floor]
    outliers = allocation.cut[(allocation.cut < workload.min_cut) | (allocation.cut > workload.layers)]
    if outliers.size:
        limits = f"from {workload.min_cut} to {workload.layers}"
        raise _invalid(state, f"a cut must be a whole number {limits}, got {outliers[0]}")
    work_left = workload.flop_below[-1] > workload.flop_below[allocation.cut]
    stalled = np.flatnonzero(busy & work_left & (allocation.frequency <= 0.0))
    if stalled.size:
        name = plant.devices.names[stalled[0]]
        raise _invalid(state, f"{name}: the frequency must be > 0 because the gateway trains layers of this device")
    total = floor_sum(np.where(busy, allocation.frequency, 0.0), plant.devices.floor, floors)
    gateways, power = plant.gateways, allocation.power
    for problem, violations in (
        (
            "frequencies add up to {total:g} Hz, above the maximum of {most:g} Hz",
            exceeds(total, gateways.max_frequency),
        ),
        (
            "frequencies add up to {total:g} Hz, below the minimum of {least:g} Hz",
            exceeds(gateways.min_frequency, total),
        ),
        ("the power is {power:g} W, above the maximum of {most_power:g} W", exceeds(power, gateways.max_power)),
        ("the power must be > 0, got {power:g} W", power <= 0.0),
    ):
        places = np.flatnonzero(violations & decision.selected)
        if places.size:
            m = places[0]
            amounts = {"total": total[m], "least": gateways.min_frequency[m], "most": gateways.max_frequency[m]}
            amounts |= {"power": power[m], "most_power": gateways.max_power[m]}
            raise _invalid(state, f"{gateways.names[m]}: {problem.format(**amounts)}")


def _kind(value: object) -> str:
    """Describe a value in a few words."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return f"a {type(value).__name__}"


def _invalid(state: RoundState, problem: str) -> PolicyError:
    return PolicyError(f"round {state.index}: the policy's decision is not valid: {problem}. See docs/policies.md")


def decide(scheduler: Scheduler, state: RoundState) -> Decision:
    """The policy's decision, checked; an error in a user's policy names the line that raised it."""
    label = f"policy {type(scheduler).__name__}: schedule failed in round {state.index}"
    decision = asked(lambda: scheduler.schedule(state), label, PolicyError)
    check_decision(state, decision)
    return decision
