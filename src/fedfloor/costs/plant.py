"""The plant as arrays: what stays the same from round to round, in the form that the formulas need."""

__all__ = [
    "Band",
    "Devices",
    "Gateways",
    "MeasuredCosts",
    "PlantArrays",
    "SplitCosts",
    "Workload",
    "arrays_of",
    "column",
    "counted_costs",
    "floor_of_devices",
    "mean_gains",
    "network_workload",
    "split_costs",
    "traffic_of",
    "workload_of",
]

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from fedfloor.arrays import Floats, Ints, read_only
from fedfloor.costs.layers import (
    LayerCosts,
    boundary_values,
    layer_costs,
    model_bits,
    sums_below,
    velocity_bytes,
    velocity_flop,
)
from fedfloor.costs.links import LinkCosts, Links, Traffic, label_bits, link_costs
from fedfloor.costs.precision import PICTURE_BITS, TARGET_BITS, download_bits, scale_bits, upload_bits
from fedfloor.costs.radio import path_gain
from fedfloor.scenario.file import Precision
from fedfloor.scenario.layers import LayerSpec
from fedfloor.scenario.resolved import Device, DeviceLink, Scenario


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """What one round of training demands; arrays have an entry for every cut l = 0..L.

    Names that end in `_below` are sums over the first l layers.
    """

    flop_below: Floats  #: (L+1,) [1]    sum_{i<=l} (o_i + o'_i), per sample
    fixed_bytes_below: Floats  #: (L+1,) [byte] weights and gradients
    sample_bytes_below: Floats  #: (L+1,) [byte] per sample of the batch
    local_iterations: int  #: K
    model_bits: float  #: [bit] gamma, with 32 bits per parameter
    upload_bits: float  #: [bit] what a gateway sends in a round
    download_bits: float  #: [bit] what a gateway receives in a round
    min_cut: int  #: smallest cut that is allowed
    traffic: Traffic | None = None  #: between devices and gateways; None if it costs nothing
    extra_iterations: int = 0  #: most that a floor adds to K while it would wait
    redraws: bool = False  #: every iteration draws a new batch

    def __post_init__(self) -> None:
        read_only(self)

    @classmethod
    def from_layers(
        cls, flop: Floats, fixed_bytes: Floats, sample_bytes: Floats, *,
        local_iterations: int, model_bits: float, min_cut: int, traffic: Traffic | None = None,
        upload_bits: float | None = None, download_bits: float | None = None,
        extra_iterations: int = 0, redraws: bool = False,
    ) -> "Workload":  # fmt: skip
        """Workload from the costs of every layer, each (L,).

        A direction whose bits are not given sends the model as it is.
        """
        return cls(
            sums_below(flop),
            sums_below(fixed_bytes),
            sums_below(sample_bytes),
            local_iterations=local_iterations,
            model_bits=model_bits,
            upload_bits=model_bits if upload_bits is None else upload_bits,
            download_bits=model_bits if download_bits is None else download_bits,
            min_cut=min_cut,
            traffic=traffic,
            extra_iterations=extra_iterations,
            redraws=redraws,
        )

    @property
    def layers(self) -> int:
        """L."""
        return len(self.flop_below) - 1


@dataclass(frozen=True, slots=True, eq=False)
class SplitCosts:
    """Costs of each device's two halves at its cut, each (N,)."""

    bottom_flop: Floats  #: K D~_n sum_{l<=l_n} (o_l + o'_l), A_n
    top_flop: Floats  #: K D~_n sum_{l>l_n} (o_l + o'_l), B_n
    bottom_bytes: Floats  #: sum_{l<=l_n} g_{n,l}, Eq. (4)
    top_bytes: Floats  #: sum_{l>l_n} g_{n,l}, one term of Eq. (5)


def split_costs(workload: Workload, cut: Ints, batch: Floats) -> SplitCosts:
    """Work and memory of the halves for cuts and batches D~_n, both (N,) or of shapes that broadcast."""
    flop, fixed, sample = workload.flop_below, workload.fixed_bytes_below, workload.sample_bytes_below
    points = workload.local_iterations * batch  # (N,)
    return SplitCosts(
        bottom_flop=points * flop[cut],
        top_flop=points * (flop[-1] - flop[cut]),
        bottom_bytes=fixed[cut] + batch * sample[cut],
        top_bytes=fixed[-1] - fixed[cut] + batch * (sample[-1] - sample[cut]),
    )


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
    links: Links | None = None  #: to their gateways; None if these cost nothing

    def __post_init__(self) -> None:
        read_only(self)

    def on_floor(self, floors: int) -> Ints:
        """Number of devices on each floor, (M,)."""
        return np.bincount(self.floor, minlength=floors)


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredCosts:
    """Costs of one round that FLOPs per sample alone do not give, because they were measured or include momentum.

    Arrays have a row per device and a column per cut, (N, L+1).
    """

    bottom_cycles: Floats  #: [1] of the device, for the layers below the cut
    top_cycles: Floats  #: [1] of its gateway, for the layers above the cut
    bottom_bytes: Floats  #: [byte] on the device
    top_bytes: Floats  #: [byte] on its gateway


