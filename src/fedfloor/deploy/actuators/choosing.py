"""Actuators by name: `log`, `pace`, `cgroup`, `cgroup:PATH`, `cpufreq`, or your own as `package.module:Class`."""

__all__ = ["ACTUATORS", "make_actuator"]

import inspect
import os
from pathlib import Path

from fedfloor.deploy.actuators.cgroup import CgroupActuator
from fedfloor.deploy.actuators.contract import Actuator, Processes
from fedfloor.deploy.actuators.cpufreq import CpufreqActuator
from fedfloor.deploy.actuators.kernel import ROOT
from fedfloor.deploy.actuators.log import LogActuator
from fedfloor.deploy.actuators.pace import PaceActuator
from fedfloor.errors import DeploymentError, advice_for, shown
from fedfloor.references import make_own, where_raised

#: name -> what it does
ACTUATORS = {
    "log": "writes what was decided to the log",
    "pace": "waits after each step of computing until the model says that it ends",
    "cgroup": "limits how much processes compute, by a control group",
    "cpufreq": "sets the clock frequency of all cores",
}
_METHODS = ("problem", "begin", "step", "end")


def make_actuator(name: str, *, processes: Processes = lambda: (os.getpid(),), root: Path = ROOT) -> Actuator:
    """Make the actuator of this name; a DeploymentError says why it cannot work on this machine.

    `processes` are those that compute, for `cgroup`.
    """
    label = f"--actuator {shown(name)}"
    actuator = _made(name, label, processes, root)
    try:
        problem = actuator.problem()
    except (Exception, SystemExit) as error:  # the user's class may raise anything
        raise DeploymentError(f"{label}: its problem() failed: {where_raised(error)}") from error
    if problem is not None:
        raise DeploymentError(f"{label}: {problem}")
    return actuator


def _made(name: str, label: str, processes: Processes, root: Path) -> Actuator:
    kind, colon, rest = name.partition(":")
    if kind == "cgroup":
        if colon and not rest.startswith("/"):
            raise DeploymentError(f"{label}: must name a group by its whole path. Begin it with /")
        return CgroupActuator(processes, folder=Path(rest) if colon else None, root=root)
    if name == "log":
        return LogActuator()
    if name == "pace":
        return PaceActuator()
    if name == "cpufreq":
        return CpufreqActuator(root=root)
    if colon and kind not in ACTUATORS:
        return _own(name, label)
    advice = f"{advice_for(kind, ACTUATORS)} Name an actuator of your own as package.module:Class"
    raise DeploymentError(f"{label}: unknown. {advice}")


def _own(name: str, label: str) -> Actuator:
    """An actuator that the user has written."""
    actuator: Actuator = make_own(name, label, DeploymentError, _METHODS, page="docs/machines.md")
    if not inspect.iscoroutinefunction(actuator.step):
        raise DeploymentError(f"{label}: step() must be written with `async def`. See docs/machines.md")
    return actuator
