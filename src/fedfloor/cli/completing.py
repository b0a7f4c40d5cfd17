"""What a shell completes beside commands and options: presets, policies and keys of scenarios.

Completing must be quick, so names come from the folders of the package without importing what they name.
"""

__all__ = ["complete_key", "complete_policy", "complete_preset", "named_command"]

import os
import sys
from collections.abc import Iterator, Mapping
from importlib import resources
from importlib.metadata import entry_points
from typing import Any


def named_command() -> str:
    """The command that is named on the command line, or on the line that a shell wants completed; empty if none is."""
    if "_FEDFLOOR_COMPLETE" in os.environ:
        line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
        return "".join(line.split()[1:2])
    return "".join(sys.argv[1:2])


def complete_preset(incomplete: str) -> list[str]:
    """Presets that begin so; if there are none, the shell completes names of files."""
    return _beginning(_files_in("scenario/presets", ".toml"), incomplete)


def complete_policy(incomplete: str) -> list[str]:
    """Policies of this package and of installed ones that begin so."""
    installed = {entry.name for entry in entry_points(group="fedfloor.policies")}
    return _beginning({*_files_in("scheduling/policies", ".py"), *installed}, incomplete)


def complete_key(incomplete: str) -> list[str]:
    """Keys of scenarios that begin so, each with the equals sign that its value follows; the first entry of lists."""
    from fedfloor import api

    schema: Any = api.scenario_schema()
    return _beginning({f"{key}=" for key in _keys(schema, schema["$defs"])}, incomplete)


def _beginning(names: Any, incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))


def _files_in(folder: str, suffix: str) -> set[str]:
    """Names of the files in a folder of the package, without their suffix; private ones are left out."""
    entries = (resources.files("fedfloor") / folder).iterdir()
    names = {entry.name.removesuffix(suffix) for entry in entries if entry.name.endswith(suffix)}
    return {name for name in names if not name.startswith("_")}


def _keys(schema: Mapping[str, Any], sections: Mapping[str, Any]) -> Iterator[str]:
    """Keys of an object with dots between, down to those that have values."""
    for key, value in schema["properties"].items():
        place, section = key, _section(value)
        if section is None and value.get("type") == "array":
            place, section = f"{key}.0", _section(value["items"])
        if section is None:
            yield key
        else:
            yield from (f"{place}.{below}" for below in _keys(sections[section], sections))


def _section(schema: Mapping[str, Any]) -> str | None:
    """Name of the section that a schema stands for, which may be left out; None if it stands for a value."""
    parts = [part for part in schema.get("anyOf", [schema]) if part.get("type") != "null"]
    reference = parts[0].get("$ref", "") if len(parts) == 1 else ""
    return reference.rpartition("/")[2] or None
