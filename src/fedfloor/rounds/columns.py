"""Records as columns, for data frames and spreadsheets."""

__all__ = ["Grain", "columns_of"]

from collections.abc import Iterable, Iterator
from typing import Any, Literal, get_args

from fedfloor.errors import RunLogError, shown
from fedfloor.rounds.record import ABSENT, KEYS, DeviceRecord, GatewayRecord, RoundRecord

Grain = Literal["round", "gateway", "device"]


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
    pairs = ((key, getattr(record, key)) for key in KEYS[type(record)] if key not in keys)
    return {key: value for key, value in pairs if value is not ABSENT}
