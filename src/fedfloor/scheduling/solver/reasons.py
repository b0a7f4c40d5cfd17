"""Reasons why floors are left out of a round: not selected, or which constraint they violate and by how much."""

__all__ = ["reasons"]

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.costs.compute import device_energy, exceeds, split_of_device
from fedfloor.costs.radio import least_upload_energy
from fedfloor.scheduling.solver.endless import endless_energy
from fedfloor.scheduling.solver.floor import WITHIN, least_space
from fedfloor.scheduling.solver.packing import Packed, floor_budget, floor_options
from fedfloor.scheduling.state import IDLE, RoundState


def reasons(
    state: RoundState, packed: Packed, download: Floats, channel: Ints, delay: Floats, solver: str
) -> tuple[str | None, ...]:
    """Reason of every floor, (M,), None if it is served; `download` and `delay` (M, J) [s] are what the solver used."""
    texts: list[str | None] = []
    for m in range(channel.size):
        if channel[m] != IDLE:
            texts.append(None)
        elif np.isfinite(delay[m]).any():
            texts.append("not selected")
        else:
            obstacle = _obstacle(state, packed, download[m], m) or f"the {solver} solver found no allocation"
            texts.append(f"infeasible: {obstacle}")
    return tuple(texts)


def _obstacle(state: RoundState, packed: Packed, download: Floats, m: int) -> str | None:
    """First constraint that no allocation of floor m satisfies; None if there is none.

    A device lacks energy or memory for every cut, the gateway lacks memory for the cuts that need the least of it, or
    energy for the least that endless training and an endless upload cost.
    """
    options, budget = floor_options(packed, m), floor_budget(packed, m)
    for i, count in enumerate(options.many):
        if count == 0:
            return _device_obstacle(state, int(packed.first[m]) + i)
    space = least_space(options)
    if space > budget.memory * WITHIN:
        return f"memory of the gateway: needs {space:.4g} bytes, {space - budget.memory:.4g} more than it has"
    bits, bandwidth = state.plant.workload.upload_bits, state.plant.band.uplink_bandwidth
    needs = least_upload_energy(bits, packed.noise[m], bandwidth=bandwidth)  # (J,) [J]
    alive = np.isfinite(needs) & np.isfinite(download)
    if not alive.any():
        return "radio: no channel delivers in both directions"
    training, _ = endless_energy(options, budget, np.zeros(options.many.size, np.int64))
    need = training + float(np.min(needs[alive]))
    if need >= budget.energy:
        return f"energy of the gateway: needs more than {need:.4g} J, {need - budget.energy:.4g} J more than it has"
    return None


def _device_obstacle(state: RoundState, n: int) -> str:
    """Constraint that no cut of device n satisfies: its energy, its memory, or both together."""
    plant = state.plant
    cuts = np.arange(plant.workload.min_cut, plant.workload.layers + 1)
    split, device = split_of_device(plant, n, cuts), np.full(cuts.size, n)
    joules = device_energy(plant, split.bottom_flop, plant.links_at(cuts, device), device)
    name, energy, memory = plant.devices.names[n], state.weather.device_energy[n], plant.devices.memory_bytes[n]
    held = split.bottom_bytes
    affordable = ~exceeds(joules, energy)
    if not affordable.any():
        k = int(np.argmin(joules))
        return f"energy of {name}: cut {cuts[k]} needs {joules[k]:.4g} J, {joules[k] - energy:.4g} J more than it has"
    k = int(np.argmin(np.where(affordable, held, np.inf)))
    where = "" if held[k] == held.min() else ", the least of the cuts within its energy,"
    return f"memory of {name}: cut {cuts[k]}{where} needs {held[k]:.4g} bytes, {held[k] - memory:.4g} more than it has"
