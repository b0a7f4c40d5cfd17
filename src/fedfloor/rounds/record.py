"""One round as it is logged: the only schema of `rounds.jsonl` and `timings.jsonl`.

The names of the fields are the keys, in the order in which they are written. Units are SI and part of the name. Only
`lines.py` spells some of them too: those that a line leaves out.
"""

__all__ = [
    "ABSENT",
    "KEYS",
    "Absent",
    "DeviceRecord",
    "GatewayRecord",
    "Measured",
    "MessageRecord",
    "RoundRecord",
    "TimingRecord",
    "WeatherRecord",
]

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import Enum
from statistics import fmean
from types import MappingProxyType
from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import ConfigDict, Field, GetPydanticSchema, with_config

from fedfloor.arrays import Floats
from fedfloor.weather.draws import Weather


class Absent(Enum):
    """Stands for a key that is not written, where null is a value of its own."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT

Finite = Annotated[float, Field(allow_inf_nan=False)]
Amount = Annotated[float, Field(allow_inf_nan=False, ge=0.0)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Whole = Annotated[int, Field(ge=0)]
Words = Annotated[str, Field(min_length=1)]
#: null: not measured in this round; absent: never. JSON has a number or null, so only these two are validated.
Measured: TypeAlias = Annotated[
    float | Literal[Absent.ABSENT] | None, GetPydanticSchema(lambda _, schema_of: schema_of(Amount | None))
]
#: null: does not apply; absent: all floors do the scenario's K
Counted: TypeAlias = Annotated[
    int | Literal[Absent.ABSENT] | None, GetPydanticSchema(lambda _, schema_of: schema_of(Whole | None))
]
#: absent: there was no such test
Tested: TypeAlias = Annotated[float | Literal[Absent.ABSENT], GetPydanticSchema(lambda _, schema_of: schema_of(Share))]

_LOGGED = ConfigDict(extra="ignore")  # later versions may log more


@with_config(_LOGGED)
@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRecord:
    """One device of a floor that was selected."""

    name: str
    cut: Whole
    gateway_frequency_hz: Amount | None = None
    energy_j: Amount
    energy_budget_j: Amount | None = None  #: null without limits
    memory_bytes: Amount | None = None
    link_s: Measured = ABSENT  #: sending to and receiving from the gateway; absent if links cost nothing


@with_config(_LOGGED)
@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRecord:
    """One floor in a round; null stands for what does not apply, and for a time without end."""

    name: str
    selected: bool
    channel: int | None = None
    completed: bool
    failure: Words | None
    delay_s: Amount | None
    download_s: Amount | None = None
    train_s: Amount | None = None
    upload_s: Amount | None = None
    predicted_s: Measured = ABSENT  #: delay by the cost model; absent if the other times are the cost model's
    predicted_download_s: Measured = ABSENT
    predicted_train_s: Measured = ABSENT
    predicted_upload_s: Measured = ABSENT
    iterations: Counted = ABSENT  #: K_m of a floor that was selected, if floors may do more than K
    power_w: Amount | None = None
    energy_j: Amount
    energy_budget_j: Amount | None = None  #: null without limits
    queue: Amount
    target_rate: Amount
    loss: Finite | None
    rms_loss: Measured = ABSENT  #: root mean square of the losses of single samples
    weight: Measured = ABSENT  #: factor of its model in the average
    divergence_bound: Measured = ABSENT  #: Theorem 1
    divergence: Measured = ABSENT
    devices: tuple[DeviceRecord, ...] = ()  #: not written for a floor that was not selected

    @property
    def floor_energy(self) -> float:
        """Energy [J] of the gateway and its devices."""
        return self.energy_j + sum(device.energy_j for device in self.devices)

    @property
    def raw_devices(self) -> int:
        """Number of devices that sent raw samples to the gateway: cut 0, on a floor that had the memory to train."""
        return 0 if self.failure == "memory" else sum(device.cut == 0 for device in self.devices)


@with_config(_LOGGED)
@dataclass(frozen=True, slots=True, kw_only=True)
class WeatherRecord:
    """The weather of a round, by floor and channel, by floor, or by device; an endless energy is null."""

    uplink_gain: tuple[tuple[Amount, ...], ...]
    downlink_gain: tuple[tuple[Amount, ...], ...]
    uplink_interference_w: tuple[tuple[Amount, ...], ...]
    downlink_interference_w: tuple[tuple[Amount, ...], ...]
    gateway_energy_j: tuple[Amount | None, ...]
    device_energy_j: tuple[Amount | None, ...]

    @property
    def weather(self) -> Weather:
        """The same as arrays."""
        return Weather(
            uplink_gain=np.array(self.uplink_gain, float),
            downlink_gain=np.array(self.downlink_gain, float),
            uplink_interference=np.array(self.uplink_interference_w, float),
            downlink_interference=np.array(self.downlink_interference_w, float),
            gateway_energy=_endless(self.gateway_energy_j),
            device_energy=_endless(self.device_energy_j),
        )


@with_config(_LOGGED)
@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRecord:
    """One round; free of wall-clock times, so that equal runs leave equal logs."""

    round: Whole
    policy: Words
    delay_s: Amount | None  #: null: without end
    clock_s: Amount | None  #: simulated time at the end of the round
    accuracy: Share | None  #: null in rounds without an evaluation
    raw_accuracy: Tested = ABSENT  #: of the weights that training goes on from; absent unless others are served
    loss: Finite | None
    gateways: tuple[GatewayRecord, ...]
    weather: WeatherRecord | None = None  #: written only if the plant cannot draw it again

    @property
    def delay(self) -> float:
        """Delay of the round [s]; inf without end."""
        return math.inf if self.delay_s is None else self.delay_s

    @property
    def clock(self) -> float:
        """Simulated time [s] at the end of the round; inf without end."""
        return math.inf if self.clock_s is None else self.clock_s

    @property
    def training_loss(self) -> float | None:
        """Mean training loss of the floors that completed the round, each with the same weight; None without any."""
        losses = [floor.loss for floor in self.gateways if floor.completed and floor.loss is not None]
        return fmean(losses) if losses else None


@with_config(_LOGGED)
@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRecord:
    """Wall-clock time that a floor took to answer a message, beside the delay by the cost model."""

    name: str
    message_s: Amount
    predicted_s: Amount | None  #: null: without end


@with_config(_LOGGED)
@dataclass(frozen=True, slots=True, kw_only=True)
class TimingRecord:
    """Wall-clock times [s] of one round."""

    round: Whole
    solve_s: Amount
    estimate_s: Amount | None
    train_s: Amount | None
    evaluate_s: Amount | None
    messages: tuple[MessageRecord, ...] = ()  #: not written where floors are not sent messages


#: kind of record -> its keys, in the order in which they are written
KEYS = MappingProxyType(
    {
        kind: tuple(entry.name for entry in fields(kind))
        for kind in (RoundRecord, GatewayRecord, DeviceRecord, TimingRecord, MessageRecord, WeatherRecord)
    }
)


def _endless(values: Sequence[float | None]) -> Floats:
    return np.array([math.inf if value is None else value for value in values])
