"""Records as lines of the logs, and back."""

__all__ = ["json_line", "parse_record", "parse_timing"]

import json
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from fedfloor.errors import shown
from fedfloor.rounds.problems import problem_of
from fedfloor.rounds.record import (
    ABSENT,
    KEYS,
    DeviceRecord,
    GatewayRecord,
    MessageRecord,
    RoundRecord,
    TimingRecord,
    WeatherRecord,
)

Kind = TypeVar("Kind")
#: of the log; a record has the key `version` only if it is of a later one, in which keys mean something else
_VERSION = 1
_MEASURED = tuple(entry.name for entry in fields(GatewayRecord) if entry.default is ABSENT)
_ENCODER = json.JSONEncoder(allow_nan=False)
_VALUES = {kind: attrgetter(*keys) for kind, keys in KEYS.items()}


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
    return dict(zip(KEYS[kind], _VALUES[kind](record), strict=True))


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
