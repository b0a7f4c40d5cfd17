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
        shape = getattr(channel, "shape", type(channel).__name__)
        raise _wrong(state, f"channel must be {floors} integers, one per floor, got {shape}")
    used = channel[channel != IDLE]
    if np.any(used < 0) or np.any(used >= channels):
        raise _wrong(state, f"a channel must be from 0 to {channels - 1}, or IDLE = {IDLE}, got {used.tolist()}")
    if np.unique(used).size != used.size:
        raise _wrong(state, f"a channel serves one floor, got {used.tolist()}")
    if decision.allocation is not None:
        _check_allocation(state, decision, decision.allocation)


def _check_allocation(state: RoundState, decision: Decision, allocation: Allocation) -> None:
    plant, workload = state.plant, state.plant.workload
    devices, floors = plant.devices.floor.size, plant.gateways.count
    for name, values, size in (
        ("cut", allocation.cut, devices),
        ("frequency", allocation.frequency, devices),
        ("power", allocation.power, floors),
    ):
        if not isinstance(values, np.ndarray) or values.shape != (size,) or not np.all(np.isfinite(values)):
            raise _wrong(state, f"{name} must be {size} finite numbers, got {getattr(values, 'shape', type(values))}")
    busy = decision.selected[plant.devices.floor]
    cut, frequency = allocation.cut[busy], allocation.frequency[busy]
    if cut.dtype.kind != "i" or np.any(cut < workload.min_cut) or np.any(cut > workload.layers):
        raise _wrong(state, f"a cut must be a whole number from {workload.min_cut} to {workload.layers}")
    if np.any(frequency < 0.0):
        raise _wrong(state, "a frequency must be >= 0")
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


def _wrong(state: RoundState, problem: str) -> PolicyError:
    return PolicyError(f"round {state.index}: the policy's decision is not valid: {problem}. See docs/policies.md")
