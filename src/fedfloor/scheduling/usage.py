"""Usage of a decision: times, energies and memory of every floor, and which limits they exceed."""

__all__ = [
    "FloorUsage",
    "LinkTimes",
    "TrainingUsage",
    "download_times",
    "link_times",
    "objective_of",
    "sending_energy",
    "short_of_energy",
    "short_of_memory",
    "training_usage",
    "usage_of",
]

import math
import sys
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import TypeAlias

import numpy as np

from fedfloor.arrays import Bools, Floats, Ints
from fedfloor.costs.compute import (
    SplitCosts,
    computing_energy,
    device_energy,
    exceeds,
    floor_maximum,
    floor_sum,
    split_of,
    training_time,
)
from fedfloor.costs.links import LinkCosts
from fedfloor.costs.radio import transmit_time, upload_energy
from fedfloor.scheduling.state import IDLE, Allocation, RoundState

#: what indexes arrays (M, J): all of them, or the channel of each floor
_Place: TypeAlias = EllipsisType | tuple[Ints, Ints]


@dataclass(frozen=True, slots=True, eq=False)
class LinkTimes:
    """Transfer times on every link, each (M, J) [s]."""

    download: Floats
    upload: Floats


@dataclass(frozen=True, slots=True, eq=False)
class TrainingUsage:
    """Time, energy and memory that training needs."""

    time: Floats  #: (M,) [s] Eq. (1), and the slowest device's link
    gateway_energy: Floats  #: (M,) [J] Eq. (3), and the links of its devices
    gateway_bytes: Floats  #: (M,) [byte] Eq. (5)
    device_energy: Floats  #: (N,) [J] Eq. (2), and its link
    device_bytes: Floats  #: (N,) [byte] Eq. (4)
    link_time: Floats | None  #: (N,) [s] sending and receiving of every device; None if links cost nothing


@dataclass(frozen=True, slots=True, eq=False)
class FloorUsage:
    """Time, energy and memory that a round needs on every floor; 0 for floors without a channel."""

    download: Floats  #: (M,) [s] Eq. (6)
    training: Floats  #: (M,) [s] Eq. (1)
    upload: Floats  #: (M,) [s] Eq. (7)
    gateway_energy: Floats  #: (M,) [J] Eq. (9)
    gateway_bytes: Floats  #: (M,) [byte] Eq. (5)
    device_energy: Floats  #: (N,) [J] Eq. (2)
    device_bytes: Floats  #: (N,) [byte] Eq. (4)
    link_time: Floats | None  #: (N,) [s] on the links of devices, part of training; None if links cost nothing
    short_of_energy: Bools  #: (M,) C9 or C10 is violated
    short_of_memory: Bools  #: (M,) C7 or C8 is violated

    @property
    def delay(self) -> Floats:
        """Delay of every floor, (M,) [s], inner sum of Eq. (10)."""
        return self.download + self.training + self.upload


def download_times(state: RoundState, at: _Place = ...) -> Floats:
    """Download times [s], Eq. (6): on every link, (M, J), or at a place in such arrays."""
    band, weather = state.plant.band, state.weather
    return transmit_time(
        state.plant.workload.download_bits,
        band.base_station_power,
        weather.downlink_gain[at],
        weather.downlink_interference[at],
        bandwidth=band.downlink_bandwidth,
        noise_density=band.noise_density,
    )


def link_times(state: RoundState, power: Floats) -> LinkTimes:
    """Transfer times on every link if gateways send with power (M,) [W], Eq. (6) and (7)."""
    return LinkTimes(download_times(state), _upload_times(state, power[:, None]))


def _upload_times(state: RoundState, power: Floats, at: _Place = ...) -> Floats:
    """Upload times [s], Eq. (7): on every link, (M, J), or at a place in such arrays; power [W] that fits them."""
    band, weather = state.plant.band, state.weather
    return transmit_time(
        state.plant.workload.upload_bits,
        power,
        weather.uplink_gain[at],
        weather.uplink_interference[at],
        bandwidth=band.uplink_bandwidth,
        noise_density=band.noise_density,
    )


