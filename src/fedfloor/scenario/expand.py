"""Groups and distributions -> single floors and devices with plain numbers."""

__all__ = ["battery_of", "expand"]

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic.fields import FieldInfo

from fedfloor.errors import ScenarioError, advice_for, named, shown
from fedfloor.scenario.file import (
    LONGEST_NAME,
    BatteryFile,
    DeviceGroup,
    FloorGroup,
    GatewayGroup,
    Hardware,
    Link,
    ScenarioFile,
)
from fedfloor.scenario.members import members
from fedfloor.scenario.numbers import Number, Range, draw
from fedfloor.scenario.section import Section
from fedfloor.scenario.si import is_free
from fedfloor.streams import key_stream

#: keys of a gateway that have one value per channel
_PER_CHANNEL = ("uplink_interference_w", "downlink_interference_w")
#: numbers of a device that its hardware class can provide
_HARDWARE_KEYS = tuple(key for key in Hardware.model_fields if key not in ("link", "profile", "source"))


def expand(file: ScenarioFile, label: str) -> ScenarioFile:
    """The same scenario with every group written out as single floors and devices, and every number drawn."""
    numbers: Counter[str] = Counter()
    floors = tuple(
        floor
        for index, group in enumerate(file.floors)
        for floor in _floors(file, group, _names(group, numbers), f"floors[{index}]", label)
    )
    _check_names("floor", [floor.name for floor in floors], label)
    _check_names("device", [device.name for floor in floors for device in floor.devices], label)
    _check_floors(file, floors, label)
    for key in ("rates", "simulated_rates"):
        rates = getattr(file.participation, key)
        if isinstance(rates, tuple) and len(rates) != len(floors):
            problem = f"has {len(rates)} rates for {len(floors)} floors. Give one rate per floor"
            raise ScenarioError(f"{label}: participation.{key}: {problem}.")
    battery = battery_of(file, floors, label) if file.battery is not None else None
    return file.model_copy(update={"floors": floors, "hardware": {}, "battery": battery})


def _check_floors(file: ScenarioFile, floors: tuple[FloorGroup, ...], label: str) -> None:
    """Check the drawn numbers of each floor against the numbers that limit them."""
    for floor in floors:
        low, high = floor.gateway.min_frequency_ghz, floor.gateway.max_frequency_ghz
        assert isinstance(low, float)
        assert isinstance(high, float)
        if low > high * file.baseline.frequency_share:
            limit = f"baseline.frequency_share x max_frequency_ghz = {high * file.baseline.frequency_share:g}"
            problem = f"must be <= {limit}, got {low:g}"
            path = named(f"{floor.name}.gateway.min_frequency_ghz")
            raise ScenarioError(f"{label}: {path}: {problem}. Lower it, or raise one of those two.")
        classes = floor.classes_per_device
        has_known_classes = file.data.kind == "built-in" and file.training.task == "classification"
        if has_known_classes and isinstance(classes, int | float) and classes > file.model.classes:
            limit = f"model.classes = {file.model.classes}"
            problem = f"must be <= {limit}, got {classes}"
            path = named(f"{floor.name}.classes_per_device")
            raise ScenarioError(f"{label}: {path}: {problem}. Lower it, or raise model.classes.")


def _names(group: FloorGroup | DeviceGroup, numbers: Counter[str], prefix: str = "") -> list[str]:
    """Names of a group's members; the numbering continues across groups of the same name."""
    if group.count is None:
        return [f"{prefix}{group.name}"]
    first = numbers[group.name] + 1
    numbers[group.name] += group.count
    return [f"{prefix}{group.name}-{number}" for number in range(first, first + group.count)]


def _floors(file: ScenarioFile, group: FloorGroup, names: list[str], path: str, label: str) -> list[FloorGroup]:
    """The single floors of a group."""
    count, seed, channels = len(names), file.seed_of_plant, file.radio.channels
    classes = _column(group, "classes_per_device", count, seed, path, label)
    gateway: dict[str, list[Any]] = {}
    for key in GatewayGroup.model_fields:
        if key == "profile":
            gateway[key] = [_profile_path(group.gateway.profile, label)] * count
            continue
        per_floor = channels if key in _PER_CHANNEL else 1
        values = _column(group.gateway, key, count * per_floor, seed, f"{path}.gateway", label)
        gateway[key] = [
            tuple(values[floor * per_floor : (floor + 1) * per_floor]) if key in _PER_CHANNEL else values[floor]
            for floor in range(count)
        ]
    devices: list[list[DeviceGroup]] = [[] for _ in range(count)]
    numbers = [Counter[str]() for _ in range(count)]
    for index, device_group in enumerate(group.devices):
        # A single device of a single floor keeps its name; any other name starts with the name of the floor.
        is_single = device_group.count is None and group.count is None
        device_names = [
            _names(device_group, numbers[floor], "" if is_single else f"{names[floor]}.") for floor in range(count)
        ]
        parts = _devices(file, device_group, device_names, f"{path}.devices[{index}]", label)
        for own, part in zip(devices, parts, strict=True):
            own.extend(part)
    columns: dict[str, Sequence[Any]] = {
        "name": names,
        "count": [None] * count,
        "classes_per_device": classes,
        "classes": [group.classes] * count,
        "gateway": members(GatewayGroup, gateway),
        "link": [None if is_free(link) else link for link in _links(group.link, count, seed, f"{path}.link", label)],
    }
    columns["devices"] = [
        tuple(own) if medium is not None else _without_free_links(own)
        for own, medium in zip(devices, columns["link"], strict=True)
    ]
    return members(FloorGroup, columns)


