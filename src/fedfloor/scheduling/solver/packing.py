"""State of a round as one tuple of arrays, which compiled code accepts."""

__all__ = ["Packed", "floor_budget", "floor_link", "floor_options", "pack", "uplink_noise", "upload_scale"]

import math
from typing import NamedTuple

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.costs.radio import usable_gain
from fedfloor.scheduling.solver.compiling import compiled
from fedfloor.scheduling.solver.floor import WITHIN, Budget, Options
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
    scale: float  #: [s] gamma ln 2 / B^u
    noise: Floats  #: (M, J) [W] (B^u N_0 + i)/h, inf on a dead link
    first: Ints  #: (M+1,) first device of each floor
    batch: Floats  #: (N,)
    device_cycles: Floats  #: (N,)
    device_capacitance: Floats  #: (N,)
    frequency: Floats  #: (N,)
    device_memory: Floats  #: (N,)
    device_energy: Floats  #: (N,)


def pack(state: RoundState) -> tuple[Packed, Floats]:
    """Pack the state for compiled code; returns it with the download times (M, J) [s]."""
    plant, weather = state.plant, state.weather
    workload, gateways, devices = plant.workload, plant.gateways, plant.devices
    with np.errstate(divide="ignore", over="ignore"):
        noise = uplink_noise(state) / usable_gain(weather.uplink_gain, uplink_noise(state))
    noise.setflags(write=False)  # like the arrays of the state, so that one compiled version serves all
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
        scale=upload_scale(state),
        noise=noise,
        first=np.searchsorted(devices.floor, np.arange(gateways.count + 1)).astype(np.int64),
        batch=devices.batch,
        device_cycles=devices.flops_per_cycle,
        device_capacitance=devices.switched_capacitance,
        frequency=devices.frequency,
        device_memory=devices.memory_bytes,
        device_energy=weather.device_energy,
    )
    return packed, download_times(state)


def uplink_noise(state: RoundState) -> Floats:
    """Noise and interference on every uplink, (M, J) [W] B^u N_0 + i."""
    band = state.plant.band
    return np.asarray(band.uplink_bandwidth * band.noise_density + state.weather.uplink_interference)


def upload_scale(state: RoundState) -> float:
    """Upload time [s] times ln(1 + SNR): gamma ln 2 / B^u."""
    return state.plant.workload.model_bits * math.log(2.0) / state.plant.band.uplink_bandwidth


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
def floor_options(packed: Packed, m: int) -> Options:
    """Options of the devices of floor m: the cuts within their own energy and memory."""
    first, last = packed.first[m], packed.first[m + 1]
    flop, fixed, sample = packed.flop_below, packed.fixed_below, packed.sample_below
    depth, count = flop.size - 1, last - first
    a, w, g = np.empty((count, depth + 1)), np.empty((count, depth + 1)), np.empty((count, depth + 1))
    cut, many = np.zeros((count, depth + 1), np.int64), np.zeros(count, np.int64)
    for i in range(count):
        n = first + i
        points = packed.iterations * packed.batch[n]
        for cut_at in range(packed.min_cut, depth + 1):
            bottom = points * flop[cut_at]
            joules = packed.device_capacitance[n] / packed.device_cycles[n] * bottom * packed.frequency[n] ** 2
            space = fixed[cut_at] + packed.batch[n] * sample[cut_at]
            if joules > packed.device_energy[n] * WITHIN or space > packed.device_memory[n] * WITHIN:
                break  # deeper cuts only need more
            # A layer without work only moves memory, so the deeper cut, which spares the gateway, replaces the other.
            k = many[i] - 1 if many[i] > 0 and flop[cut_at] == flop[cut_at - 1] else many[i]
            a[i, k] = bottom / (packed.device_cycles[n] * packed.frequency[n])
            w[i, k] = points * (flop[depth] - flop[cut_at]) / packed.cycles[m]
            g[i, k] = fixed[depth] - fixed[cut_at] + packed.batch[n] * (sample[depth] - sample[cut_at])
            cut[i, k] = cut_at
            many[i] = k + 1
    return Options(a, w, g, cut, many)