@dataclass(frozen=True, slots=True, eq=False)
class PlantArrays:
    """Everything about a plant that no round changes."""

    workload: Workload
    band: Band
    gateways: Gateways
    devices: Devices
    measured: MeasuredCosts | None = None  #: None: all costs follow from the workload, which has no FLOPs of momentum
    link_costs: LinkCosts | None = field(init=False, default=None)  #: None if the links of devices cost nothing
    #: what one more iteration adds to them; None if no floor may do more
    more_link_costs: LinkCosts | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.measured is not None:
            read_only(self.measured)
        traffic, links, batch = self.workload.traffic, self.devices.links, self.devices.batch
        if traffic is not None and links is not None:
            costs = link_costs(traffic, links, batch)
            object.__setattr__(self, "link_costs", costs)
            if self.workload.extra_iterations:
                batches = traffic.batches + 1 if self.workload.redraws else traffic.batches
                longer = replace(traffic, iterations=traffic.iterations + 1, batches=batches)
                object.__setattr__(self, "more_link_costs", link_costs(longer, links, batch).minus(costs))

    def links_at(self, cut: Ints, device: Ints | None = None) -> LinkCosts | None:
        """Costs of the links of all or some devices at their cuts, see `LinkCosts.at`; None if they cost nothing."""
        return None if self.link_costs is None else self.link_costs.at(cut, device)


def network_workload(
    layers: Sequence[LayerSpec],
    costs: LayerCosts,
    *,
    local_iterations: int,
    min_cut: int,
    precision: Precision = Precision(),  # noqa: B008  # frozen
    traffic: Traffic | None = None,
    extra_iterations: int = 0,
    redraws: bool = False,
) -> Workload:
    """Workload of training a network with the given layers and costs."""
    return Workload.from_layers(
        costs.flop,
        costs.fixed_bytes,
        costs.sample_bytes,
        local_iterations=local_iterations,
        model_bits=model_bits(layers),
        upload_bits=upload_bits(layers, precision.upload),
        download_bits=download_bits(layers, precision.download),
        min_cut=min_cut,
        traffic=traffic,
        extra_iterations=extra_iterations,
        redraws=redraws,
    )


def workload_of(scenario: Scenario) -> Workload:
    """Workload of a round in this scenario."""
    costs = layer_costs(scenario.layers, scenario.costs.model)
    if _counts_momentum(scenario):
        costs = replace(costs, gradient_bytes=costs.gradient_bytes + velocity_bytes(scenario.layers))
    return network_workload(
        scenario.layers,
        costs,
        local_iterations=scenario.training.local_iterations,
        min_cut=scenario.training.min_cut,
        precision=scenario.precision,
        traffic=traffic_of(scenario) if any(device.link for device in scenario.devices) else None,
        extra_iterations=scenario.training.extra_iterations,
        redraws=scenario.training.redraw_batch,
    )


def _counts_momentum(scenario: Scenario) -> bool:
    """Whether the cost model has momentum to count; the paper's table knows none."""
    return scenario.training.momentum > 0.0 and scenario.costs.model == "exact"


def traffic_of(scenario: Scenario) -> Traffic:
    """What a device and its gateway exchange in a round of this scenario."""
    training, precision = scenario.training, scenario.precision
    layers, pictures = scenario.layers, scenario.data.holds_pictures
    counters = np.array([layer.counters for layer in layers], dtype=float)
    return Traffic(
        values=boundary_values(layers),
        parameters_below=sums_below(np.array([sum(layer.tensors) for layer in layers], dtype=float)),
        counters_below=sums_below(counters) if counters.any() else None,
        iterations=training.local_iterations,
        batches=training.local_iterations if training.redraw_batch else 1,
        value_bits=precision.boundary,
        tensor_bits=scale_bits(precision.boundary),
        sample_bits=PICTURE_BITS if pictures else precision.boundary,
        batch_bits=0 if pictures else scale_bits(precision.boundary),
        weight_bits_down=precision.download,
        label_bits=TARGET_BITS if training.predicts_numbers else label_bits(scenario.model.classes),
    )


