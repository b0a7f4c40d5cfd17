"""Time, energy and memory of split training, Eq. (1)-(5) and (9)-(10), as functions of the cuts."""

__all__ = [
    "SplitCosts",
    "computing_energy",
    "exceeds",
    "floor_maximum",
    "floor_sum",
    "round_delay",
    "split_costs",
    "training_time",
]

from dataclasses import dataclass

import numpy as np

from fedfloor.arrays import Bools, Floats, Ints
from fedfloor.costs.plant import Workload


@dataclass(frozen=True, slots=True, eq=False)
class SplitCosts:
    """Costs of each device's two halves at its cut, each (N,)."""

    bottom_flop: Floats  #: K D~_n sum_{l<=l_n} (o_l + o'_l), A_n
    top_flop: Floats  #: K D~_n sum_{l>l_n} (o_l + o'_l), B_n
    bottom_bytes: Floats  #: sum_{l<=l_n} g_{n,l}, Eq. (4)
    top_bytes: Floats  #: sum_{l>l_n} g_{n,l}, one term of Eq. (5)


def split_costs(workload: Workload, cut: Ints, batch: Floats) -> SplitCosts:
    """Work and memory of the halves for cut (N,) and batch D~_n (N,)."""
    flop, fixed, sample = workload.flop_below, workload.fixed_bytes_below, workload.sample_bytes_below
    points = workload.local_iterations * batch  # (N,)
    return SplitCosts(
        bottom_flop=points * flop[cut],
        top_flop=points * (flop[-1] - flop[cut]),
        bottom_bytes=fixed[cut] + batch * sample[cut],
        top_bytes=fixed[-1] - fixed[cut] + batch * (sample[-1] - sample[cut]),
    )


def training_time(bottom_flop: Floats, top_flop: Floats, device_speed: Floats, gateway_speed: Floats) -> Floats:
    """Local training time [s] per device, inner term of Eq. (1); all (N,), speeds in [FLOP/s]."""
    # Paper note: Eq. (18) prints K D~_n beside the second fraction only; our FLOPs carry it in both, as Eq. (1) does.
    with np.errstate(divide="ignore", invalid="ignore"):
        top = np.where(top_flop > 0.0, top_flop / gateway_speed, 0.0)
    return np.asarray(bottom_flop / device_speed + top, dtype=float)


def computing_energy(flop: Floats, frequency: Floats, capacitance: Floats, flops_per_cycle: Floats) -> Floats:
    """Energy [J] of computing: Eq. (2) for a device's half, one term of Eq. (3) for its gateway's; all (N,)."""
    return capacitance / flops_per_cycle * flop * frequency**2


def floor_sum(per_device: Floats, floor: Ints, floors: int) -> Floats:
    """Sum over the devices of each floor, (N,) -> (M,): Eq. (3) and (5)."""
    return np.bincount(floor, weights=per_device, minlength=floors).astype(float)


def floor_maximum(per_device: Floats, floor: Ints, floors: int) -> Floats:
    """Largest value over the devices of each floor, (N,) -> (M,): the slowest device of Eq. (1)."""
    largest = np.zeros(floors)
    np.maximum.at(largest, floor, per_device)
    return largest


def round_delay(delay: Floats, selected: Bools) -> float:
    """Delay of the round [s], Eq. (10): the slowest selected floor; 0 if no floor is selected."""
    return float(np.max(delay, where=selected, initial=0.0))


def exceeds(needed: Floats, available: Floats) -> Bools:
    """Whether a need exceeds what is available by more than rounding; same shape."""
    return needed > available * (1.0 + 1e-9)
