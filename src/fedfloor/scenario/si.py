"""Sections of a scenario file in SI units."""

__all__ = ["is_free", "si_link", "si_members", "si_table"]

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from fedfloor.scenario.file import Link
from fedfloor.scenario.members import Kind, members, validated
from fedfloor.scenario.resolved import DeviceLink
from fedfloor.scenario.section import Section
from fedfloor.units import split_suffix, to_si


def is_free(link: Link | None) -> bool:
    """Whether a link with plain numbers takes no time and no energy."""
    return link is None or si_link(link) == DeviceLink()


def si_link(link: Link, sharing: int = 1) -> DeviceLink:
    """A device's link in SI units: the medium's rate divided by the devices that share it."""
    values = {key: value for key, value in si_table(link).items() if isinstance(value, float)}
    for key in ("rate_up", "rate_down"):
        values[key] = values.get(key, math.inf) / max(sharing, 1)
    return DeviceLink(**values)


def si_members(
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


def si_table(section: Section) -> dict[str, object]:
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