def _without_free_links(devices: Sequence[DeviceGroup]) -> tuple[DeviceGroup, ...]:
    """The devices of a floor without a medium: there, a link that costs nothing is as good as none."""
    return tuple(
        device.model_copy(update={"link": None}) if device.link is not None and is_free(device.link) else device
        for device in devices
    )


def battery_of(file: ScenarioFile, floors: tuple[FloorGroup, ...], label: str) -> BatteryFile:
    """Battery with a capacity for every floor and every device; 0 if none is given."""
    battery, devices = file.battery or BatteryFile(), sum(len(floor.devices) for floor in floors)

    def capacities(key: str, count: int) -> tuple[float, ...]:
        return tuple(value or 0.0 for value in _column(battery, key, count, file.seed_of_plant, "battery", label))

    return BatteryFile.model_construct(
        gateway_capacity_j=capacities("gateway_capacity_j", len(floors)),
        device_capacity_j=capacities("device_capacity_j", devices),
    )


def _devices(
    file: ScenarioFile, group: DeviceGroup, names: list[list[str]], path: str, label: str
) -> list[list[DeviceGroup]]:
    """The single devices of a group, one list per floor."""
    per_floor, seed = len(names[0]), file.seed_of_plant
    complete_group = _with_hardware(file.hardware, group, path, label)
    keys = ["samples", *_HARDWARE_KEYS]
    columns = {key: _column(complete_group, key, per_floor * len(names), seed, path, label) for key in keys}
    columns["name"] = list(itertools.chain.from_iterable(names))
    columns["count"] = columns["hardware"] = [None] * len(columns["name"])
    columns["profile"] = [_profile_path(complete_group.profile, label)] * len(columns["name"])
    columns["link"] = _links(complete_group.link, len(columns["name"]), seed, f"{path}.link", label)
    devices = members(DeviceGroup, columns)
    return [devices[begin : begin + per_floor] for begin in range(0, len(devices), per_floor)]


def _with_hardware(classes: Mapping[str, Hardware], group: DeviceGroup, path: str, label: str) -> DeviceGroup:
    """The group, with the keys that it leaves out taken from its hardware class."""
    values: dict[str, Number | Link | str | None] = {}
    if group.hardware is not None:
        if group.hardware not in classes:
            advice = advice_for(group.hardware, classes) if classes else "Add a table [hardware.<class>]."
            problem = f"unknown hardware class, got {shown(group.hardware)}"
            raise ScenarioError(f"{label}: {path}.hardware: {problem}. {advice}")
        values = {key: getattr(classes[group.hardware], key) for key in (*_HARDWARE_KEYS, "link", "profile")}
    for key in ("link", "profile"):
        if getattr(group, key) is not None:
            values[key] = getattr(group, key)
    for key in _HARDWARE_KEYS:
        if getattr(group, key) is not None:
            values[key] = getattr(group, key)
        elif key not in values:
            raise ScenarioError(f"{label}: {path}.{key}: is missing. Add it, or name a hardware class that has it.")
    return group.model_copy(update=values)


def _profile_path(path: str | None, label: str) -> str | None:
    """Absolute path of a hardware profile, so that the resolved scenario finds it from any folder."""
    return None if path is None else str((Path(label).parent / path).absolute())


def _links(link: Link | None, count: int, seed: int, path: str, label: str) -> list[Link | None]:
    """Links with plain numbers, one per member of the group; None for every member if none is given."""
    if link is None:
        return [None] * count
    return [*members(Link, {key: _column(link, key, count, seed, path, label) for key in Link.model_fields})]


def _column(section: Section, key: str, count: int, seed: int, path: str, label: str) -> list[Any]:
    """Plain values of one key, one per member of the group; None for every member if the key is not given."""
    number: Number | None = getattr(section, key)
    if number is None:
        return [None] * count
    if isinstance(number, tuple) and len(number) != count:
        advice = "Give one number" if count == 1 else f"Give {count} values, or a single number for all"
        problem = f"has {len(number)} values for {count} {'entry' if count == 1 else 'entries'}. {advice}"
        raise ScenarioError(f"{label}: {path}.{key}: {problem}.")
    allowed = _range(type(section).model_fields[key])
    values = draw(number, count, allowed, key_stream(seed, f"{path}.{key}"))
    if not allowed.holds(values).all():
        problem = f"no draw was {allowed.words()}, got {shown(allowed.toml_value(number))}"
        raise ScenarioError(f"{label}: {path}.{key}: {problem}. Move the mean into the range.")
    return list((np.rint(values).astype(np.int64) if allowed.whole else values).tolist())


def _range(field: FieldInfo) -> Range:
    """Range that a number key is declared with."""
    members = getattr(field.annotation, "__args__", ())  # `Positive | None` keeps the range one level down
    metadata = [*field.metadata, *(entry for member in members for entry in getattr(member, "__metadata__", ()))]
    return next(entry for entry in metadata if isinstance(entry, Range))


def _check_names(what: str, names: list[str], label: str) -> None:
    """Refuse a name that is given twice, or that has become too long with its number and its floor."""
    earlier_names: set[str] = set()
    for name in names:
        if name in earlier_names:
            raise ScenarioError(f"{label}: floors: duplicate {what} name, got {shown(name)} twice. Rename one of them.")
        if len(name) > LONGEST_NAME:
            problem = f"{what} name must have at most {LONGEST_NAME} characters with its number and its floor"
            raise ScenarioError(f"{label}: floors: {problem}, got {len(name)}: {shown(name)}. Shorten it.")
        earlier_names.add(name)
