"""What a scenario costs at a glance, and which floors could ever take part."""

__all__ = ["CostSource", "DeviceNeed", "Headline", "Obstacle", "headline"]

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedfloor.arrays import Bools, Floats
from fedfloor.costs.compute import affordable, device_energy, exceeds, floor_sum, split_costs, split_of
from fedfloor.costs.hardware import fingerprint
from fedfloor.costs.measured import fitting_profiles, is_measured
from fedfloor.costs.plant import PlantArrays, arrays_of, column, mean_gains
from fedfloor.costs.radio import least_upload_energy, noise_over_gain
from fedfloor.scenario.layers import parameter_count
from fedfloor.scenario.resolved import Scenario


@dataclass(frozen=True, slots=True)
class DeviceNeed:
    """What a device needs at the smallest cut at which it trains anything."""

    cut: int  #: number of layers that it trains then: `training.min_cut`, but at least 1
    energy: tuple[float, float]  #: [J] smallest and largest need of any device
    memory_bytes: tuple[float, float]  #: smallest and largest need of any device
    affordable: int  #: number of devices whose memory and maximum energy suffice


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A floor that cannot take part, and why."""

    floor: str
    reason: str


@dataclass(frozen=True, slots=True)
class CostSource:
    """What the costs of some devices and gateways rest on: one profile, or the FLOPs of data sheets."""

    profile: str | None  #: file; None for data sheets
    devices: int  #: how many use it
    gateways: int  #: how many use it
    machine: str = ""  #: that was measured
    model: str = ""  #: that was measured
    layers: int = 0  #: of the scenario's network that were measured; the others follow from the speed of their kind
    memory: bool = False  #: whether memory was measured too, as it is for the same network
    measured_batches: tuple[int, int] | None = None  #: smallest and largest batch that was measured
    other_batches: tuple[int, ...] = ()  #: of devices that use it, outside of the measured ones, ascending


@dataclass(frozen=True, slots=True)
class Headline:
    """The quantities that `fedfloor check` prints."""

    parameters: int
    model_bits: float  #: gamma, with 32 bits per parameter
    upload_bits: float  #: what a gateway sends in a round
    download_bits: float  #: what a gateway receives in a round
    flop_per_sample: float  #: forward and backward
    flop_per_round: float  #: all floors, K iterations
    at_least_cut: DeviceNeed
    samples: int | None  #: held by all devices; None for data of your own, which is counted when it is loaded
    cost_sources: tuple[CostSource, ...]  #: what the costs of devices and gateways rest on
    obstacles: tuple[Obstacle, ...]  #: floors that cannot take part in any weather
    weak_links: tuple[Obstacle, ...]  #: floors whose upload needs more energy than arrives at mean gain


def headline(scenario: Scenario) -> Headline:
    """Headline quantities of a scenario."""
    plant = arrays_of(scenario)
    least = max(scenario.training.min_cut, 1)
    cuts = np.full(plant.devices.batch.size, least, dtype=np.int64)
    need = split_of(plant, cuts)
    energy = device_energy(plant, need.bottom_flop, plant.links_at(cuts))
    counted = split_costs(plant.workload, cuts, plant.devices.batch)
    return Headline(
        parameters=parameter_count(scenario.layers),
        model_bits=plant.workload.model_bits,
        upload_bits=plant.workload.upload_bits,
        download_bits=plant.workload.download_bits,
        flop_per_sample=float(plant.workload.flop_below[-1]),
        flop_per_round=float(np.sum(counted.bottom_flop + counted.top_flop)),
        at_least_cut=DeviceNeed(
            cut=least,
            energy=(float(energy.min()), float(energy.max())),
            memory_bytes=(float(need.bottom_bytes.min()), float(need.bottom_bytes.max())),
            affordable=int(affordable(plant, cuts, _max_device_energy(scenario)).sum()),
        ),
        samples=None if scenario.data.says_holders else sum(device.samples for device in scenario.devices),
        cost_sources=_cost_sources(scenario),
        obstacles=_obstacles(scenario, plant),
        weak_links=_weak_links(scenario, plant),
    )


def _cost_sources(scenario: Scenario) -> tuple[CostSource, ...]:
    """Profiles in the order of their first use, then data sheets if anything rests on them."""
    devices = Counter(device.profile for device in scenario.devices)
    gateways = Counter(floor.gateway.profile for floor in scenario.floors)
    sources = []
    profiles = fitting_profiles(scenario)
    for path in dict.fromkeys([*devices, *gateways]):
        if path is None:
            continue
        profile = profiles[path]
        sources.append(
            CostSource(
                str(path),
                devices[path],
                gateways[path],
                profile.machine.cpu,
                profile.model,
                int(is_measured(profile, scenario.layers).sum()),
                profile.fingerprint == fingerprint(scenario.layers),
                (profile.batches[0], profile.batches[-1]),
                _other_batches(scenario, path, profile.batches),
            )
        )
    if devices[None] or gateways[None]:
        sources.append(CostSource(None, devices[None], gateways[None]))
    return tuple(sources)


def _other_batches(scenario: Scenario, path: Path, measured: Sequence[int]) -> tuple[int, ...]:
    """Batches outside of the measured ones, of devices that use a profile or whose gateway does, ascending."""
    batches = {
        device.batch(scenario.training.batch_fraction)
        for floor in scenario.floors
        for device in floor.devices
        if path in (device.profile, floor.gateway.profile)
    }
    return tuple(sorted(batch for batch in batches if not measured[0] <= batch <= measured[-1]))


def _obstacles(scenario: Scenario, plant: PlantArrays) -> tuple[Obstacle, ...]:
    """Floors that cannot take part even with full energy, the best channel and unlimited time.

    Memory, work and the link's energy each count at the affordable cut that costs the gateway the least of it.
    """
    affords = _affordable_cuts(scenario, plant)
    able = affords.any(axis=1)
    floor, floors, gateways = plant.devices.floor, plant.gateways.count, plant.gateways
    held, work = np.full(floor.size, np.inf), np.full(floor.size, np.inf)
    for cut in range(plant.workload.min_cut, plant.workload.layers + 1):  # cut by cut, because devices can be many
        split = split_of(plant, np.full(floor.size, cut))
        np.minimum(held, split.top_bytes, out=held, where=affords[:, cut])
        np.minimum(work, split.top_flop, out=work, where=affords[:, cut])
    stuck = np.flatnonzero(~able)
    first_stuck = np.searchsorted(floor[stuck], np.arange(floors + 1))  # of each floor, among those that are stuck
    top_bytes = floor_sum(np.where(able, held, 0.0), floor, floors)
    energy = _least_energy_at_min_frequency(plant, np.where(able, work, 0.0))
    if plant.link_costs is not None:
        least = np.min(plant.link_costs.gateway_energy, axis=1, where=affords, initial=np.inf)
        energy = energy + floor_sum(np.where(able, least, 0.0), floor, floors)
    lacks_memory = exceeds(top_bytes, gateways.memory_bytes)
    lacks_energy = exceeds(energy, _max_gateway_energy(scenario))
    obstacles = []
    for m, name in enumerate(gateways.names):
        if first_stuck[m] < first_stuck[m + 1]:
            name_of_device = plant.devices.names[stuck[first_stuck[m]]]
            reason = f"device {name_of_device} can afford no cut >= {plant.workload.min_cut}"
        elif lacks_memory[m]:
            need, has = top_bytes[m] / 1e9, gateways.memory_bytes[m] / 1e9
            reason = f"the gateway needs at least {need:.3g} GB for cuts that its devices afford, it has {has:.3g} GB"
        elif lacks_energy[m]:
            links = "" if plant.link_costs is None else " and to exchange data with its devices"
            reason = f"the gateway needs {energy[m]:.3g} J to run at its least frequency{links}"
        else:
            continue
        obstacles.append(Obstacle(name, reason))
    return tuple(obstacles)


def _weak_links(scenario: Scenario, plant: PlantArrays) -> tuple[Obstacle, ...]:
    """Floors whose slowest upload at mean gain, without interference, needs more energy than ever arrives."""
    if "uplink_gain" in scenario.traces:
        return ()
    need, maximum = _least_upload_energy(scenario, plant), _max_gateway_energy(scenario)
    return tuple(
        Obstacle(
            plant.gateways.names[m],
            f"an upload needs {need[m]:.3g} J at mean gain, at most {maximum[m]:.3g} J are there",
        )
        for m in np.flatnonzero(exceeds(need, maximum))
    )


def _affordable_cuts(scenario: Scenario, plant: PlantArrays) -> Bools:
    """Whether the memory and the maximum energy of each device allow each cut, (N, L+1)."""
    devices, maximum = plant.devices.batch.size, _max_device_energy(scenario)
    affords = np.zeros((devices, plant.workload.layers + 1), dtype=bool)
    for cut in range(plant.workload.min_cut, plant.workload.layers + 1):
        affords[:, cut] = affordable(plant, np.full(devices, cut), maximum)
    return affords


def _max_device_energy(scenario: Scenario) -> Floats:
    """Maximum energy of each device with a full battery (N,); inf if limits are off or a trace gives the energy."""
    devices = scenario.devices
    if not scenario.limits or "device_energy" in scenario.traces:
        return np.full(len(devices), np.inf)
    return np.asarray(column(devices, "max_energy") + scenario.battery.device_capacity, dtype=float)


def _max_gateway_energy(scenario: Scenario) -> Floats:
    """Maximum energy of each gateway with a full battery (M,); inf if limits are off or a trace gives the energy."""
    gateways = [floor.gateway for floor in scenario.floors]
    if not scenario.limits or "gateway_energy" in scenario.traces:
        return np.full(len(gateways), np.inf)
    return np.asarray(column(gateways, "max_energy") + scenario.battery.gateway_capacity, dtype=float)


def _least_energy_at_min_frequency(plant: PlantArrays, top_flop: Floats) -> Floats:
    """Least energy [J] of running every gateway at its minimum frequency, (M,).

    min sum c_n f_n^2 with sum f_n = f_min is f_min^2 / sum(1/c_n). A device without layers on the gateway takes any
    frequency at no cost.
    """
    floor, gateways = plant.devices.floor, plant.gateways
    coefficient = gateways.switched_capacitance[floor] / gateways.flops_per_cycle[floor] * top_flop  # (N,)
    with np.errstate(divide="ignore"):
        return gateways.min_frequency**2 / floor_sum(1.0 / coefficient, floor, gateways.count)


def _least_upload_energy(scenario: Scenario, plant: PlantArrays) -> Floats:
    """Lower bound on the energy of an upload at mean gain, without interference [J], (M,)."""
    band, gain = plant.band, mean_gains(scenario)
    noise = noise_over_gain(
        gain, np.zeros_like(gain), bandwidth=band.uplink_bandwidth, noise_density=band.noise_density
    )
    return least_upload_energy(plant.workload.upload_bits, noise, bandwidth=band.uplink_bandwidth)
