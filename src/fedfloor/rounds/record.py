"""One round as it is logged: the only place that spells the keys of `rounds.jsonl` and `timings.jsonl`.

The names of the fields are the keys, in the order in which they are written. Units are SI and part of the name.
"""

__all__ = [
    "ABSENT",
    "Absent",
    "DeviceRecord",
    "GatewayRecord",
    "Grain",
    "Measured",
    "MessageRecord",
    "RoundRecord",
    "TimingRecord",
    "WeatherRecord",
    "columns_of",
    "json_line",
    "misplaced",
    "parse_record",
    "parse_timing",
    "problem_of",
    "record_of",
]

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from itertools import repeat
from operator import attrgetter
from statistics import fmean
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np
from pydantic import ConfigDict, Field, GetPydanticSchema, TypeAdapter, ValidationError, with_config

from fedfloor.arrays import Floats
from fedfloor.errors import RunLogError, shown
from fedfloor.rounds.outcome import Outcome, Seconds
from fedfloor.scenario.resolved import Scenario
from fedfloor.scheduling.state import IDLE, Decision, RoundState
from fedfloor.scheduling.usage import FloorUsage
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
Grain = Literal["round", "gateway", "device"]
Kind = TypeVar("Kind")

_LOGGED = ConfigDict(extra="ignore")  # later versions may log more
#: of the log; a record has the key `version` only if it is of a later one, in which keys mean something else
_VERSION = 1


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

    @classmethod
    def of(cls, index: int, solve_s: float, seconds: Seconds) -> "TimingRecord":
        """The times of a round: of the decision, and of what the plant did."""
        return cls(
            round=index,
            solve_s=solve_s,
            estimate_s=seconds.estimate,
            train_s=seconds.train,
            evaluate_s=seconds.evaluate,
            messages=tuple(
                MessageRecord(name=entry.name, message_s=entry.answered, predicted_s=_number(entry.predicted))
                for entry in seconds.messages
            ),
        )


def record_of(
    state: RoundState,
    decision: Decision,
    outcome: Outcome,
    *,
    policy: str,
    delay: float,
    clock: float,
    with_weather: bool = False,
) -> RoundRecord:
    """The record of a round; delay [s] is that of the whole round, clock [s] the simulated time at its end."""
    return RoundRecord(
        round=state.index,
        policy=policy,
        delay_s=_number(delay),
        clock_s=_number(clock),
        accuracy=outcome.accuracy,
        raw_accuracy=ABSENT if outcome.raw_accuracy is None else outcome.raw_accuracy,
        loss=outcome.test_loss,
        gateways=tuple(_gateways(state, decision, outcome)),
        weather=_weather(state.weather) if with_weather else None,
    )


def _gateways(state: RoundState, decision: Decision, outcome: Outcome) -> Iterator[GatewayRecord]:
    """The floors of a round; arrays become lists once, because single numbers of an array are slow to get."""
    names, usage = state.plant.gateways.names, outcome.usage
    first = np.searchsorted(state.plant.devices.floor, np.arange(len(names) + 1)).tolist()
    channel, completed, energy = decision.channel.tolist(), outcome.completed.tolist(), outcome.gateway_energy.tolist()
    delay, download = _numbers(outcome.delay), _numbers(usage.download)
    training, upload = _numbers(usage.training), _numbers(usage.upload)
    power, budget = _numbers(outcome.allocation.power), _numbers(state.weather.gateway_energy)
    queue, target_rate, loss = state.queue.tolist(), state.target_rate.tolist(), _numbers(outcome.loss)
    rms_loss = None if outcome.rms_loss is None else _numbers(outcome.rms_loss)
    weight = None if decision.weight is None else _numbers(decision.weight)
    bound = None if outcome.divergence_bound is None else _numbers(outcome.divergence_bound)
    divergence = None if outcome.divergence is None else _numbers(outcome.divergence)
    predicted = _predictions(outcome.predicted, len(names))
    iterations = None if outcome.iterations is None else outcome.iterations.tolist()
    for m, name in enumerate(names):
        selected = channel[m] != IDLE
        parts = predicted[m] if selected or outcome.predicted is None else (None, None, None, None)
        yield GatewayRecord(
            name=name,
            selected=selected,
            channel=channel[m] if selected else None,
            completed=completed[m],
            failure=outcome.failure[m],
            delay_s=delay[m],
            download_s=download[m],
            train_s=training[m],
            upload_s=upload[m],
            predicted_s=parts[0],
            predicted_download_s=parts[1],
            predicted_train_s=parts[2],
            predicted_upload_s=parts[3],
            iterations=ABSENT if iterations is None else iterations[m] if selected else None,
            power_w=power[m] if selected else None,
            energy_j=energy[m],
            energy_budget_j=budget[m],
            queue=queue[m],
            target_rate=target_rate[m],
            loss=loss[m],
            rms_loss=ABSENT if rms_loss is None else rms_loss[m],
            weight=ABSENT if weight is None else weight[m] if selected else None,
            divergence_bound=ABSENT if bound is None else bound[m],
            divergence=ABSENT if divergence is None else divergence[m],
            devices=tuple(_devices(state, outcome, slice(first[m], first[m + 1]))) if selected else (),
        )


