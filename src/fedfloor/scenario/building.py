"""Expanded scenario file -> plant in SI units."""

__all__ = ["build"]

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedfloor.errors import ScenarioError
from fedfloor.scenario.expand import battery_of
from fedfloor.scenario.file import DeviceGroup, FloorGroup, GatewayGroup, ScenarioFile
from fedfloor.scenario.members import members, validated
from fedfloor.scenario.profiles import profile_texts
from fedfloor.scenario.resolved import Battery, Device, DeviceLink, Floor, Gateway, Radio, Scenario
from fedfloor.scenario.si import is_free, si_link, si_members, si_table


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
        radio=Radio.model_validate(si_table(file.radio)),
        floors=tuple(_floors(file.floors, folder)),
        battery=Battery.model_validate(si_table(battery_of(file, file.floors, label))),
        baseline=file.baseline,
        participation=file.participation,
        deploy=file.deploy,
        policy=file.policy,
        traces=traces,
        profiles=profile_texts(file, folder),
    )


def _check_cuts(file: ScenarioFile, depth: int, label: str) -> None:
    """Check the cuts of the file against the number of layers. Checked first, because no other key can fix it."""
    least, baseline = file.training.min_cut, file.baseline.cut
    for key, cut in (("training.min_cut", least), ("baseline.cut", baseline)):
        if cut > depth:
            raise ScenarioError(f"{label}: {key}: must be <= {depth}, the number of layers, got {cut}. Lower it.")
    if baseline < least:
        problem = f"must be >= training.min_cut = {least}, got {baseline}"
        raise ScenarioError(f"{label}: baseline.cut: {problem}. Set baseline.cut = {least} too.")


def _floors(floors: Sequence[FloorGroup], folder: Path) -> list[Floor]:
    """Expanded floors in SI units; paths are relative to a folder."""
    sections = [device for floor in floors for device in floor.devices]
    links = [link for floor in floors for link in _links(floor)]
    devices = iter(si_members(Device, sections, {"link": links, "profile": _profiles(sections, folder)}))
    controllers = [floor.gateway for floor in floors]
    gateways = si_members(Gateway, controllers, {"profile": _profiles(controllers, folder)})
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


def _links(floor: FloorGroup) -> list[DeviceLink | None]:
    """Links of a floor's devices in SI units: their own ones, or equal shares of the floor's medium."""
    sharing = sum(device.link is None for device in floor.devices)
    share = None if floor.link is None else si_link(floor.link, sharing)
    return [
        share if device.link is None else None if is_free(device.link) else si_link(device.link)
        for device in floor.devices
    ]
