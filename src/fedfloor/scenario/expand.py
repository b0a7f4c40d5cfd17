"""Groups and distributions -> single floors and devices with plain numbers -> plant in SI units."""

__all__ = ["build", "expand", "resolved_toml", "section_table"]

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import tomli_w
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
from fedfloor.scenario.members import Kind, members, validated
from fedfloor.scenario.numbers import Number, Range, draw
from fedfloor.scenario.profiles import profile_texts
from fedfloor.scenario.resolved import Battery, Device, DeviceLink, Floor, Gateway, Radio, Scenario
from fedfloor.scenario.section import Section
from fedfloor.streams import key_stream
from fedfloor.units import split_suffix, to_si

#: keys of a gateway that have one value per channel
_PER_CHANNEL = ("uplink_interference_w", "downlink_interference_w")
#: sections that count as absent while all their keys have their defaults
_OPTIONAL = ("precision", "aggregation", "deploy")
#: keys of other sections that count as absent while they have their defaults
_OPTIONAL_KEYS = {
    "training": ("task", "extra_iterations", "momentum", "schedule", "schedule_rounds", "schedule_factor")
}
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
    battery = _battery(file, floors, label) if file.battery is not None else None
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


def _check_cuts(file: ScenarioFile, depth: int, label: str) -> None:
    """Check the cuts of the file against the number of layers. Checked first, because no other key can fix it."""
    least, baseline = file.training.min_cut, file.baseline.cut
    for key, cut in (("training.min_cut", least), ("baseline.cut", baseline)):
        if cut > depth:
            raise ScenarioError(f"{label}: {key}: must be <= {depth}, the number of layers, got {cut}. Lower it.")
    if baseline < least:
        problem = f"must be >= training.min_cut = {least}, got {baseline}"
        raise ScenarioError(f"{label}: baseline.cut: {problem}. Set baseline.cut = {least} too.")


def build(file: ScenarioFile, label: str) -> Scenario:
    """Plant in SI units of an expanded scenario that has a layer list."""
    assert file.model.layers is not None
    _check_cuts(file, len(file.model.layers), label)
    folder = Path(label).parent
    traces = {kind: folder / path for kind, path in file.traces if path is not None}
    return Scenario(
        name=file.name,
        seed=file.seed,
        plant_seed=file.plant_seed,
        rounds=file.rounds,
        limits=file.limits,
        model=file.model,
        layers=file.model.layers,
        costs=file.costs,
        training=file.training,
        data=file.data.located(folder),
        precision=file.precision,
        aggregation=file.aggregation,
        radio=Radio.model_validate(_si(file.radio)),
        floors=tuple(_si_floors(file.floors, folder)),
        battery=Battery.model_validate(_si(_battery(file, file.floors, label))),
        baseline=file.baseline,
        participation=file.participation,
        deploy=file.deploy,
        policy=file.policy,
        traces=traces,
        profiles=profile_texts(file, folder),
    )


def resolved_toml(file: ScenarioFile) -> str:
    """TOML text of an expanded scenario; reading it gives the same plant to the last bit.

    Sections and keys that older versions do not know are left out while they have no effect.
    """
    idle: dict[str, Any] = {key: True for key in _OPTIONAL if _is_default(file, key)}
    for key, names in _OPTIONAL_KEYS.items():
        idle[key] = {name for name in names if _is_default(getattr(file, key), name)}
    return tomli_w.dumps(_without_none(file.model_dump(mode="python", exclude=idle)))


def section_table(section: Section) -> dict[str, object]:
    """A section as its table in a file."""
    return _without_none(section.model_dump(mode="python"))


def _is_default(section: Section, key: str) -> bool:
    return bool(getattr(section, key) == type(section).model_fields[key].default)


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
        "link": [None if _is_free(link) else link for link in _links(group.link, count, seed, f"{path}.link", label)],
    }
    columns["devices"] = [
        tuple(own) if medium is not None else _without_free_links(own)
        for own, medium in zip(devices, columns["link"], strict=True)
    ]
    return members(FloorGroup, columns)