def _predictions(usage: FloorUsage | None, floors: int) -> list[tuple[Measured, Measured, Measured, Measured]]:
    """Predicted delay, download, training and upload of every floor [s]; absent if the times are the cost model's."""
    if usage is None:
        return [(ABSENT, ABSENT, ABSENT, ABSENT)] * floors
    parts = (usage.delay, usage.download, usage.training, usage.upload)
    delay, download, training, upload = (_numbers(part) for part in parts)
    return list(zip(delay, download, training, upload, strict=True))


def _devices(state: RoundState, outcome: Outcome, part: slice) -> Iterator[DeviceRecord]:
    """The devices of one floor."""
    links = outcome.usage.link_time
    columns = zip(
        state.plant.devices.names[part],
        outcome.allocation.cut[part].tolist(),
        _numbers(outcome.allocation.frequency[part]),
        outcome.device_energy[part].tolist(),
        _numbers(state.weather.device_energy[part]),
        _numbers(outcome.usage.device_bytes[part]),
        repeat(ABSENT, part.stop - part.start) if links is None else _numbers(links[part]),
        strict=True,
    )
    for name, cut, frequency, energy, budget, memory, link in columns:
        yield DeviceRecord(
            name=name,
            cut=cut,
            gateway_frequency_hz=frequency,
            energy_j=energy,
            energy_budget_j=budget,
            memory_bytes=memory,
            link_s=link,
        )


def _weather(weather: Weather) -> WeatherRecord:
    return WeatherRecord(
        uplink_gain=_rows(weather.uplink_gain),
        downlink_gain=_rows(weather.downlink_gain),
        uplink_interference_w=_rows(weather.uplink_interference),
        downlink_interference_w=_rows(weather.downlink_interference),
        gateway_energy_j=tuple(_numbers(weather.gateway_energy)),
        device_energy_j=tuple(_numbers(weather.device_energy)),
    )


def _rows(values: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, values.tolist()))


def _number(value: float) -> float | None:
    """The number, or None for inf and nan, which JSON does not know."""
    return float(value) if math.isfinite(value) else None


def _numbers(values: Floats) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]


def _endless(values: Sequence[float | None]) -> Floats:
    return np.array([math.inf if value is None else value for value in values])


_KEYS = {
    kind: tuple(entry.name for entry in fields(kind))
    for kind in (RoundRecord, GatewayRecord, DeviceRecord, TimingRecord, MessageRecord, WeatherRecord)
}
_MEASURED = tuple(entry.name for entry in fields(GatewayRecord) if entry.default is ABSENT)
_ENCODER = json.JSONEncoder(allow_nan=False)
_VALUES = {kind: attrgetter(*keys) for kind, keys in _KEYS.items()}


def json_line(record: RoundRecord | TimingRecord) -> str:
    """The record as one line of its log; what was left out and what is absent has no key."""
    table = _table(record)
    if isinstance(record, RoundRecord):
        table["gateways"] = [_gateway_table(gateway) for gateway in record.gateways]
        if record.raw_accuracy is ABSENT:
            del table["raw_accuracy"]
        if record.weather is None:
            del table["weather"]
        else:
            table["weather"] = _table(record.weather)
    elif record.messages:
        table["messages"] = [_table(message) for message in record.messages]
    else:
        del table["messages"]
    return _ENCODER.encode(table)


def _table(
    record: RoundRecord | GatewayRecord | DeviceRecord | TimingRecord | MessageRecord | WeatherRecord,
) -> dict[str, object]:
    kind = type(record)
    return dict(zip(_KEYS[kind], _VALUES[kind](record), strict=True))


def _gateway_table(gateway: GatewayRecord) -> dict[str, object]:
    table = _table(gateway)
    for key in _MEASURED:
        if table[key] is ABSENT:
            del table[key]
    if gateway.devices:
        table["devices"] = [_device_table(device) for device in gateway.devices]
    else:
        del table["devices"]
    return table


def _device_table(device: DeviceRecord) -> dict[str, object]:
    table = _table(device)
    if device.link_s is ABSENT:
        del table["link_s"]
    return table


def parse_record(line: str | bytes) -> RoundRecord:
    """One line of `rounds.jsonl`; a ValueError says what is wrong with it."""
    _refuse_newer(line)
    return _parsed(_rounds(), line)


def parse_timing(line: str | bytes) -> TimingRecord:
    """One line of `timings.jsonl`; a ValueError says what is wrong with it."""
    return _parsed(_timings(), line)


def _refuse_newer(line: str | bytes) -> None:
    """Raise a ValueError for a record of a later version, before its keys are taken for those of this one."""
    content = line if isinstance(line, bytes) else line.encode()
    if b'"version"' not in content:
        return
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):  # parsing the record says more about it
        return
    version = record.get("version", _VERSION) if isinstance(record, dict) else _VERSION
    if version != _VERSION:
        raise ValueError(f"version must be {_VERSION}, got {shown(version)}")


