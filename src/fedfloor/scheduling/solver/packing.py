"""State of a round as one tuple of arrays, which compiled code accepts."""

__all__ = ["Packed", "floor_budget", "floor_link", "floor_options", "pack"]

import math
from typing import NamedTuple

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.costs.radio import noise_over_gain, upload_scale
from fedfloor.scheduling.solver.compiling import compiled
from fedfloor.scheduling.solver.floor import WITHIN, Budget, Options, undominated
from fedfloor.scheduling.solver.uplink import Link
from fedfloor.scheduling.state import RoundState
from fedfloor.scheduling.usage import download_times


class Packed(NamedTuple):
    """Everything that a solver reads; sums below a cut are (L+1,)."""

    flop_below: Floats
    fixed_below: Floats
    sample_below: Floats
    iterations: float
    min_cut: int
    cycles: Floats  #: (M,) FLOPs per cycle
    capacitance: Floats  #: (M,)
    min_frequency: Floats  #: (M,)
    max_frequency: Floats  #: (M,)
    memory: Floats  #: (M,)
    energy: Floats  #: (M,)
    max_power: Floats  #: (M,)
    scale: float  #: [s] gamma_up ln 2 / B^u
    noise: Floats  #: (M, J) [W] (B^u N_0 + i)/h, inf on a dead link
    first: Ints  #: (M+1,) first device of each floor
    batch: Floats  #: (N,)
    device_cycles: Floats  #: (N,)
    device_capacitance: Floats  #: (N,)
    frequency: Floats  #: (N,)
    device_memory: Floats  #: (N,)
    device_energy: Floats  #: (N,)
    link_time: Floats  #: (N, L+1) [s] on the device's link; without rows if links cost nothing, like the next two
    link_energy: Floats  #: (N, L+1) [J] of the device
    gateway_link_energy: Floats  #: (N, L+1) [J]
    bottom_cycles: Floats  #: (N, L+1) measured; without rows if nothing was measured, like the next three
    top_cycles: Floats  #: (N, L+1)
    bottom_bytes: Floats  #: (N, L+1)
    top_bytes: Floats  #: (N, L+1)


def pack(state: RoundState) -> tuple[Packed, Floats]:
    """Pack the state for compiled code; returns it with the download times (M, J) [s]."""
    plant, weather = state.plant, state.weather
    workload, gateways, devices, band = plant.workload, plant.gateways, plant.devices, plant.band
    noise = noise_over_gain(
        weather.uplink_gain,
        weather.uplink_interference,
        bandwidth=band.uplink_bandwidth,
        noise_density=band.noise_density,
    )
    none = np.empty((0, workload.layers + 1))
    for array in (noise, none):
        array.setflags(write=False)  # like the arrays of the state, so that one compiled version serves all
    links, measured = plant.link_costs, plant.measured
    packed = Packed(
        flop_below=workload.flop_below,
        fixed_below=workload.fixed_bytes_below,
        sample_below=workload.sample_bytes_below,
        iterations=float(workload.local_iterations),
        min_cut=workload.min_cut,
        cycles=gateways.flops_per_cycle,
        capacitance=gateways.switched_capacitance,
        min_frequency=gateways.min_frequency,
        max_frequency=gateways.max_frequency,
        memory=gateways.memory_bytes,
        energy=weather.gateway_energy,
        max_power=gateways.max_power,
        scale=upload_scale(workload.upload_bits, bandwidth=band.uplink_bandwidth),
        noise=noise,
        first=np.searchsorted(devices.floor, np.arange(gateways.count + 1)).astype(np.int64),
        batch=devices.batch,
        device_cycles=devices.flops_per_cycle,
        device_capacitance=devices.switched_capacitance,
        frequency=devices.frequency,
        device_memory=devices.memory_bytes,
        device_energy=weather.device_energy,
        link_time=none if links is None else links.time,
        link_energy=none if links is None else links.device_energy,
        gateway_link_energy=none if links is None else links.gateway_energy,
        bottom_cycles=none if measured is None else measured.bottom_cycles,
        top_cycles=none if measured is None else measured.top_cycles,
        bottom_bytes=none if measured is None else measured.bottom_bytes,
        top_bytes=none if measured is None else measured.top_bytes,
    )
    return packed, download_times(state)


@compiled
def floor_budget(packed: Packed, m: int) -> Budget:
    """Resources of gateway m in this round."""
    return Budget(
        packed.capacitance[m], packed.min_frequency[m], packed.max_frequency[m], packed.memory[m], packed.energy[m]
    )


@compiled
def floor_link(packed: Packed, m: int, j: int) -> Link:
    """Uplink of floor m on channel j; a dead link has rate 0 at any power."""
    noise = packed.noise[m, j]
    if noise == math.inf:
        return Link(packed.scale, math.inf, 0.0)
    return Link(packed.scale, packed.scale * noise, math.log1p(packed.max_power[m] / noise))


@compiled
def _halves(packed: Packed, m: int, n: int, cut: int) -> tuple[float, float, float, float]:
    """FLOPs and bytes of the two halves of device n of floor m at a cut: bottom and top FLOPs, bottom and top bytes."""
    if packed.bottom_cycles.shape[0] > 0:
        return (
            packed.device_cycles[n] * packed.bottom_cycles[n, cut],
            packed.cycles[m] * packed.top_cycles[n, cut],
            packed.bottom_bytes[n, cut],
            packed.top_bytes[n, cut],
        )
    flop, fixed, sample = packed.flop_below, packed.fixed_below, packed.sample_below
    points, batch, depth = packed.iterations * packed.batch[n], packed.batch[n], flop.size - 1
    return (
        points * flop[cut],
        points * (flop[depth] - flop[cut]),
        fixed[cut] + batch * sample[cut],
        fixed[depth] - fixed[cut] + batch * (sample[depth] - sample[cut]),
    )


@compiled
def floor_options(packed: Packed, m: int) -> Options:
    """Options of the devices of floor m: the cuts within their own energy and memory that no other cut beats."""
    first, last = packed.first[m], packed.first[m + 1]
    depth, count = packed.flop_below.size - 1, last - first
    a, w = np.empty((count, depth + 1)), np.empty((count, depth + 1))
    c, g = np.zeros((count, depth + 1)), np.empty((count, depth + 1))
    cut, many = np.zeros((count, depth + 1), np.int64), np.zeros(count, np.int64)
    linked = packed.link_time.shape[0] > 0
    for i in range(count):
        n = first + i
        for cut_at in range(packed.min_cut, depth + 1):
            bottom, top, space, top_space = _halves(packed, m, n, cut_at)
            joules = (
                packed.device_capacitance[n]
                / packed.device_cycles[n]
                * bottom
                * (packed.frequency[n] * packed.frequency[n])
            )
            if linked:
                joules += packed.link_energy[n, cut_at]
            if joules > packed.device_energy[n] * WITHIN or space > packed.device_memory[n] * WITHIN:
                continue
            k = many[i]
            a[i, k] = bottom / (packed.device_cycles[n] * packed.frequency[n])
            w[i, k] = top / packed.cycles[m]
            g[i, k] = top_space
            if linked:
                a[i, k] += packed.link_time[n, cut_at]
                c[i, k] = packed.gateway_link_energy[n, cut_at]
            cut[i, k] = cut_at
            many[i] = k + 1
    return undominated(Options(a, w, c, g, cut, many))
