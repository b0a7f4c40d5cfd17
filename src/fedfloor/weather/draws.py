"""Gains, interference and energy of every round, drawn from a seed or read from recorded traces.

Each purpose has a random stream of its own, addressed by round. One seed therefore gives every policy the same weather,
any round can be drawn again on its own, and a trace that replaces one kind of draw leaves the others unchanged.
"""

__all__ = ["Climate", "Purpose", "Weather", "climate_of", "energy_arrivals", "fading", "interference", "round_stream"]

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from fedfloor.arrays import Bools, Floats, read_only
from fedfloor.costs.plant import column, mean_gains
from fedfloor.errors import TraceError
from fedfloor.scenario.resolved import Scenario
from fedfloor.streams import Stream, run_stream
from fedfloor.weather.traces import read_trace


class Purpose(IntEnum):
    """What a random stream is for; the numbers never change, because they determine what a seed draws."""

    UPLINK_GAIN = 0
    DOWNLINK_GAIN = 1
    UPLINK_INTERFERENCE = 2
    DOWNLINK_INTERFERENCE = 3
    GATEWAY_ENERGY = 4
    DEVICE_ENERGY = 5


@dataclass(frozen=True, slots=True, eq=False)
class Weather:
    """Outside conditions of one round."""

    uplink_gain: Floats  #: (M, J) [1] h^u_{m,j}(t)
    downlink_gain: Floats  #: (M, J) [1] h^d_{m,j}(t)
    uplink_interference: Floats  #: (M, J) [W] i^u_{m,j}(t)
    downlink_interference: Floats  #: (M, J) [W] i^d_{m,j}(t)
    gateway_energy: Floats  #: (M,) [J] E_m^G(t)
    device_energy: Floats  #: (N,) [J] E_n^D(t)

    def __post_init__(self) -> None:
        read_only(self)

    def reaching(self, floors: Bools) -> "Weather":
        """The same weather with dead links to all but these floors (M,)."""
        return replace(
            self,
            uplink_gain=np.where(floors[:, None], self.uplink_gain, 0.0),
            downlink_gain=np.where(floors[:, None], self.downlink_gain, 0.0),
        )


def round_stream(seed: int, purpose: int, index: int) -> np.random.Generator:
    """Random number generator for one purpose in one round."""
    return run_stream(seed, Stream.WEATHER, purpose, index)


def fading(mean_gain: Floats, channels: int, rng: np.random.Generator) -> Floats:
    """Gains under Rayleigh fading: the mean (M,) times exponential draws of unit mean, (M, J)."""
    return mean_gain[:, None] * rng.exponential(1.0, size=(mean_gain.size, channels))


def interference(deviation: Floats, rng: np.random.Generator) -> Floats:
    """Half-normal interference power |N(0, s)| [W] for deviations (M, J)."""
    return np.abs(rng.normal(0.0, 1.0, size=deviation.shape)) * deviation


def energy_arrivals(most: Floats, rng: np.random.Generator) -> Floats:
    """Energy [J] that arrives in a round, uniform on (0, E^max]; same shape."""
    return most * (1.0 - rng.random(most.shape))


@dataclass(frozen=True, slots=True, eq=False)
class Climate:
    """Parameters from which the weather of every round is drawn, and the traces that replace some of the draws."""

    seed: int
    mean_gain: Floats  #: (M,) [1]
    uplink_deviation: Floats  #: (M, J) [W] of the interference
    downlink_deviation: Floats  #: (M, J) [W]
    most_gateway_energy: Floats  #: (M,) [J] inf without limits
    most_device_energy: Floats  #: (N,) [J] inf without limits
    traces: Mapping[str, Floats]  #: kind of draw -> recorded values (T, ...)

    def weather(self, index: int) -> Weather:
        """The weather of one round, counted from 0."""
        channels = self.uplink_deviation.shape[1]
        draws: dict[str, Callable[[np.random.Generator], Floats]] = {
            "uplink_gain": lambda rng: fading(self.mean_gain, channels, rng),
            "downlink_gain": lambda rng: fading(self.mean_gain, channels, rng),
            "uplink_interference": lambda rng: interference(self.uplink_deviation, rng),
            "downlink_interference": lambda rng: interference(self.downlink_deviation, rng),
            "gateway_energy": lambda rng: energy_arrivals(self.most_gateway_energy, rng),
            "device_energy": lambda rng: energy_arrivals(self.most_device_energy, rng),
        }
        return Weather(
            **{
                kind: self._recorded(kind, index) if kind in self.traces else draw(self._stream(kind, index))
                for kind, draw in draws.items()
            }
        )

    def _stream(self, kind: str, index: int) -> np.random.Generator:
        return round_stream(self.seed, Purpose[kind.upper()], index)

    def _recorded(self, kind: str, index: int) -> Floats:
        trace = self.traces[kind]
        if index >= len(trace):
            problem = f"has {len(trace)} rounds, but round {index} (counted from 0) is needed"
            raise TraceError(f"traces.{kind}: {problem}. Run fewer rounds or record more")
        return np.array(trace[index])


def climate_of(scenario: Scenario) -> Climate:
    """Climate of a scenario; without limits the energy is infinite."""
    gateways = [floor.gateway for floor in scenario.floors]
    paths = {kind: path for kind, path in scenario.traces.items() if scenario.limits or "energy" not in kind}
    return Climate(
        seed=scenario.seed,
        mean_gain=mean_gains(scenario),
        uplink_deviation=column(gateways, "uplink_interference"),
        downlink_deviation=column(gateways, "downlink_interference"),
        most_gateway_energy=_limited(scenario, column(gateways, "max_energy")),
        most_device_energy=_limited(scenario, column(scenario.devices, "max_energy")),
        traces={kind: read_trace(kind, path, scenario) for kind, path in paths.items()},
    )


def _limited(scenario: Scenario, energy: Floats) -> Floats:
    return energy if scenario.limits else np.full_like(energy, np.inf)
