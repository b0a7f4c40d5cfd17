"""Copies of hardware profiles in a run folder, so that its costs follow from the folder alone."""

__all__ = ["copies_of", "folder_toml", "refuse_changed_copies", "remove_copies", "write_copies"]

from collections.abc import Mapping
from pathlib import Path

from fedfloor.files import make_private, write_whole
from fedfloor.scenario import Scenario, ScenarioFile, resolved_toml
from fedfloor.scenario.profiles import PROFILES, copy_name, read_text, with_profiles


def copies_of(scenario: Scenario) -> dict[str, bytes]:
    """Content of the copies that a run of the scenario keeps, by their names in its folder."""
    return {copy_name(text): text.encode() for text in scenario.profiles.values()}


def folder_toml(file: ScenarioFile, scenario: Scenario) -> str:
    """Text of a run folder's scenario, which names the copies; `scenario` is the same one in SI units."""
    return resolved_toml(with_profiles(file, lambda name: copy_name(scenario.profiles[Path(name)])))


def refuse_changed_copies(folder: Path, copies: Mapping[str, bytes]) -> None:
    """Refuse a run folder in which a copy differs from what the run has written; one that is missing is no problem."""
    for name in copies:
        if (folder / name).exists():
            read_text(folder / name)


def write_copies(folder: Path, copies: Mapping[str, bytes]) -> None:
    """Write the copies that are not there yet."""
    for name, content in copies.items():
        if not (folder / name).exists():
            make_private((folder / name).parent)
            write_whole(folder / name, content)


def remove_copies(folder: Path) -> None:
    """Remove all copies of a run folder that has no round."""
    if (folder / PROFILES).is_dir():
        for path in (folder / PROFILES).glob("*.json"):
            path.unlink()
        (folder / PROFILES).rmdir()