def _without_free_links(devices: Sequence[DeviceGroup]) -> tuple[DeviceGroup, ...]:
    """The devices of a floor without a medium: there, a link that costs nothing is as good as none."""
    return tuple(
        device.model_copy(update={"link": None}) if device.link is not None and _is_free(device.link) else device
        for device in devices
    )


def _is_free(link: Link | None) -> bool:
    """Whether a link with plain numbers takes no time and no energy."""
    return link is None or _si_link(link) == DeviceLink()


def _battery(file: ScenarioFile, floors: tuple[FloorGroup, ...], label: str) -> BatteryFile:
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


def _si_floors(floors: Sequence[FloorGroup], folder: Path) -> list[Floor]:
    """Expanded floors in SI units; paths are relative to a folder."""
    sections = [device for floor in floors for device in floor.devices]
    links = [link for floor in floors for link in _si_links(floor)]
    devices = iter(_si_members(Device, sections, {"link": links, "profile": _profiles(sections, folder)}))
    controllers = [floor.gateway for floor in floors]
    gateways = _si_members(Gateway, controllers, {"profile": _profiles(controllers, folder)})
    columns: dict[str, Sequence[Any]] = {
        "name": [floor.name for floor in floors],
        "classes_per_device": [floor.classes_per_device for floor in floors],
        "classes": [floor.classes for floor in floors],
        "gateway": gateways,
        "devices": [tuple(itertools.islice(devices, len(floor.devices))) for floor in floors],
    }
    return members(Floor, validated(Floor, columns))


def _profiles(sections: Sequence[DeviceGroup | GatewayGroup], folder: Path) -> list[Path | None]:
    """Paths of profiles, one per section."""
    return [None if section.profile is None else folder / section.profile for section in sections]


def _si_links(floor: FloorGroup) -> list[DeviceLink | None]:
    """Links of a floor's devices in SI units: their own ones, or equal shares of the floor's medium."""
    sharing = sum(device.link is None for device in floor.devices)
    share = None if floor.link is None else _si_link(floor.link, sharing)
    return [
        share if device.link is None else None if _is_free(device.link) else _si_link(device.link)
        for device in floor.devices
    ]


def _si_link(link: Link, sharing: int = 1) -> DeviceLink:
    """A device's link in SI units: the medium's rate divided by the devices that share it."""
    values = {key: value for key, value in _si(link).items() if isinstance(value, float)}
    for key in ("rate_up", "rate_down"):
        values[key] = values.get(key, math.inf) / max(sharing, 1)
    return DeviceLink(**values)


def _si_members(
    kind: type[Kind], sections: Sequence[Section], others: Mapping[str, Sequence[object]] = MappingProxyType({})
) -> list[Kind]:
    """Sections of the same type as models of a kind in SI units, key by key because they can be many.

    Columns of `others` are in SI units already.
    """
    keys = {_si_name(key): key for key in type(sections[0]).model_fields}
    columns = {
        name: others[name]
        if name in others
        else _si_values(keys[name], [getattr(entry, keys[name]) for entry in sections])
        for name in kind.model_fields
    }
    return members(kind, validated(kind, columns))


def _si(section: Section) -> dict[str, object]:
    """Values of a section in SI units, under keys without unit suffix except `_bytes` for memory."""
    return {_si_name(key): _si_values(key, [value])[0] for key, value in section}


def _si_name(key: str) -> str:
    stem, suffix = split_suffix(key)
    return f"{stem}_bytes" if suffix == "gb" else "noise_density" if stem == "noise" else stem


def _si_values(key: str, values: Sequence[object]) -> Sequence[object]:
    """Values of one key in SI units; what is neither a number nor a list of numbers stays as it is."""
    if not split_suffix(key)[1]:
        return values
    return [
        to_si(key, value)
        if isinstance(value, int | float)
        else tuple(to_si(key, entry) for entry in value)
        if isinstance(value, tuple)
        else value
        for value in values
    ]


def _without_none(table: Mapping[str, object]) -> dict[str, object]:
    """Drop keys without a value, because TOML has no null, and empty tables."""
    return {key: _toml_value(entry) for key, entry in table.items() if entry is not None and entry != {}}


def _toml_value(value: object) -> object:
    if isinstance(value, dict):
        return _without_none(value)
    return [_toml_value(entry) for entry in value] if isinstance(value, list | tuple) else value
