"""The plant in SI units: what every formula, solver and simulation starts from."""

__all__ = ["DERIVED", "Battery", "Device", "DeviceLink", "Floor", "Gateway", "Origin", "Radio", "Scenario"]

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    PrivateAttr,
    field_serializer,
)

from fedfloor.scenario.data import Data
from fedfloor.scenario.file import Aggregation, Baseline, Deploy, Participation, Policy, Precision, Training
from fedfloor.scenario.layers import LayerSpec
from fedfloor.scenario.model import Costs, Model

#: fields of a scenario in SI units, which are computed from its file; the others are sections of the file
DERIVED = ("radio", "floors", "battery", "layers", "traces", "profiles")


class _Si(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class DeviceLink(_Si):
    """Link between a device and its gateway; the default takes no time and no energy."""

    rate_up: PositiveFloat = math.inf  #: [bit/s] from the device to the gateway
    rate_down: PositiveFloat = math.inf  #: [bit/s] from the gateway to the device
    device_up: NonNegativeFloat = 0.0  #: [J/bit] spent by the device on what it sends
    device_down: NonNegativeFloat = 0.0  #: [J/bit] spent by the device on what it receives
    gateway_up: NonNegativeFloat = 0.0  #: [J/bit] spent by the gateway on what the device sends
    gateway_down: NonNegativeFloat = 0.0  #: [J/bit] spent by the gateway on what it sends

    @field_serializer("rate_up", "rate_down", when_used="json")
    def _endless_is_null(self, rate: float) -> float | None:
        return rate if math.isfinite(rate) else None


class Device(_Si):
    """Weak machine on a shop floor: holds private data, trains the bottom layers (Sec. III-A1)."""

    name: str  #: label in reports and log lines
    samples: PositiveInt  #: [1]      D_n, as the scenario asks for
    held: PositiveInt | None = None  #: [1]      D_n that are left if classes run out
    frequency: PositiveFloat  #: [Hz]     f_n^D
    flops_per_cycle: PositiveFloat  #: [1]      phi_n^D
    switched_capacitance: PositiveFloat  #: [W/Hz^3] v_n^D
    memory_bytes: PositiveFloat  #: [byte]   G_n^{D,max}, C7
    max_energy: NonNegativeFloat  #: [J]      E_n^{D,max}, C9
    link: DeviceLink | None = None  #: to the gateway; None if it costs nothing
    profile: Path | None = None  #: file with measured costs; None: they follow from FLOPs

    def batch(self, fraction: float) -> int:
        """Number of samples in one batch: D~_n = max(1, round(alpha D_n))."""
        return max(1, round(fraction * (self.held or self.samples)))


class Gateway(_Si):
    """Edge gateway of one shop floor: trains the top DNN layers (Sec. III-A2)."""

    distance: PositiveFloat  #: [m]      d_m, to the base station
    flops_per_cycle: PositiveFloat  #: [1]      phi_m^G
    switched_capacitance: PositiveFloat  #: [W/Hz^3] v_m^G
    min_frequency: NonNegativeFloat  #: [Hz]     f_m^{G,min}, C6
    max_frequency: PositiveFloat  #: [Hz]     f_m^{G,max}, C6
    memory_bytes: PositiveFloat  #: [byte]   G_m^{G,max}, C8
    max_energy: NonNegativeFloat  #: [J]      E_m^{G,max}, C10
    max_power: PositiveFloat  #: [W]      P_m^max, C4
    uplink_interference: tuple[NonNegativeFloat, ...]  #: (J,) [W] deviation of i^u_{m,j}
    downlink_interference: tuple[NonNegativeFloat, ...]  #: (J,) [W] deviation of i^d_{m,j}
    profile: Path | None = None  #: file with measured costs; None: they follow from FLOPs


class Floor(_Si):
    """One shop floor: a gateway and the devices that can reach it."""

    name: str  #: label in reports and log lines
    classes_per_device: PositiveInt | None  #: [1] q_m; None for all classes
    classes: tuple[int, ...] | None = None  #: labels that each device holds; None for drawn ones
    gateway: Gateway
    devices: tuple[Device, ...] = Field(min_length=1)


class Battery(_Si):
    """Maximum energy that is carried from one round to the next; 0 without a battery."""

    gateway_capacity: tuple[NonNegativeFloat, ...]  #: (M,) [J]
    device_capacity: tuple[NonNegativeFloat, ...]  #: (N,) [J]


class Radio(_Si):
    """Radio band between base station and gateways (Sec. III-C)."""

    channels: PositiveInt  #: [1]    J
    uplink_bandwidth: PositiveFloat  #: [Hz]   B^u
    downlink_bandwidth: PositiveFloat  #: [Hz]   B^d
    noise_density: PositiveFloat  #: [W/Hz] N_0
    base_station_power: PositiveFloat  #: [W]    P^B
    reference_gain: PositiveFloat  #: [1]    h_0
    reference_distance: PositiveFloat  #: [m]    d_0
    path_loss_exponent: NonNegativeFloat  #: [1]    nu


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """What a scenario was resolved from, so that it can be resolved again with another seed or with overrides."""

    table: Mapping[str, object]  #: of the scenario file, with overrides applied and layers inferred
    label: str  #: that names it in messages


class Scenario(_Si):
    """Everything a run needs to know: every distribution is drawn, every group written out, every unit SI."""

    name: str
    seed: int  #: of weather, batches, first weights, dropout and the draws of policies
    plant_seed: int | None = None  #: of the plant's numbers and of who holds what; None: `seed`
    rounds: PositiveInt  #: T
    limits: bool  #: False: no floor ever fails for energy or memory
    model: Model
    layers: tuple[LayerSpec, ...]  #: the layers that costs and cuts refer to
    costs: Costs
    training: Training
    data: Data
    precision: Precision  #: [bit] per number that is sent
    aggregation: Aggregation = Aggregation()  #: how models of floors become the next one
    radio: Radio
    floors: tuple[Floor, ...] = Field(min_length=1)
    battery: Battery
    baseline: Baseline
    participation: Participation
    deploy: Deploy = Deploy()  #: what real machines are asked for
    policy: Policy
    traces: dict[str, Path]  #: file with recorded values, by what it replaces
    profiles: dict[Path, str] = Field(default_factory=dict, exclude=True, repr=False)  #: text of every profile

    _origin: Origin | None = PrivateAttr(default=None)
    _derived: tuple[object, ...] = PrivateAttr(default=())

    def __eq__(self, other: object) -> bool:
        """Whether two scenarios are the same plant, whatever they were resolved from."""
        return isinstance(other, Scenario) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # it holds tables

    @property
    def origin(self) -> Origin | None:
        """What the scenario was resolved from; None if it was made in another way."""
        return self._origin

    def resolved_from(self, origin: Origin | None) -> Self:
        """The scenario, which remembers what it was resolved from."""
        derived = tuple(getattr(self, key) for key in DERIVED)
        scenario = self.model_copy()
        scenario.__pydantic_private__ = {"_origin": origin, "_derived": derived}
        return scenario

    @property
    def changed(self) -> tuple[str, ...]:
        """Fields that were changed since and that no longer follow from the origin."""
        pairs = zip(DERIVED, self._derived, strict=True) if self._derived else ()
        return tuple(key for key, value in pairs if getattr(self, key) is not value)

    @property
    def seed_of_plant(self) -> int:
        """Seed of the plant's numbers and of who holds what."""
        return self.seed if self.plant_seed is None else self.plant_seed

    @property
    def devices(self) -> tuple[Device, ...]:
        """All devices, floor by floor."""
        return tuple(device for floor in self.floors for device in floor.devices)
