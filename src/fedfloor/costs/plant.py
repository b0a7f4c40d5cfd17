"""The plant as arrays: what stays the same from round to round, in the form that the formulas need."""

__all__ = [
    "Band",
    "Devices",
    "Gateways",
    "PlantArrays",
    "Workload",
    "arrays_of",
    "column",
    "network_workload",
    "read_only",
    "workload_of",
]

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.costs.layers import LayerCosts, boundary_bytes, layer_costs, model_bits
from fedfloor.scenario.layers import LayerSpec
from fedfloor.scenario.resolved import Scenario


def read_only(instance: Any) -> None:
    """Close the arrays of a frozen dataclass for writing, so that a policy cannot change what it reads."""
    for name in _names(instance.__class__):
        value = getattr(instance, name)
        if isinstance(value, np.ndarray):
            value.setflags(write=False)


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(entry.name for entry in fields(kind))


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """What one round of training demands; arrays have an entry for every cut l = 0..L.

    Names that end in `_below` are sums over the first l layers.
    """

    flop_below: Floats  #: (L+1,) [1]    sum_{i<=l} (o_i + o'_i), per sample
    fixed_bytes_below: Floats  #: (L+1,) [byte] weights and gradients
    sample_bytes_below: Floats  #: (L+1,) [byte] per sample of the batch
    boundary_bytes: Floats  #: (L+1,) [byte] per sample, sent from device to gateway; nan if unknown
    local_iterations: int  #: K
    model_bits: float  #: [bit] gamma
    min_cut: int  #: smallest cut that is allowed

    def __post_init__(self) -> None:
        read_only(self)

    @classmethod
    def from_layers(
        cls, flop: Floats, fixed_bytes: Floats, sample_bytes: Floats, boundary_bytes: Floats | None = None, *,
        local_iterations: int, model_bits: float, min_cut: int,
    ) -> "Workload":  # fmt: skip
        """Workload from the costs of every layer, each (L,), and the bytes at every cut, (L+1,), if they are known."""
        return cls(
            _below(flop),
            _below(fixed_bytes),
            _below(sample_bytes),
            np.full(len(flop) + 1, np.nan) if boundary_bytes is None else boundary_bytes,
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
        """Number of devices on each floor, (M,)."""
        return np.bincount(self.floor, minlength=floors)


@dataclass(frozen=True, slots=True, eq=False)
class PlantArrays:
    """Everything about a plant that no round changes."""

    workload: Workload
    band: Band
    gateways: Gateways
    devices: Devices


def network_workload(
    layers: Sequence[LayerSpec], costs: LayerCosts, *, local_iterations: int, min_cut: int
) -> Workload:
    """Workload of training a network with the given layers and costs."""
    return Workload.from_layers(
        costs.flop,
        costs.fixed_bytes,
        costs.sample_bytes,
        boundary_bytes(layers),
        local_iterations=local_iterations,
        model_bits=model_bits(layers),
        min_cut=min_cut,
    )


def workload_of(scenario: Scenario) -> Workload:
    """Workload of a round in this scenario."""
    return network_workload(
        scenario.layers,
        layer_costs(scenario.layers, scenario.costs.model),
        local_iterations=scenario.training.local_iterations,
        min_cut=scenario.training.min_cut,
    )


def arrays_of(scenario: Scenario) -> PlantArrays:
    """Arrays of the scenario's plant; memory is infinite if the scenario has no limits."""
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


def column(entries: Sequence[object], field: str) -> Floats:
    """Values of one field over many objects, as an array."""
    return np.array([getattr(entry, field) for entry in entries], dtype=float)


def _below(per_layer: Floats) -> Floats:
    """Sums over the first l layers for every cut l, (L,) -> (L+1,)."""
    return np.concatenate([[0.0], np.cumsum(per_layer)])
