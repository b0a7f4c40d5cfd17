"""Many models at once are the models that pydantic makes one by one."""

import gc
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from fedfloor.scenario.file import DeviceGroup, FloorGroup
from fedfloor.scenario.members import members, validated
from fedfloor.scenario.resolved import Device, Floor
from tests.conftest import small_table
from tests.scenario.test_scenario import loaded

COLUMNS: dict[str, Sequence[Any]] = {
    "name": ["a", "b"],
    "samples": [5, 7],
    "frequency": [1e9, 2e9],
    "flops_per_cycle": [16.0, 8.0],
    "switched_capacitance": [1e-27, 2e-27],
    "memory_bytes": [1e9, 2e9],
    "max_energy": [0.0, 1.0],
}
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]


def test_members_are_those_that_are_constructed_one_by_one() -> None:
    alone = [Device.model_construct(None, **row) for row in ROWS]
    together = members(Device, COLUMNS)
    assert together == alone
    for one, other in zip(together, alone, strict=True):
        assert one.model_fields_set == other.model_fields_set
        assert list(one.model_dump()) == list(other.model_dump())
        assert one.model_copy(update={"held": 3}).model_fields_set == {*COLUMNS, "held"}
        assert one.model_fields_set == set(COLUMNS)  # a copy has fields of its own


def test_fields_without_a_column_have_their_defaults() -> None:
    group = members(DeviceGroup, {"samples": [3.0]})[0]
    assert (group.name, group.count, group.held, group.hardware) == ("device", None, None, None)


def test_validated_columns_hold_what_validated_models_hold() -> None:
    raw = COLUMNS | {"samples": [5.0, 7.0], "frequency": [10**9, 2 * 10**9]}
    assert members(Device, validated(Device, raw)) == [Device.model_validate(row) for row in ROWS]
    assert all(type(device.samples) is int for device in members(Device, validated(Device, raw)))


@pytest.mark.parametrize(("key", "value"), [("samples", 0), ("frequency", (1.0, 2.0)), ("memory_bytes", None)])
def test_the_error_of_a_column_is_that_of_the_model(key: str, value: object) -> None:
    with pytest.raises(ValidationError) as alone:
        Device.model_validate(ROWS[1] | {key: value})
    with pytest.raises(ValidationError) as together:
        validated(Device, COLUMNS | {key: [ROWS[0][key], value]})
    assert together.value.errors() == alone.value.errors()


def test_no_floor_or_device_of_a_plant_is_validated_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a million of these calls take a minute")

    for kind in (DeviceGroup, FloorGroup, Device, Floor):
        monkeypatch.setattr(kind, "model_construct", refuse)
    for kind in (Device, Floor):
        monkeypatch.setattr(kind, "model_validate", refuse)
        monkeypatch.setattr(kind, "__init__", refuse)
    assert len(loaded(small_table()).devices) == 3


@pytest.mark.parametrize("collects", [False, True])
def test_the_garbage_collector_is_left_as_it_was(collects: bool) -> None:
    before = gc.isenabled()
    try:
        gc.enable() if collects else gc.disable()
        members(Device, COLUMNS)
        assert gc.isenabled() == collects
    finally:
        gc.enable() if before else gc.disable()