def arrays_of(scenario: Scenario) -> PlantArrays:
    """Arrays of the scenario's plant; memory is infinite if the scenario has no limits."""
    gateways = [floor.gateway for floor in scenario.floors]
    devices = scenario.devices
    memory = 1.0 if scenario.limits else np.inf
    fraction = scenario.training.batch_fraction
    plant = PlantArrays(
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
            floor=floor_of_devices(scenario.floors),
            batch=np.array([device.batch(fraction) for device in devices], dtype=float),
            flops_per_cycle=column(devices, "flops_per_cycle"),
            switched_capacitance=column(devices, "switched_capacitance"),
            frequency=column(devices, "frequency"),
            memory_bytes=column(devices, "memory_bytes") * memory,
            links=_links(devices),
        ),
    )
    measured = _measured(scenario, plant)
    return plant if measured is None else replace(plant, measured=measured)


def _measured(scenario: Scenario, plant: PlantArrays) -> MeasuredCosts | None:
    """Costs of a round where machines have profiles, and counted ones where they have none; None if none is needed.

    Momentum adds its FLOPs to what is counted, and its bytes to all. Times are measured without it.
    """
    devices, workload = plant.devices, plant.workload
    of_devices = _rows_of([device.profile for device in scenario.devices])
    of_gateways = _rows_of([floor.gateway.profile for floor in scenario.floors for _ in floor.devices])
    if not of_devices and not of_gateways and not _counts_momentum(scenario):
        return None
    from fedfloor.costs.measured import fitting_profiles, half_bytes, half_cycles  # noqa: PLC0415  # seldom needed

    profiles = fitting_profiles(scenario)
    costs = counted_costs(plant)
    velocity = sums_below(velocity_bytes(scenario.layers)) if scenario.training.momentum > 0.0 else np.zeros(1)
    if _counts_momentum(scenario):
        flop = workload.local_iterations * sums_below(velocity_flop(scenario.layers))  # (L+1,)
        costs.bottom_cycles[:] += flop / devices.flops_per_cycle[:, None]
        costs.top_cycles[:] += (flop[-1] - flop) / plant.gateways.flops_per_cycle[devices.floor][:, None]
    for path, rows in of_devices.items():
        batch, profile = devices.batch[rows], profiles[path]
        costs.bottom_cycles[rows] = half_cycles(profile, scenario.layers, batch, workload.local_iterations).bottom
        held = half_bytes(profile, scenario.layers, batch, scenario.costs.model).bottom
        costs.bottom_bytes[rows] = held + velocity
    for path, rows in of_gateways.items():
        batch, profile = devices.batch[rows], profiles[path]
        costs.top_cycles[rows] = half_cycles(profile, scenario.layers, batch, workload.local_iterations).top
        held = half_bytes(profile, scenario.layers, batch, scenario.costs.model).top
        costs.top_bytes[rows] = held + velocity[-1] - velocity
    return costs


def counted_costs(plant: PlantArrays) -> MeasuredCosts:
    """What follows from the workload, in the form of measured costs; rows can be replaced by what was measured."""
    devices, workload = plant.devices, plant.workload
    counted = split_costs(workload, np.arange(workload.layers + 1), devices.batch[:, None])  # (N, L+1) each
    return MeasuredCosts(
        bottom_cycles=counted.bottom_flop / devices.flops_per_cycle[:, None],
        top_cycles=counted.top_flop / plant.gateways.flops_per_cycle[devices.floor][:, None],
        bottom_bytes=counted.bottom_bytes,
        top_bytes=counted.top_bytes,
    )


def _rows_of(paths: Sequence[Path | None]) -> dict[Path, Ints]:
    """Rows that use each profile."""
    known = {path: number for number, path in enumerate(dict.fromkeys(path for path in paths if path is not None))}
    numbers = np.array([known.get(path, -1) if path is not None else -1 for path in paths])
    return {path: np.flatnonzero(numbers == number) for path, number in known.items()}


def _links(devices: Sequence[Device]) -> Links | None:
    """Links of the devices; one that costs nothing for those without, and None if nobody has one."""
    if not any(device.link for device in devices):
        return None
    links = [device.link or DeviceLink() for device in devices]
    return Links(**{key: column(links, key) for key in DeviceLink.model_fields})


class _WithDevices(Protocol):
    """A floor, as a scenario or a snapshot describes it."""

    @property
    def devices(self) -> Sequence[object]: ...


def floor_of_devices(floors: Sequence[_WithDevices]) -> Ints:
    """Floor m of each device, (N,), never decreasing."""
    return np.repeat(np.arange(len(floors)), [len(floor.devices) for floor in floors])


def mean_gains(scenario: Scenario) -> Floats:
    """Mean gain of each floor's links to the base station, (M,) [1]."""
    radio = scenario.radio
    return path_gain(
        column([floor.gateway for floor in scenario.floors], "distance"),
        reference_gain=radio.reference_gain,
        reference_distance=radio.reference_distance,
        exponent=radio.path_loss_exponent,
    )


def column(entries: Sequence[object], field: str) -> Floats:
    """Values of one field over many objects, as an array."""
    return np.array([getattr(entry, field) for entry in entries], dtype=float)
