"""Expanded scenario file -> TOML text."""

__all__ = ["resolved_toml", "section_table"]

from collections.abc import Mapping
from typing import Any

import tomli_w

from fedfloor.scenario.file import ScenarioFile
from fedfloor.scenario.section import Section

#: sections that count as absent while all their keys have their defaults
_OPTIONAL = ("precision", "aggregation", "deploy")
#: keys of other sections that count as absent while they have their defaults
_OPTIONAL_KEYS = {
    "training": ("task", "extra_iterations", "momentum", "schedule", "schedule_rounds", "schedule_factor")
}


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


def _without_none(table: Mapping[str, object]) -> dict[str, object]:
    """Drop keys without a value, because TOML has no null, and empty tables."""
    return {key: _toml_value(entry) for key, entry in table.items() if entry is not None and entry != {}}


def _toml_value(value: object) -> object:
    if isinstance(value, dict):
        return _without_none(value)
    return [_toml_value(entry) for entry in value] if isinstance(value, list | tuple) else value