def training_usage(state: RoundState, cut: Ints, frequency: Floats, extra: Ints | None = None) -> TrainingUsage:
    """Time, energy and memory of training with cuts (N,) and gateway frequencies (N,) [Hz].

    `extra` (M,) [1] is the number of iterations that each floor does beyond K; none if it is not given.
    """
    gateways, devices, floors = state.plant.gateways, state.plant.devices, state.floors
    floor, split = devices.floor, split_of(state.plant, cut)
    links = state.plant.links_at(cut)
    if extra is not None:
        split, links = _with_extra(state, cut, extra[floor], split, links)
    phi, capacitance = gateways.flops_per_cycle[floor], gateways.switched_capacitance[floor]
    times = training_time(
        split.bottom_flop, split.top_flop, devices.flops_per_cycle * devices.frequency, phi * frequency
    )
    gateway_energy = computing_energy(split.top_flop, frequency, capacitance, phi)
    if links is not None:
        times, gateway_energy = times + links.time, gateway_energy + links.gateway_energy
    return TrainingUsage(
        time=floor_maximum(times, floor, floors),
        gateway_energy=floor_sum(gateway_energy, floor, floors),
        gateway_bytes=floor_sum(split.top_bytes, floor, floors),
        device_energy=device_energy(state.plant, split.bottom_flop, links),
        device_bytes=split.bottom_bytes,
        link_time=None if links is None else links.time,
    )


def _with_extra(
    state: RoundState, cut: Ints, extra: Ints, split: SplitCosts, links: LinkCosts | None
) -> tuple[SplitCosts, LinkCosts | None]:
    """Costs of training and links with more iterations (N,) than K; weights still travel once a round."""
    factor = 1.0 + extra / state.plant.workload.local_iterations  # (N,)
    if links is not None:
        more = state.plant.more_link_costs
        assert more is not None, "training.extra_iterations is 0"
        step = more.at(cut)
        links = LinkCosts(
            links.time + extra * step.time,
            links.device_energy + extra * step.device_energy,
            links.gateway_energy + extra * step.gateway_energy,
        )
    return replace(split, bottom_flop=factor * split.bottom_flop, top_flop=factor * split.top_flop), links


def usage_of(state: RoundState, channel: Ints, allocation: Allocation, extra: Ints | None = None) -> FloorUsage:
    """Time, energy and memory of a round with channels (M,) and an allocation, for every floor.

    `extra` (M,) [1] is the number of iterations that each floor does beyond K.
    """
    served = channel != IDLE
    at = (np.arange(channel.size), np.where(served, channel, 0))
    download = np.where(served, download_times(state, at), 0.0)
    upload = np.where(served, _upload_times(state, allocation.power, at), 0.0)
    training = training_usage(state, allocation.cut, allocation.frequency, extra)
    gateway_energy = np.where(served, training.gateway_energy + sending_energy(allocation.power, upload), 0.0)
    busy = served[state.plant.devices.floor]
    devices_energy = np.where(busy, training.device_energy, 0.0)
    device_bytes = np.where(busy, training.device_bytes, 0.0)
    gateway_bytes = np.where(served, training.gateway_bytes, 0.0)
    return FloorUsage(
        download=download,
        training=np.where(served, training.time, 0.0),
        upload=upload,
        gateway_energy=gateway_energy,
        gateway_bytes=gateway_bytes,
        device_energy=devices_energy,
        device_bytes=device_bytes,
        link_time=None if training.link_time is None else np.where(busy, training.link_time, 0.0),
        short_of_energy=short_of_energy(state, gateway_energy, devices_energy),
        short_of_memory=short_of_memory(state, gateway_bytes, device_bytes),
    )


def sending_energy(power: Floats, upload: Floats) -> Floats:
    """Energy [J] of uploads that take so long [s] with a power [W], Eq. (8); nobody sends into a dead link."""
    return upload_energy(power, np.where(np.isfinite(upload), upload, 0.0))


def objective_of(tradeoff: float, delay: float, queues: float) -> float:
    """V delay - sum of the queues of the floors served, the objective of P1.

    A finite delay gives a finite objective: V delay is at most the largest float. V = 0 weighs not even an endless one.
    """
    weighted = tradeoff * delay if tradeoff else 0.0
    return (sys.float_info.max if weighted == math.inf and delay < math.inf else weighted) - queues


def short_of_energy(state: RoundState, gateway: Floats, devices: Floats) -> Bools:
    """Floors whose gateway, (..., M) [J], or one of whose devices, (N,) [J], needs more energy than it has: C9, C10."""
    lacking = _any_device(exceeds(devices, state.weather.device_energy), state)
    return np.asarray(exceeds(gateway, state.weather.gateway_energy) | lacking)


def short_of_memory(state: RoundState, gateway: Floats, devices: Floats) -> Bools:
    """Floors whose gateway, (..., M) [byte], or one of whose devices, (N,) [byte], needs more memory: C7, C8."""
    lacking = _any_device(exceeds(devices, state.plant.devices.memory_bytes), state)
    return np.asarray(exceeds(gateway, state.plant.gateways.memory_bytes) | lacking)


def _any_device(devices: Bools, state: RoundState) -> Bools:
    """Whether a floor has at least one of these devices, (N,) -> (M,)."""
    return floor_sum(devices.astype(float), state.plant.devices.floor, state.floors) > 0
