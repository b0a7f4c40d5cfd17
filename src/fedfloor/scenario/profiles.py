"""Files of hardware profiles that a scenario names: their text, and the names of the copies that a run folder keeps.

A copy is named after the digest of its text, so that a run folder contains everything that its costs follow from, and
a copy that has been changed is noticed.
"""

__all__ = ["PROFILES", "copy_name", "is_copy", "profile_texts", "read_text", "with_profiles"]

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from fedfloor.errors import ProfileError
from fedfloor.scenario.file import DeviceGroup, FloorGroup, GatewayGroup, ScenarioFile

Part = TypeVar("Part", DeviceGroup, GatewayGroup)
PROFILES = "profiles"  #: folder of the copies in a run folder
_COPY = re.compile(rf"{PROFILES}/[0-9a-f]{{64}}\.json")


def copy_name(text: str) -> str:
    """Name of the copy of a profile, relative to the run folder."""
    return f"{PROFILES}/{hashlib.sha256(text.encode()).hexdigest()}.json"


def is_copy(name: str) -> bool:
    """Whether a name, relative to a run folder, is that of a copy."""
    return _COPY.fullmatch(name) is not None


def profile_texts(file: ScenarioFile, folder: Path) -> dict[Path, str]:
    """Text of every profile that a scenario names, by its path; paths are relative to the scenario's folder."""
    gateways = (floor.gateway.profile for floor in file.floors)
    devices = (device.profile for floor in file.floors for device in floor.devices)
    return {
        folder / name: read_text(folder / name) for name in dict.fromkeys((*gateways, *devices)) if name is not None
    }


def read_text(path: Path) -> str:
    """Text of a profile; a copy that is not what its name says is refused."""
    try:
        if path.exists() and not path.is_file():
            raise ProfileError(f"{path}: is not a regular file. Name the JSON file of a hardware profile")
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        advice = "`fedfloor profile --scenario SCENARIO --costs measured --out FILE` writes one"
        if is_copy(f"{path.parent.name}/{path.name}"):
            advice = "A run wrote it: restore the file, or start a new run in another folder"
        raise ProfileError(f"{path}: no such file. {advice}") from None
    except UnicodeDecodeError:
        advice = "Measure again with `fedfloor profile MODEL --costs measured`"
        raise ProfileError(f"{path}: not UTF-8. {advice}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ProfileError(f"{path}: cannot be read: {reason}. Check its name and permissions") from None
    if is_copy(f"{path.parent.name}/{path.name}") and copy_name(text) != f"{path.parent.name}/{path.name}":
        problem = "was changed since the run wrote it: its digest is not the one in its name"
        raise ProfileError(f"{path}: {problem}. Restore the file, or start a new run in another folder")
    return text


def with_profiles(file: ScenarioFile, name_of: Callable[[str], str | None]) -> ScenarioFile:
    """The scenario with other names of profiles, or without those for which `name_of` returns None."""

    def renamed(part: Part) -> Part:
        return part if part.profile is None else part.model_copy(update={"profile": name_of(part.profile)})

    def floor(part: FloorGroup) -> FloorGroup:
        if part.gateway.profile is None and all(entry.profile is None for entry in part.devices):
            return part
        devices = tuple(renamed(entry) for entry in part.devices)
        return part.model_copy(update={"gateway": renamed(part.gateway), "devices": devices})

    return file.model_copy(update={"floors": tuple(floor(part) for part in file.floors)})
