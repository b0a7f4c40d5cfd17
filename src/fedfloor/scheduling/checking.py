"""Whether a decision is one at all: what no policy may do, whatever it aims at."""

__all__ = ["check_decision"]

import numpy as np

from fedfloor.costs.compute import exceeds, floor_sum
from fedfloor.errors import PolicyError
from fedfloor.scheduling.state import IDLE, Allocation, Decision, RoundState


def check_decision(state: RoundState, decision: Decision) -> None:
    """Refuse a decision that breaks C1-C6: channels, cuts, frequencies, powers.

    Energy and memory are not checked here: a floor that lacks them fails, which is a result.
    """
    if not isinstance(decision, Decision):
        raise _wrong(state, f"it must be a Decision, got a {type(decision).__name__}")
    floors, channels = state.gain_up.shape
    channel = decision.channel
    if not isinstance(channel, np.ndarray) or channel.shape != (floors,) or channel.dtype.kind != "i":
        raise _wrong(state, f"channel must be an array of {floors} integers, one per floor, got {_kind(channel)}")
    used = channel[channel != IDLE]
    if np.any(used < 0) or np.any(used >= channels):
        raise _wrong(state, f"a channel must be from 0 to {channels - 1}, or IDLE = {IDLE}, got {used.tolist()}")
    if np.unique(used).size != used.size:
        raise _wrong(state, f"a channel serves one floor, got {used.tolist()}")
    if decision.allocation is not None:
        if not isinstance(decision.allocation, Allocation):
            raise _wrong(state, f"allocation must be an Allocation, got a {type(decision.allocation).__name__}")
        _check_allocation(state, decision, decision.allocation)


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
            raise _wrong(state, f"{name} must be an array of {size} {numbers}, got {_kind(values)}")
        if not np.all(np.isfinite(values)) or np.any(values < 0):
            raise _wrong(state, f"{name} must be finite and >= 0 everywhere")
    busy = decision.selected[plant.devices.floor]
    if np.any(allocation.cut < workload.min_cut) or np.any(allocation.cut > workload.layers):
        raise _wrong(state, f"a cut must be a whole number from {workload.min_cut} to {workload.layers}")
    work_left = workload.flop_below[-1] > workload.flop_below[allocation.cut]
    if np.any(busy & work_left & (allocation.frequency <= 0.0)):
        raise _wrong(state, "a frequency must be > 0 where layers are left to the gateway")
    used = floor_sum(np.where(busy, allocation.frequency, 0.0), plant.devices.floor, floors)
    for problem, broken in (
        ("frequencies add up to more than the gateway has", exceeds(used, plant.gateways.max_frequency)),
        ("frequencies add up to less than the gateway's least", exceeds(plant.gateways.min_frequency, used)),
        ("the power is more than the gateway has", exceeds(allocation.power, plant.gateways.max_power)),
        ("the power must be > 0", allocation.power <= 0.0),
    ):
        at = np.flatnonzero(broken & decision.selected)
        if at.size:
            raise _wrong(state, f"{plant.gateways.names[at[0]]}: {problem}")


def _kind(value: object) -> str:
    """What a value is, in a few words."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return f"a {type(value).__name__}"


def _wrong(state: RoundState, problem: str) -> PolicyError:
    return PolicyError(f"round {state.index}: the policy's decision is not valid: {problem}. See docs/policies.md")
