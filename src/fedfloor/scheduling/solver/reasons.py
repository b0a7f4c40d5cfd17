"""Reasons why floors are left out of a round: not selected, or which constraint they violate and by how much."""

__all__ = ["reasons"]

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.costs.compute import computing_energy, exceeds, split_costs
from fedfloor.scheduling.solver.packing import uplink_noise, upload_scale
from fedfloor.scheduling.state import IDLE, RoundState
from fedfloor.scheduling.usage import download_times


def reasons(state: RoundState, channel: Ints, delay: Floats, solver: str) -> tuple[str | None, ...]:
    """Reason of every floor, (M,), None if it is served; `delay` (M, J) [s] is what the solver attains."""
    texts: list[str | None] = []
    for m in range(channel.size):
        if channel[m] != IDLE:
            texts.append(None)
        elif np.isfinite(delay[m]).any():
            texts.append("not selected")
        else:
            texts.append(f"infeasible: {_obstacle(state, m) or f'the {solver} solver found no allocation'}")
    return tuple(texts)


def _obstacle(state: RoundState, m: int) -> str | None:
    """First constraint that even the easiest allocation of the floor violates; None if there is none.

    The deepest cuts need the least of the gateway, and unlimited time needs the least of its energy.
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
    if exceeds(np.array(space), memory):
        return f"memory of the gateway: needs {space:.4g} bytes, {space - memory:.4g} more than it has"
    energy, training = weather.gateway_energy[m], _least_frequency_energy(state, m, top.top_flop)
    with np.errstate(divide="ignore", over="ignore"):
        needs = upload_scale(state) * uplink_noise(state)[m] / weather.uplink_gain[m]  # (J,) [J] of an endless upload
    alive = np.isfinite(needs) & np.isfinite(download_times(state)[m])
    if not alive.any():
        return "radio: no channel delivers in both directions"
    upload = float(np.min(needs[alive]))
    if training + upload >= energy:
        need = training + upload
        return f"energy of the gateway: needs more than {need:.4g} J, {need - energy:.4g} J more than it has"
    return None


def _least_frequency_energy(state: RoundState, m: int, top_flop: Floats) -> float:
    """Least energy [J] of endless training at the gateway's minimum frequency; 0 if a device needs no gateway."""
    gateways = state.plant.gateways
    if gateways.min_frequency[m] == 0.0 or np.any(top_flop == 0.0):
        return 0.0
    at_one_hertz = computing_energy(
        top_flop,
        np.ones(top_flop.size),
        gateways.switched_capacitance[m : m + 1],
        gateways.flops_per_cycle[m : m + 1],
    )
    return float(gateways.min_frequency[m] ** 2 / np.sum(1.0 / at_one_hertz))
