"""What a scenario needs of a network: its machines, and the hops between them."""

__all__ = ["DeviceHop", "Layout", "layout_of"]

from dataclasses import dataclass

from fedfloor.costs.plant import arrays_of
from fedfloor.deploy.tasks import permissions
from fedfloor.errors import DeploymentError
from fedfloor.runs.deployable import refuse_undeployable
from fedfloor.scenario.resolved import Scenario
from testbed.shaping import UNSHAPED, Rates

_MOST_MACHINES = 100  #: each is a process with torch, of some hundred megabytes


@dataclass(frozen=True, slots=True)
class DeviceHop:
    """A device, and its link to the gateway."""

    name: str
    floor: int  #: m
    rates: Rates


@dataclass(frozen=True, slots=True)
class Layout:
    """All machines but the base station."""

    floors: tuple[str, ...]
    devices: tuple[DeviceHop, ...]
    permissions: tuple[str, ...] = ()  #: options of devices that allow what the scenario allows


def layout_of(scenario: Scenario, label: str) -> Layout:
    """Machines and links of a scenario, read from `label`; refuses one that cannot be deployed here."""
    refuse_undeployable(scenario, label)
    machines = 1 + len(scenario.floors) + len(scenario.devices)
    if machines > _MOST_MACHINES:
        problem = (
            f"has {machines} machines, and the testbed runs at most {_MOST_MACHINES}, each in a process of its own"
        )
        raise DeploymentError(f"{label}: {problem}. Use fewer floors or devices, as in --set floors.0.count=2")
    if scenario.deploy.gains == "measured":
        problem = "deploy.gains: must be 'weather' in the testbed, whose rates come from the gains, got 'measured'"
        raise DeploymentError(f"{label}: {problem}. Leave it out")
    plant = arrays_of(scenario)
    links, floor = plant.devices.links, plant.devices.floor.tolist()
    rates = [UNSHAPED] * len(scenario.devices)
    if links is not None:
        rates = [Rates(*pair) for pair in zip(links.rate_down.tolist(), links.rate_up.tolist(), strict=True)]
    names = [device.name for device in scenario.devices]
    return Layout(
        floors=tuple(each.name for each in scenario.floors),
        devices=tuple(map(DeviceHop, names, floor, rates)),
        permissions=tuple(permissions(scenario.deploy)),
    )
