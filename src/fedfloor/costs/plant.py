"""The plant as arrays: what stays the same from round to round, in the form the formulas take."""

__all__ = ["Band", "Devices", "Gateways", "PlantArrays", "Workload", "arrays_of", "column", "read_only", "workload_of"]

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.costs.layers import layer_costs, model_bits
from fedfloor.scenario.resolved import Scenario


def read_only(instance: Any) -> None:
    """Close the arrays of a frozen dataclass for writing: what a policy sees, it cannot change."""
    for entry in fields(instance):
        value = getattr(instance, entry.name)
        if isinstance(value, np.ndarray):
            value.setflags(write=False)


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """What one round of training asks for; sums over the first l layers for every cut l = 0..L."""

    flop_below: Floats  #: (L+1,) [1]    sum_{i<=l} (o_i + o'_i), per sample
    fixed_bytes_below: Floats  #: (L+1,) [byte] weights and gradients
    sample_bytes_below: Floats  #: (L+1,) [byte] per sample of the batch
    local_iterations: int  #: K
    model_bits: float  #: [bit] gamma
    min_cut: int  #: least cut that is allowed

    def __post_init__(self) -> None:
        read_only(self)

    @classmethod
    def from_layers(
        cls, flop: Floats, fixed_bytes: Floats, sample_bytes: Floats, *, local_iterations: int, model_bits: float,
        min_cut: int,
    ) -> "Workload":  # fmt: skip
        """From figures per layer, each (L,)."""
        return cls(
            _below(flop),
            _below(fixed_bytes),
            _below(sample_bytes),
            local_iterations=local_iterations,
            model_bits=model_bits,
            min_cut=min_cut,
        )

    @property
    def layers(self) -> int:
        """L."""
        return len(self.flop_below) - 1


@dataclass(frozen=True, slots=True)
class Band:
    """Radio band between base station and gateways."""

    uplink_bandwidth: float  #: [Hz]   B^u
    downlink_bandwidth: float  #: [Hz]   B^d
    noise_density: float  #: [W/Hz] N_0
    base_station_power: float  #: [W]    P^B


@dataclass(frozen=True, slots=True, eq=False)
class Gateways:
    """M gateways, each array (M,)."""

    names: tuple[str, ...]
    flops_per_cycle: Floats  #: [1]      phi_m^G
    switched_capacitance: Floats  #: [W/Hz^3] v_m^G
    min_frequency: Floats  #: [Hz]     f_m^{G,min}
    max_frequency: Floats  #: [Hz]     f_m^{G,max}
    memory_bytes: Floats  #: [byte]   G_m^{G,max}; inf without limits
    max_power: Floats  #: [W]      P_m^max

    def __post_init__(self) -> None:
        read_only(self)

    @property
    def count(self) -> int:
        """M."""
        return len(self.names)


@dataclass(frozen=True, slots=True, eq=False)
class Devices:
    """N devices, floor by floor, each array (N,)."""

    names: tuple[str, ...]
    floor: Ints  #: [1]      m of device n, never decreasing
    batch: Floats  #: [1]      D~_n
    flops_per_cycle: Floats  #: [1]      phi_n^D
    switched_capacitance: Floats  #: [W/Hz^3] v_n^D
    frequency: Floats  #: [Hz]     f_n^D
    memory_bytes: Floats  #: [byte]   G_n^{D,max}; inf without limits

    def __post_init__(self) -> None:
        read_only(self)

    def on_floor(self, floors: int) -> Ints:
        """How many devices each floor has, (M,)."""
        return np.bincount(self.floor, minlength=floors)


@dataclass(frozen=True, slots=True, eq=False)
class PlantArrays:
    """The parts of a plant that no round changes."""

    workload: Workload
    band: Band
    gateways: Gateways
    devices: Devices


def workload_of(scenario: Scenario) -> Workload:
    """What a round asks for in this scenario."""
    costs = layer_costs(scenario.layers, scenario.costs.model)
    return Workload.from_layers(
        costs.flop,
        costs.fixed_bytes,
        costs.sample_bytes,
        local_iterations=scenario.training.local_iterations,
        model_bits=model_bits(scenario.layers),
        min_cut=scenario.training.min_cut,
    )


def arrays_of(scenario: Scenario) -> PlantArrays:
    """The scenario's plant as arrays; without limits memory is endless."""
    gateways = [floor.gateway for floor in scenario.floors]
    devices = scenario.devices
    memory = 1.0 if scenario.limits else np.inf
    fraction = scenario.training.batch_fraction
    return PlantArrays(
        workload=workload_of(scenario),
        band=Band(
            scenario.radio.uplink_bandwidth,
            scenario.radio.downlink_bandwidth,
            scenario.radio.noise_density,
            scenario.radio.base_station_power,
        ),
        gateways=Gateways(
            names=tuple(floor.name for floor in scenario.floors),
            flops_per_cycle=column(gateways, "flops_per_cycle"),
            switched_capacitance=column(gateways, "switched_capacitance"),
            min_frequency=column(gateways, "min_frequency"),
            max_frequency=column(gateways, "max_frequency"),
            memory_bytes=column(gateways, "memory_bytes") * memory,
            max_power=column(gateways, "max_power"),
        ),
        devices=Devices(
            names=tuple(device.name for device in devices),
            floor=np.repeat(np.arange(len(scenario.floors)), [len(floor.devices) for floor in scenario.floors]),
            batch=np.array([device.batch(fraction) for device in devices], dtype=float),
            flops_per_cycle=column(devices, "flops_per_cycle"),
            switched_capacitance=column(devices, "switched_capacitance"),
            frequency=column(devices, "frequency"),
            memory_bytes=column(devices, "memory_bytes") * memory,
        ),
    )


def column(entries: Sequence[Any], field: str) -> Floats:
    """One field of many objects."""
    return np.array([getattr(entry, field) for entry in entries], dtype=float)


def _below(per_layer: Floats) -> Floats:
    """Sum over the first l layers for every cut l, (L,) -> (L+1,)."""
    return np.concatenate([[0.0], np.cumsum(per_layer)])