@cache
def _rounds() -> TypeAdapter[RoundRecord]:
    """Made when it is first needed, because that takes a tenth of a second."""
    return TypeAdapter(RoundRecord)


@cache
def _timings() -> TypeAdapter[TimingRecord]:
    return TypeAdapter(TimingRecord)


def _parsed(adapter: TypeAdapter[Kind], line: str | bytes) -> Kind:
    try:
        return adapter.validate_json(line, strict=True)
    except ValidationError as error:
        raise ValueError(problem_of(error)) from None


def problem_of(error: ValidationError) -> str:
    """The first problem of data that was read from JSON: its path, what it must be and what it is."""
    first = error.errors(include_url=False)[0]
    path = ""
    for step in first["loc"]:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    if first["type"] == "missing":
        return f"has no '{path}'"
    context: Mapping[str, object] = first.get("ctx", {})
    if first["type"] == "json_invalid":
        return f"is not JSON: {context['error']}"
    must = {
        "bool_type": "be true or false",
        "int_type": "be a whole number",
        "float_type": "be a number",
        "string_type": "be a string",
        "tuple_type": "be a list",
        "list_type": "be a list",
        "dataclass_type": "be a table",
        "model_type": "be a table",
        "string_too_short": "not be empty",
        "too_short": "not be empty",
        "finite_number": "be finite",
        "greater_than_equal": f"be >= {context.get('ge')}",
        "less_than_equal": f"be <= {context.get('le')}",
    }.get(first["type"])
    problem = f"{f'must {must}' if must else first['msg']}, got {shown(first['input'])}"
    return f"{path}: {problem}" if path else problem


def misplaced(record: RoundRecord, index: int, before: float, scenario: Scenario) -> str:
    """What is wrong with a record as round `index` of a scenario, `before` [s] the clock of the round before it.

    Returns an empty string if the record is where it belongs.
    """
    if record.round != index:
        return f"round: must be {index}, because rounds are logged one after the other, got {record.round}"
    if record.clock < before:
        return f"clock_s: must be >= {before:g}, the clock of the round before, got {record.clock:g}"
    if len(record.gateways) != len(scenario.floors):
        return f"gateways: must be the {len(scenario.floors)} floors of the scenario, got {len(record.gateways)}"
    for m, (gateway, floor) in enumerate(zip(record.gateways, scenario.floors, strict=True)):
        if gateway.name != floor.name:
            name = shown(floor.name)
            return f"gateways[{m}].name: must be {name}, the floor of the scenario, got {shown(gateway.name)}"
        if not gateway.devices and not gateway.selected:
            continue
        names = [device.name for device in floor.devices]
        if [device.name for device in gateway.devices] != names:
            return f"gateways[{m}].devices: must be the {len(names)} devices of the floor, got {len(gateway.devices)}"
        deepest = max(device.cut for device in gateway.devices)
        if deepest > len(scenario.layers):
            return f"gateways[{m}].devices: cut: must be <= {len(scenario.layers)}, the number of layers, got {deepest}"
    return ""


def columns_of(records: Iterable[RoundRecord], per: Grain = "round") -> dict[str, list[Any]]:
    """Records as columns of equal length: one row per round, per round and gateway, or per device as well.

    What a row does not have is None.
    """
    if per not in get_args(Grain):
        raise RunLogError(f"read: per must be one of {', '.join(get_args(Grain))}, got {shown(per)}")
    make_rows = {"round": _round_rows, "gateway": _gateway_rows, "device": _device_rows}[per]
    rows = [row for record in records for row in make_rows(record)]
    keys = dict.fromkeys(key for row in rows for key in row)  # a log may begin without what it measures later
    return {key: [row.get(key) for row in rows] for key in keys}


def _round_rows(record: RoundRecord) -> Iterator[dict[str, object]]:
    yield {
        **_without(record, "gateways", "weather"),
        "selected": sum(gateway.selected for gateway in record.gateways),
        "completed": sum(gateway.completed for gateway in record.gateways),
        "energy_j": sum(gateway.floor_energy for gateway in record.gateways),
        "training_loss": record.training_loss,
        "raw_devices": sum(gateway.raw_devices for gateway in record.gateways),
    }


def _gateway_rows(record: RoundRecord) -> Iterator[dict[str, object]]:
    head = {"round": record.round, "policy": record.policy}
    for gateway in record.gateways:
        yield {**head, "gateway": gateway.name, **_without(gateway, "name", "devices")}


def _device_rows(record: RoundRecord) -> Iterator[dict[str, object]]:
    head = {"round": record.round, "policy": record.policy}
    for gateway in record.gateways:
        for device in gateway.devices:
            yield {**head, "gateway": gateway.name, "device": device.name, **_without(device, "name")}


def _without(record: RoundRecord | GatewayRecord | DeviceRecord, *keys: str) -> dict[str, object]:
    pairs = ((key, getattr(record, key)) for key in _KEYS[type(record)] if key not in keys)
    return {key: value for key, value in pairs if value is not ABSENT}
