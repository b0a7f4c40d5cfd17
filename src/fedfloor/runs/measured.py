"""Costs that the machines of a plant measured before the first round: from then on, hardware profiles of the run."""

__all__ = ["MeasuredBy", "with_kept_costs", "with_measured_costs"]

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from fedfloor.costs.hardware import HardwareProfile, profile_text
from fedfloor.runs.folder import SCENARIO
from fedfloor.runs.planned import PlannedRun
from fedfloor.scenario import read
from fedfloor.scenario.file import FloorGroup
from fedfloor.scenario.profiles import copy_name, read_text
from fedfloor.scenario.resolved import Floor

Kind = TypeVar("Kind", FloorGroup, Floor)


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredBy:
    """Measured costs by the names of the machines."""

    gateways: Mapping[str, HardwareProfile]
    devices: Mapping[str, HardwareProfile]


def with_measured_costs(planned: PlannedRun, costs: MeasuredBy) -> PlannedRun:
    """The run with these costs; a machine whose hardware profile the scenario names keeps that."""
    gateways = {name: profile_text(profile) for name, profile in costs.gateways.items()}
    devices = {name: profile_text(profile) for name, profile in costs.devices.items()}
    return _with_texts(planned, gateways, devices)


def with_kept_costs(planned: PlannedRun) -> PlannedRun | None:
    """The run with the measured costs that its folder keeps; None if no run has begun there."""
    if planned.folder is None or not (planned.folder / SCENARIO).exists():
        return None
    kept, folder = read(planned.folder / SCENARIO), planned.folder
    gateways = {floor.name: floor.gateway.profile for floor in kept.floors}
    devices = {device.name: device.profile for floor in kept.floors for device in floor.devices}
    texts = {name: read_text(folder / name) for name in {*gateways.values(), *devices.values()} if name is not None}
    return _with_texts(
        planned,
        {name: texts[path] for name, path in gateways.items() if path is not None},
        {name: texts[path] for name, path in devices.items() if path is not None},
    )


def _with_texts(planned: PlannedRun, gateways: Mapping[str, str], devices: Mapping[str, str]) -> PlannedRun:
    """The run with the texts of hardware profiles, by the names of machines."""
    file, scenario = planned.file, planned.scenario
    floors = _with_profiles(scenario.floors, gateways, devices, lambda text: Path(copy_name(text)))
    used = {device.profile for floor in floors for device in floor.devices} | {
        floor.gateway.profile for floor in floors
    }
    texts = {Path(copy_name(text)): text for text in (*gateways.values(), *devices.values())}
    profiles = scenario.profiles | {path: text for path, text in texts.items() if path in used}
    return replace(
        planned,
        file=file.model_copy(update={"floors": _with_profiles(file.floors, gateways, devices, copy_name)}),
        scenario=scenario.model_copy(update={"floors": floors, "profiles": profiles}),
    )


def _with_profiles(
    floors: Sequence[Kind],
    gateways: Mapping[str, str],
    devices: Mapping[str, str],
    path_of: Callable[[str], str | Path],
) -> tuple[Kind, ...]:
    """The floors with profiles for machines that have none."""

    def change(profile: str | Path | None, texts: Mapping[str, str], name: str) -> dict[str, str | Path]:
        return {"profile": path_of(texts[name])} if profile is None and name in texts else {}

    return tuple(
        floor.model_copy(
            update={
                "gateway": floor.gateway.model_copy(update=change(floor.gateway.profile, gateways, floor.name)),
                "devices": tuple(
                    device.model_copy(update=change(device.profile, devices, device.name)) for device in floor.devices
                ),
            }
        )
        for floor in floors
    )
