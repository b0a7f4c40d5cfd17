"""Why a floor is left out of a round: not selected, or which constraint it breaks and by how much."""

__all__ = ["reasons"]

import math

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.costs.compute import computing_energy, exceeds, split_costs
from fedfloor.scheduling.state import IDLE, RoundState


def reasons(state: RoundState, channel: Ints, delay: Floats, solver: str) -> tuple[str | None, ...]:
    """For every floor None if it is served, else the reason, (M,); `delay` (M, J) is what the solver attains."""
    found: list[str | None] = []
    for m in range(channel.size):
        if channel[m] != IDLE:
            found.append(None)
        elif np.isfinite(delay[m]).any():
            found.append("not selected")
        else:
            found.append(f"infeasible: {_obstacle(state, m) or f'the {solver} solver found no allocation'}")
    return tuple(found)


def _obstacle(state: RoundState, m: int) -> str | None:
    """The constraint that even the easiest allocation of the floor breaks, in the order a floor meets them.

    The deepest cuts ask least of the gateway; all the time in the world asks least of its energy.
    """
    plant, weather = state.plant, state.weather
    mine = np.flatnonzero(plant.devices.floor == m)
    deepest = np.empty(mine.size, np.int64)
    for i, n in enumerate(mine):
        cuts = np.arange(plant.workload.min_cut, plant.workload.layers + 1)
        split = split_costs(plant.workload, cuts, np.full(cuts.size, plant.devices.batch[n]))
        joules = computing_energy(
            split.bottom_flop,
            plant.devices.frequency[n : n + 1],
            plant.devices.switched_capacitance[n : n + 1],
            plant.devices.flops_per_cycle[n : n + 1],
        )
        name, energy, memory = plant.devices.names[n], weather.device_energy[n], plant.devices.memory_bytes[n]
        if exceeds(joules[:1], energy)[0]:
            return (
                f"energy of {name}: cut {cuts[0]} needs {joules[0]:.4g} J, {joules[0] - energy:.4g} J more than it has"
            )
        if exceeds(split.bottom_bytes[:1], memory)[0]:
            more = split.bottom_bytes[0] - memory
            return (
                f"memory of {name}: cut {cuts[0]} needs {split.bottom_bytes[0]:.4g} bytes, {more:.4g} more than it has"
            )
        deepest[i] = cuts[~exceeds(joules, energy) & ~exceeds(split.bottom_bytes, memory)].max()
    top = split_costs(plant.workload, deepest, plant.devices.batch[mine])
    space, memory = float(top.top_bytes.sum()), plant.gateways.memory_bytes[m]
    if space > memory * (1 + 1e-9):
        return f"memory of the gateway: needs {space:.4g} bytes, {space - memory:.4g} more than it has"
    band, energy = plant.band, weather.gateway_energy[m]
    least = _least_frequency_energy(state, m, top.top_flop)
    alive = (weather.uplink_gain[m] > 0) & (weather.downlink_gain[m] > 0)
    if not alive.any():
        return "radio: no channel delivers in both directions"
    noise = band.uplink_bandwidth * band.noise_density + weather.uplink_interference[m, alive]
    scale = plant.workload.model_bits * math.log(2.0) / band.uplink_bandwidth
    upload = float(np.min(scale * noise / weather.uplink_gain[m, alive]))
    if least + upload >= energy:
        need = least + upload
        return f"energy of the gateway: needs more than {need:.4g} J, {need - energy:.4g} J more than it has"
    return None


def _least_frequency_energy(state: RoundState, m: int, top_flop: Floats) -> float:
    """Energy [J] of running at the gateway's least frequency for ever slower training; free if a device is idle."""
    gateways = state.plant.gateways
    if gateways.min_frequency[m] == 0.0 or np.any(top_flop == 0.0):
        return 0.0
    coefficient = gateways.switched_capacitance[m] / gateways.flops_per_cycle[m] * top_flop
    return float(gateways.min_frequency[m] ** 2 / np.sum(1.0 / coefficient))
