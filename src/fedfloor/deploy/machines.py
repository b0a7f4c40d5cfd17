"""What the machines of a plant said about themselves when they joined, as the run folder keeps it."""

__all__ = ["MachineFiles", "class_counts", "device_profile", "floor_profile", "gateway_profile"]

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedfloor.arrays import Labels
from fedfloor.costs.hardware import fingerprint
from fedfloor.deploy.fields import LinkError
from fedfloor.deploy.joining import JoiningProfile, parse_joining
from fedfloor.deploy.tasks import DeviceTask, FloorTask
from fedfloor.errors import DeploymentError, shown
from fedfloor.files import read_if_there
from fedfloor.runs.folder import HOLDING, MACHINES, write_json
from fedfloor.runs.measure import representative
from fedfloor.scenario.layers import LayerSpec
from fedfloor.training.data.holding import HeldBy


def class_counts(labels: Labels, classes: int) -> tuple[int, ...]:
    """How many samples of each class there are."""
    return tuple(np.bincount(labels, minlength=classes).tolist())


def floor_profile(text: str, floor: FloorTask) -> JoiningProfile:
    """What a gateway has sent of itself or of a device; raises a LinkError if it says what it must not."""
    profile = _parsed(text)
    if profile.role is None:
        return _checked_device(profile, floor.devices)
    if profile.name != floor.floor:
        raise LinkError(f"Profile: {shown(profile.name)} is not the gateway of this floor.")
    batches = [device.batch for device in floor.devices]
    _refuse_other_costs(profile, floor.devices[0].model.layers, batches, asked=bool(floor.measure))
    return profile


def device_profile(text: str, tasks: Sequence[DeviceTask]) -> JoiningProfile:
    """What a device has sent, if it is one of these; raises a LinkError if it says what it must not."""
    return _checked_device(_parsed(text), tasks)


def _parsed(text: str) -> JoiningProfile:
    try:
        return parse_joining(text, "Profile")
    except DeploymentError as error:
        raise LinkError(str(error)) from None


def _checked_device(profile: JoiningProfile, tasks: Sequence[DeviceTask]) -> JoiningProfile:
    task = next((task for task in tasks if task.name == profile.name and profile.role is None), None)
    if task is None:
        raise LinkError(f"Profile: {shown(profile.name)} is no device of this floor.")
    _refuse_other_costs(profile, task.model.layers, [task.batch], asked=bool(task.measure))
    if profile.class_counts is None:
        return profile
    if not task.allow_class_counts:
        raise LinkError(f"Profile: {task.name} tells its class counts, which the scenario does not allow.")
    if len(profile.class_counts) != task.model.classes:
        raise LinkError(f"Profile: {task.name} tells {len(profile.class_counts)} classes, not {task.model.classes}.")
    return profile


def _refuse_other_costs(
    profile: JoiningProfile, layers: Sequence[LayerSpec] | None, batches: Sequence[int], *, asked: bool
) -> None:
    """Refuse measured costs that nobody asked for, or of another network or other batches than the plant trains."""
    if profile.costs is None:
        return
    if not asked:
        raise LinkError(f"Profile: {profile.name} tells costs, but was not asked to measure them.")
    if layers is None or profile.costs.fingerprint != fingerprint(layers):
        measured = f"{shown(profile.costs.model)} with {len(profile.costs.layers)} layers"
        raise LinkError(f"Profile: {profile.name} has measured another network than the plant trains: {measured}.")
    if tuple(profile.costs.batches) != (wanted := representative(batches)):
        measured = ", ".join(map(str, profile.costs.batches))
        asked_for = ", ".join(map(str, wanted))
        raise LinkError(f"Profile: {profile.name} has measured batches of {shown(measured)}, not of {asked_for}.")


def gateway_profile(text: str, name: str) -> JoiningProfile | None:
    """What a gateway has sent with its Hello; None if it cannot be read, because nothing depends on it."""
    try:
        profile = parse_joining(text, name)
    except DeploymentError:
        return None
    return profile if profile.name == name else None


@dataclass(slots=True, eq=False)
class MachineFiles:
    """The files about machines in a run folder, which are written again when a machine says something new."""

    folder: Path
    tasks: Sequence[FloorTask]
    data: str  #: name of the scenario's data
    test_samples: int
    _kept: dict[str, dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        self._kept = {"gateways": {}, "devices": {}}
        content = read_if_there(self.folder / MACHINES)
        if content is not None:  # of the run that is resumed; a machine that is not there now is not forgotten
            try:
                table = json.loads(content)
                self._kept = {kind: dict(table[kind]) for kind in self._kept}
            except (ValueError, KeyError, TypeError):
                problem = "must be a table of gateways and devices"
                raise DeploymentError(f"{self.folder / MACHINES}: {problem}. Restore the file, or delete it") from None

    def keep(self, gateways: Sequence[JoiningProfile], devices: Sequence[JoiningProfile]) -> None:
        """Write down what these machines have said, if it is new."""
        fresh = {
            "gateways": self._merged("gateways", gateways, [task.floor for task in self.tasks]),
            "devices": self._merged("devices", devices, [task.name for floor in self.tasks for task in floor.devices]),
        }
        if fresh == self._kept and (self.folder / MACHINES).exists():
            return
        self._kept = fresh
        write_json(self.folder / MACHINES, fresh)
        held = self._held()
        if held:
            table = {"data": self.data, "origin": "the devices", "partition": None, "test_samples": self.test_samples}
            write_json(self.folder / HOLDING, table | {"devices": held})

    def _merged(self, kind: str, profiles: Sequence[JoiningProfile], names: Sequence[str]) -> dict[str, Any]:
        """What is known of machines of one kind by now, in the order of the scenario."""
        known = self._kept[kind] | {profile.name: _table(profile) for profile in profiles}
        return {name: known[name] for name in names if name in known}

    def _held(self) -> list[HeldBy]:
        """Samples of the devices that have told their class counts, floor by floor."""
        tasks = [(floor.floor, task.name) for floor in self.tasks for task in floor.devices]
        rows = [(floor, name, self._kept["devices"].get(name, {})) for floor, name in tasks]
        return [
            {
                "floor": floor,
                "name": name,
                "asked": row["samples"],
                "held": row["samples"],
                "classes": row["class_counts"],
            }
            for floor, name, row in rows
            if row.get("class_counts")
        ]


def _table(profile: JoiningProfile) -> dict[str, Any]:
    """What is written down of a machine; measured costs are files of their own in the run folder."""
    return profile.model_dump(mode="json", exclude_none=True, exclude={"name", "role", "costs"})
