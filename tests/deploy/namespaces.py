"""The programs of a small plant in network namespaces of their own, whose links a test can set down; needs root.

Every namespace has one virtual cable to a bridge, which is in a namespace too: the network of this machine is not
touched.
"""

import os
import subprocess
from pathlib import Path

from fedfloor.deploy.authority import BASE_STATION
from tests.deploy.programs import Programs


def why_not() -> str:
    """Why there can be no network namespaces here; an empty text if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        probe = f"fft{os.getpid()}p"
        ip("netns", "add", probe)
        ip("netns", "delete", probe)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no network namespaces: {error}"
    return ""


def ip(*arguments: str) -> str:
    """What the command `ip` says."""
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


class NetworkedPrograms(Programs):
    """Programs that reach each other over cables."""

    def __init__(self, place: Path, *more: str) -> None:
        self._spaces: dict[str, str] = {}
        self._prefix = f"fft{os.getpid()}"
        self._bridge = f"{self._prefix}b"
        super().__init__(place, *more)

    def __enter__(self) -> "NetworkedPrograms":
        ip("netns", "add", self._bridge)
        ip("-n", self._bridge, "link", "add", "bridge", "type", "bridge")
        ip("-n", self._bridge, "link", "set", "bridge", "up")
        for number, name in enumerate((BASE_STATION, *self.above), start=1):
            space = self._spaces[name] = f"{self._prefix}n{number}"
            ip("netns", "add", space)
            cable = ["link", "add", f"cable{number}", "type", "veth", "peer", "name", "eth0", "netns", space]
            ip("-n", self._bridge, *cable)
            ip("-n", self._bridge, "link", "set", f"cable{number}", "master", "bridge", "up")
            ip("-n", space, "address", "add", f"{self._host(name)}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "lo", "up")
            ip("-n", space, "link", "set", "eth0", "up")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        for space in [*self._spaces.values(), self._bridge]:
            ip("netns", "delete", space)

    def set_link(self, name: str, state: str) -> None:
        """Set the cable of a program `up` or `down`."""
        ip("-n", self._bridge, "link", "set", f"cable{self._number(name)}", state)

    def processes_left(self) -> list[str]:
        """Processes in any of the namespaces."""
        return [number for space in self._spaces.values() for number in ip("netns", "pids", space).split()]

    def hosts(self) -> dict[str, list[str]]:
        return {name: [self._host(name)] for name in (BASE_STATION, *self.floors)}

    def listens_on(self, name: str) -> str:
        return f"{self._host(name)}:{self.ports[name]}"

    def within(self, name: str) -> list[str]:
        return ["ip", "netns", "exec", self._spaces[name]]

    def _number(self, name: str) -> int:
        return [BASE_STATION, *self.above].index(name) + 1

    def _host(self, name: str) -> str:
        return f"10.77.0.{self._number(name)}"
