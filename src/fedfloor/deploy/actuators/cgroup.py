"""The actuator `cgroup`: limits how much processes compute, by a control group of version 1 or 2."""

__all__ = ["CgroupActuator"]

import logging
import os
import uuid
from contextlib import suppress
from pathlib import Path

from fedfloor.deploy.actuators.contract import Processes, Setting
from fedfloor.deploy.actuators.groups import Group, Tree, find_tree, group_of, tree_at
from fedfloor.deploy.actuators.kernel import ROOT
from fedfloor.errors import DeploymentError, FailedRunError
from fedfloor.runs.machine import maximum_frequency

_LOG = logging.getLogger(__name__)
_OTHERS = (
    "Run it in a group of its own, as with Delegate=yes in a systemd unit, or name an empty group with "
    "--actuator cgroup:PATH"
)


class CgroupActuator:
    """Lets processes compute that share of one core that the decided frequency is of the processor's maximum."""

    def __init__(
        self,
        processes: Processes = lambda: (os.getpid(),),
        *,
        folder: Path | None = None,
        maximum: float | None = None,
        root: Path = ROOT,
    ) -> None:
        """Limit these processes, together, by a new group below `folder`, or below the group of this process.

        `maximum` [Hz] is the processor's highest frequency; None: as the machine says, or else as the scenario says.
        """
        self._processes, self._folder, self._root = processes, folder, root
        self._maximum = maximum if maximum is not None else maximum_frequency(root)
        self._tree: Tree | None = None
        self._group: Group | None = None
        self._homes: dict[int, Path] = {}
        self._has_enabled = self._has_warned = False

    def problem(self) -> str | None:
        """Why no group can be made here; None if it can, which is tried."""
        try:
            tree = self._found()
            others = self._others(tree)
            if others:
                return f"{tree.base}: other processes are in this control group, as {others[0]}. {_OTHERS}"
            group = self._new_group(tree)
            group.folder.mkdir()
            group.remove()
        except DeploymentError as error:
            return str(error)
        except OSError as error:
            advice = "Run as root, or name a group that you may change with --actuator cgroup:PATH"
            return f"{error.filename}: this control group cannot be changed: {error.strerror}. {advice}"
        return None

    def begin(self, setting: Setting) -> None:
        """Make the group, limit it and move the processes into it."""
        self.end()
        tree = self._found()
        self._remove_leftovers(tree)
        group, base = self._new_group(tree), Group(tree.base, tree.unified)
        share = self._share(setting)
        try:
            group.folder.mkdir()
            self._tree, self._group = tree, group
            if base.has_control():
                group.limit(share)
            for process in self._processes():
                home = group_of(process, tree, self._root)
                if home is not None and group.add(process):
                    self._homes[process] = home
            if not base.has_control():  # only now, because no process may be in the base then
                base.set_control(True)
                self._has_enabled = True
                group.limit(share)
        except OSError as error:
            self.end()
            problem = f"{error.filename}: the share of computing cannot be limited: {error.strerror}"
            raise FailedRunError(f"{problem}. Check the control group, or choose another actuator") from None
        except BaseException:
            self.end()
            raise

    async def step(self, seconds: float, *, began: float | None = None) -> None:
        """Wait for nothing: the kernel makes processes slower."""

    def end(self) -> None:
        """Move the processes back to the groups they were in, and remove the group."""
        tree, group = self._tree, self._group
        if tree is None or group is None:
            return
        try:
            # A base that gives control to groups below it takes no process back.
            if self._has_enabled and tree.base in self._homes.values():
                Group(tree.base, tree.unified).set_control(False)
            self._empty(tree, group)
            group.remove()
        except OSError as error:  # the round is over and its result counts
            with suppress(OSError):  # who must stay in the group need not stay slow
                group.limit(1.0)
            _LOG.warning(
                "The control group %s could not be removed: %s: %s. Remove it with rmdir when no process is in it.",
                group.folder,
                error.filename,
                error.strerror,
            )
        self._group, self._homes, self._has_enabled = None, {}, False

    def _empty(self, tree: Tree, group: Group) -> None:
        """Move everything out of the group; what the processes have started meanwhile goes with them."""
        default = next(iter(self._homes.values()), tree.base)
        for _ in range(100):  # while it is emptied, processes in it may start others
            processes = group.processes()
            if not processes:
                return
            for process in processes:
                home = self._homes.get(process, default)
                Group(home if home.is_dir() else tree.base, tree.unified).add(process)

    def _found(self) -> Tree:
        return find_tree(self._root) if self._folder is None else tree_at(self._folder, self._root)

    def _share(self, setting: Setting) -> float:
        if self._maximum is None:
            return setting.share
        if setting.frequency > self._maximum and not self._has_warned:
            text = "%.4g GHz were decided, but the processor has at most %.4g GHz: it computes without a limit."
            _LOG.warning(text, 1e-9 * setting.frequency, 1e-9 * self._maximum)
            self._has_warned = True
        return setting.frequency / self._maximum

    def _others(self, tree: Tree) -> list[int]:
        """Processes that keep the base from giving control to the groups below it, which version 2 asks for."""
        base = Group(tree.base, tree.unified)
        if base.has_control() or not (tree.base / "cgroup.type").exists():  # only the top has no such file
            return []
        return sorted(set(base.processes()) - set(self._processes()))

    @staticmethod
    def _new_group(tree: Tree) -> Group:
        return Group(tree.base / f"fedfloor-{os.getpid()}-{uuid.uuid4().hex[:8]}", tree.unified)

    def _remove_leftovers(self, tree: Tree) -> None:
        """Remove empty groups of processes that were killed before they could do it."""
        for folder in tree.base.glob("fedfloor-[0-9]*-*"):
            process = folder.name.split("-")[1]
            if process.isdecimal() and not (self._root / "proc" / process).exists():
                with suppress(OSError):  # processes are in it
                    folder.rmdir()
