"""Time, energy and memory of split training, Eq. (1)-(5) and (9)-(10), as functions of the cuts."""

__all__ = [
    "SplitCosts",
    "affordable",
    "computing_energy",
    "device_energy",
    "exceeds",
    "floor_maximum",
    "floor_sum",
    "round_delay",
    "split_at",
    "split_costs",
    "split_of",
    "split_of_device",
    "training_time",
]

import numpy as np

from fedfloor.arrays import Bools, Floats, Ints
from fedfloor.costs.links import LinkCosts
from fedfloor.costs.plant import PlantArrays, SplitCosts, split_costs


def split_at(plant: PlantArrays, device: Ints, cut: Ints) -> SplitCosts:
    """Work and memory of the halves of devices at cuts, two arrays of shapes that broadcast.

    A measured half counts as many FLOPs as its machine would do in the cycles that were measured.
    """
    devices, measured = plant.devices, plant.measured
    if measured is None:
        return split_costs(plant.workload, cut, devices.batch[device])
    return SplitCosts(
        bottom_flop=devices.flops_per_cycle[device] * measured.bottom_cycles[device, cut],
        top_flop=plant.gateways.flops_per_cycle[devices.floor[device]] * measured.top_cycles[device, cut],
        bottom_bytes=measured.bottom_bytes[device, cut],
        top_bytes=measured.top_bytes[device, cut],
    )


def split_of(plant: PlantArrays, cut: Ints) -> SplitCosts:
    """Work and memory of the halves of all devices of a plant at their cuts (..., N)."""
    return split_at(plant, np.arange(cut.shape[-1]), cut)


def split_of_device(plant: PlantArrays, n: int, cuts: Ints) -> SplitCosts:
    """Work and memory of the halves of device n at several cuts, each (C,)."""
    return split_at(plant, np.full(cuts.size, n), cuts)


def training_time(bottom_flop: Floats, top_flop: Floats, device_speed: Floats, gateway_speed: Floats) -> Floats:
    """Local training time [s] per device, inner term of Eq. (1); all (N,), speeds in [FLOP/s]."""
    # Paper note: Eq. (18) prints K D~_n beside the second fraction only; our FLOPs carry it in both, as Eq. (1) does.
    with np.errstate(divide="ignore", invalid="ignore"):
        top = np.where(top_flop > 0.0, top_flop / gateway_speed, 0.0)
    return np.asarray(bottom_flop / device_speed + top, dtype=float)


def computing_energy(flop: Floats, frequency: Floats, capacitance: Floats, flops_per_cycle: Floats) -> Floats:
    """Energy [J] of computing: Eq. (2) for a device's half, one term of Eq. (3) for its gateway's; all (N,)."""
    return capacitance / flops_per_cycle * flop * frequency**2


def device_energy(
    plant: PlantArrays, bottom_flop: Floats, links: LinkCosts | None, device: Ints | slice = slice(None)
) -> Floats:
    """Energy [J] of devices, all of them unless some are named: Eq. (2) for their halves, and for their links."""
    devices = plant.devices
    energy = computing_energy(
        bottom_flop,
        devices.frequency[device],
        devices.switched_capacitance[device],
        devices.flops_per_cycle[device],
    )
    return energy if links is None else energy + links.device_energy


def affordable(plant: PlantArrays, cut: Ints, budget: Floats) -> Bools:
    """Whether the memory of each device and an energy (N,) [J] suffice for cuts (..., N); same shape as these."""
    split = split_of(plant, cut)
    within_energy = ~exceeds(device_energy(plant, split.bottom_flop, plant.links_at(cut)), budget)
    return np.asarray(within_energy & ~exceeds(split.bottom_bytes, plant.devices.memory_bytes))


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
