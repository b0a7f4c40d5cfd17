"""Control groups of the kernel, versions 1 and 2: where they are, who is in them, and how much they may compute."""

__all__ = ["QUOTA_PERIOD_US", "Group", "Tree", "find_tree", "group_of", "tree_at"]

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fedfloor.deploy.actuators.kernel import read_value, write_value
from fedfloor.errors import DeploymentError, named

QUOTA_PERIOD_US = 100_000  #: [us] after which processes get their quota again; the kernel's default
_LEAST_US = 1_000  #: [us] the smallest quota that the kernel takes
_PATIENCE = 1.0  #: [s] that a group may take to be empty when its processes have ended
_GIVE = "Name a group with --actuator cgroup:PATH, or choose another actuator"


@dataclass(frozen=True, slots=True)
class Tree:
    """A hierarchy of control groups that can limit computing."""

    top: Path  #: folder where it is mounted
    prefix: str  #: part of the groups' names that the mount leaves out, as in containers
    unified: bool  #: version 2
    base: Path  #: group below which new ones are made


@dataclass(frozen=True, slots=True)
class Group:
    """One control group."""

    folder: Path
    unified: bool

    def limit(self, share: float) -> None:
        """Let the processes of the group compute this share of one core, together; 1 is no limit."""
        quota = max(round(share * QUOTA_PERIOD_US), _LEAST_US) if share < 1.0 else None
        if self.unified:
            write_value(self.folder / "cpu.max", f"{'max' if quota is None else quota} {QUOTA_PERIOD_US}")
        else:
            write_value(self.folder / "cpu.cfs_period_us", QUOTA_PERIOD_US)
            write_value(self.folder / "cpu.cfs_quota_us", -1 if quota is None else quota)

    def add(self, process: int) -> bool:
        """Move a process with all its threads into the group; returns False if the process has ended."""
        try:
            write_value(self.folder / "cgroup.procs", process)
        except ProcessLookupError:
            return False
        return True

    def processes(self) -> list[int]:
        """Numbers of the processes in the group."""
        return [int(line) for line in read_value(self.folder / "cgroup.procs").split()]

    def has_control(self) -> bool:
        """Whether groups below this one can limit computing now; version 1 always can."""
        return not self.unified or "cpu" in read_value(self.folder / "cgroup.subtree_control").split()

    def set_control(self, is_on: bool) -> None:
        """Let groups below this one limit computing, or no longer; the kernel refuses it if processes are in it."""
        write_value(self.folder / "cgroup.subtree_control", "+cpu" if is_on else "-cpu")

    def remove(self) -> None:
        """Remove the group, which must be empty; processes that have just ended may be in it for a moment."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                self.folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
            else:
                return


def find_tree(root: Path) -> Tree:
    """The hierarchy that limits computing on this machine, with this process's group as its base."""
    for tree in _mounted(root):
        base = group_of("self", tree, root)
        if base is None or not base.is_dir():
            continue
        if not tree.unified or "cpu" in _controllers(base):
            return Tree(tree.top, tree.prefix, tree.unified, base)
    raise DeploymentError(f"this machine has no control groups that limit computing for this process. {_GIVE}")


def tree_at(folder: Path, root: Path) -> Tree:
    """The hierarchy of a group that the user names."""
    if not folder.is_dir():
        raise DeploymentError(f"{named(folder)}: no such control group. Make it, or {_GIVE[0].lower()}{_GIVE[1:]}")
    for tree in _mounted(root):
        if folder.resolve().is_relative_to(tree.top.resolve()):
            if tree.unified and "cpu" not in _controllers(folder):
                advice = "Add +cpu to cgroup.subtree_control of the group above it"
                raise DeploymentError(f"{named(folder)}: its controllers do not include cpu. {advice}")
            return Tree(tree.top, tree.prefix, tree.unified, folder)
    raise DeploymentError(f"{named(folder)}: is in no hierarchy of control groups that limits computing. {_GIVE}")


def group_of(process: int | str, tree: Tree, root: Path) -> Path | None:
    """The folder of the group that a process is in; None if the process has ended or its group is not to be seen."""
    try:
        lines = read_value(root / f"proc/{process}/cgroup").splitlines()
    except OSError:
        return None
    for line in lines:
        number, controllers, name = [*line.split(":", 2), "", ""][:3]
        if (number == "0" and not controllers) if tree.unified else "cpu" in controllers.split(","):
            inside = name.removeprefix(tree.prefix.rstrip("/")).lstrip("/")
            return None if ".." in Path(inside).parts else tree.top / inside
    return None


def _mounted(root: Path) -> Iterator[Tree]:
    """Mounted hierarchies, version 1 with the controller `cpu` and version 2; their base is the top."""
    try:
        lines = read_value(root / "proc/self/mountinfo").splitlines()
    except OSError:
        return
    for line in lines:
        mount, _, system = line.partition(" - ")
        words, kind = mount.split(), system.split()
        if len(words) < 5 or len(kind) < 3 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        if kind[0] == "cgroup2" or "cpu" in kind[2].split(","):
            top = root / _unescaped(words[4]).lstrip("/")
            yield Tree(top, _unescaped(words[3]), kind[0] == "cgroup2", top)


def _unescaped(text: str) -> str:
    """A path as mountinfo writes it, with spaces and backslashes restored."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _controllers(folder: Path) -> list[str]:
    try:
        return read_value(folder / "cgroup.controllers").split()
    except OSError:
        return []
