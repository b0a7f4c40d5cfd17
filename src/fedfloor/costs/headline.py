"""What a scenario costs at a glance, and which floors could ever take part."""

__all__ = ["DeviceNeed", "Headline", "Obstacle", "headline"]

from dataclasses import dataclass

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.costs.compute import computing_energy, exceeds, floor_sum, split_costs
from fedfloor.costs.plant import PlantArrays, arrays_of, column
from fedfloor.costs.radio import path_gain
from fedfloor.scenario.layers import parameter_count
from fedfloor.scenario.resolved import Scenario


@dataclass(frozen=True, slots=True)
class DeviceNeed:
    """What training only the first layer asks of the devices, from the least to the greatest."""

    energy: tuple[float, float]  #: [J]
    memory_bytes: tuple[float, float]
    affordable: int  #: devices whose memory and greatest energy suffice


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a floor can never take part."""

    floor: str
    reason: str


@dataclass(frozen=True, slots=True)
class Headline:
    """The figures that `fedfloor check` prints."""

    parameters: int
    model_bits: float  #: gamma
    flop_per_sample: float  #: forward and backward
    flop_per_round: float  #: all floors, K iterations
    at_cut_1: DeviceNeed
    samples: int | None  #: held by all devices; own data brings its own number
    obstacles: tuple[Obstacle, ...]  #: floors that no weather lets take part
    weak_links: tuple[Obstacle, ...]  #: floors whose upload needs more energy than arrives, unless fading helps


def headline(scenario: Scenario) -> Headline:
    """Headline figures of a scenario."""
    plant = arrays_of(scenario)
    batch, first = plant.devices.batch, np.ones(len(scenario.devices), dtype=np.int64)
    need = split_costs(plant.workload, first, batch)
    energy = _device_energy(plant, need.bottom_flop)
    allowed = ~exceeds(energy, _most_energy(scenario)) & ~exceeds(need.bottom_bytes, plant.devices.memory_bytes)
    return Headline(
        parameters=parameter_count(scenario.layers),
        model_bits=plant.workload.model_bits,
        flop_per_sample=float(plant.workload.flop_below[-1]),
        flop_per_round=float(np.sum(need.bottom_flop + need.top_flop)),
        at_cut_1=DeviceNeed(
            energy=(float(energy.min()), float(energy.max())),
            memory_bytes=(float(need.bottom_bytes.min()), float(need.bottom_bytes.max())),
            affordable=int(allowed.sum()),
        ),
        samples=None if ":" in scenario.data.name else sum(device.samples for device in scenario.devices),
        obstacles=_obstacles(scenario, plant),
        weak_links=_weak_links(scenario, plant),
    )


def _obstacles(scenario: Scenario, plant: PlantArrays) -> tuple[Obstacle, ...]:
    """Floors out of reach even with full energy, the best channel and all the time in the world.

    Every limit of the gateway eases with deeper cuts, so each device takes the deepest it can afford.
    """
    deepest = _deepest_cuts(scenario, plant)
    floor, floors, gateways = plant.devices.floor, plant.gateways.count, plant.gateways
    split = split_costs(plant.workload, np.maximum(deepest, 0), plant.devices.batch)
    stuck = floor_sum((deepest < 0).astype(float), floor, floors)
    top_bytes = floor_sum(split.top_bytes, floor, floors)
    idle = _least_energy_at_min_frequency(plant, split.top_flop)
    full, weak = exceeds(top_bytes, gateways.memory_bytes), exceeds(idle, _most_gateway_energy(scenario))
    found = []
    for m, name in enumerate(gateways.names):
        if stuck[m]:
            first = int(np.flatnonzero((floor == m) & (deepest < 0))[0])
            reason = f"device {plant.devices.names[first]} can afford no cut >= {plant.workload.min_cut}"
        elif full[m]:
            need, has = top_bytes[m] / 1e9, gateways.memory_bytes[m] / 1e9
            reason = f"the gateway needs {need:.3g} GB at the deepest cuts its devices afford, it has {has:.3g} GB"
        elif weak[m]:
            reason = f"the gateway needs {idle[m]:.3g} J to run at its least frequency"
        else:
            continue
        found.append(Obstacle(name, reason))
    return tuple(found)


def _weak_links(scenario: Scenario, plant: PlantArrays) -> tuple[Obstacle, ...]:
    """Floors whose slowest upload at mean gain, without interference, needs more energy than ever arrives."""
    if "uplink_gain" in scenario.traces:
        return ()
    need, most = _least_upload_energy(scenario, plant), _most_gateway_energy(scenario)
    return tuple(
        Obstacle(
            plant.gateways.names[m], f"an upload needs {need[m]:.3g} J at mean gain, at most {most[m]:.3g} J are there"
        )
        for m in np.flatnonzero(exceeds(need, most))
    )


def _deepest_cuts(scenario: Scenario, plant: PlantArrays) -> Ints:
    """Deepest cut that each device's memory and greatest energy allow, (N,); -1 where none is."""
    deepest = np.full(len(scenario.devices), -1)
    most = _most_energy(scenario)
    for cut in range(plant.workload.min_cut, plant.workload.layers + 1):
        split = split_costs(plant.workload, np.full(deepest.size, cut), plant.devices.batch)
        energy = _device_energy(plant, split.bottom_flop)
        fits = ~exceeds(energy, most) & ~exceeds(split.bottom_bytes, plant.devices.memory_bytes)
        deepest[fits] = cut
    return deepest


def _device_energy(plant: PlantArrays, flop: Floats) -> Floats:
    devices = plant.devices
    return computing_energy(flop, devices.frequency, devices.switched_capacitance, devices.flops_per_cycle)


def _most_energy(scenario: Scenario) -> Floats:
    """Most energy of each device (N,), a full battery included; a record may hold any amount."""
    known = scenario.limits and "device_energy" not in scenario.traces
    saved = np.array(scenario.battery.device_capacity)
    return column(scenario.devices, "max_energy") + saved if known else np.full(len(scenario.devices), np.inf)


def _most_gateway_energy(scenario: Scenario) -> Floats:
    """Most energy of each gateway (M,), a full battery included; a record may hold any amount."""
    known = scenario.limits and "gateway_energy" not in scenario.traces
    gateways = [floor.gateway for floor in scenario.floors]
    saved = np.array(scenario.battery.gateway_capacity)
    return column(gateways, "max_energy") + saved if known else np.full(len(gateways), np.inf)


def _least_energy_at_min_frequency(plant: PlantArrays, top_flop: Floats) -> Floats:
    """Least energy [J] of running every gateway at its least frequency, (M,).

    min sum c_n f_n^2 with sum f_n = f_min is f_min^2 / sum(1/c_n); a device with nothing on top takes it free.
    """
    floor, gateways = plant.devices.floor, plant.gateways
    coefficient = gateways.switched_capacitance[floor] / gateways.flops_per_cycle[floor] * top_flop  # (N,)
    with np.errstate(divide="ignore"):
        return gateways.min_frequency**2 / floor_sum(1.0 / coefficient, floor, gateways.count)


def _least_upload_energy(scenario: Scenario, plant: PlantArrays) -> Floats:
    """Energy [J] below which no upload can go at mean gain, (M,): the limit of Eq. (8) for vanishing power."""
    radio = scenario.radio
    gain = path_gain(
        column([entry.gateway for entry in scenario.floors], "distance"),
        reference_gain=radio.reference_gain,
        reference_distance=radio.reference_distance,
        exponent=radio.path_loss_exponent,
    )
    return np.asarray(plant.workload.model_bits * np.log(2.0) * radio.noise_density / gain, dtype=float)
