"""The programs of a plant, each in its place on a network: `fedfloor certs`, `server`, `gateway` and `device`."""

__all__ = ["Machines"]

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from fedfloor.deploy.authority import BASE_STATION
from fedfloor.deploy.programs import Programs
from fedfloor.errors import FailedRunError
from fedfloor.workers.processes import environment
from testbed.control import CONTROL
from testbed.layout import Layout
from testbed.network import Network

_START_S = 120.0  #: that a program may take to listen


class Machines:
    """All programs of one run; `with` ends them, and so does the end of this process, even by `kill -9`.

    What they print is in `logs`, two files for each.
    """

    def __init__(self, layout: Layout, network: Network, *, control: Path, place: Path, logs: Path) -> None:
        self._layout, self._network, self._control, self._place, self._logs = layout, network, control, place, logs
        self._programs, self._names = Programs(logs), list[str]()

    def __enter__(self) -> Self:
        self._logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._programs.close()

    def start(self, scenario: Path, folder: Path) -> None:
        """Make certificates and start everything; the base station writes its run to the folder."""
        hosts = [f"{BASE_STATION}={self._network.station_host}"]
        hosts += [f"{floor}={self._network.gateway_host}" for floor in self._layout.floors]
        named = [part for host in hosts for part in ("--host", host)]
        self._call("certs", "init", str(self._place / "certs"), "--scenario", str(scenario), *named)
        station = self._start_station(scenario, folder)
        for m, floor in enumerate(self._layout.floors):
            server = ["--server", self._network.way_to_station(m, station), "--listen", self._network.gateway_listen]
            self._start(
                floor, "gateway", *server, *self._certs("gateway", floor), "--actuator", "pace", "--processes", "1"
            )
        gateways = [self._port(floor) for floor in self._layout.floors]  # they start at the same time
        for n, device in enumerate(self._layout.devices):
            gateway = ["--gateway", self._network.way_to_gateway(n, gateways[device.floor])]
            data = ["--data", f"scenario:{scenario}", "--actuator", "pace"]
            certs = self._certs("device", device.name)
            self._start(device.name, "device", *gateway, *certs, *data, *self._layout.permissions)

    def is_done(self) -> bool:
        """Whether the base station has ended well; raises a FailedRunError if a program has failed."""
        for name in self._names:
            code = self._programs.code(name)
            if code is not None and (name != BASE_STATION or code != 0):
                raise FailedRunError(self._programs.ending(name))
        return self._programs.code(BASE_STATION) == 0

    def _start_station(self, scenario: Path, folder: Path) -> int:
        listen = ["--listen", self._network.station_listen, "--out", str(folder), "--workers", "1"]
        radio = ["--radio", "testbed.control:TestbedRadio"]
        self._start(BASE_STATION, "server", str(scenario), *listen, *radio, *self._certs("server", BASE_STATION))
        return self._port(BASE_STATION)

    def _certs(self, role: str, name: str) -> Sequence[str]:
        return ["--certs", str(self._place / "certs" / role / name)]

    def _start(self, name: str, *arguments: str) -> None:
        within = self._network.within("" if name == BASE_STATION else name)
        self._programs.start(name, arguments, within=within, variables={CONTROL: str(self._control)})
        self._names.append(name)

    def _call(self, *arguments: str) -> None:
        command = [sys.executable, "-P", "-m", "fedfloor", *arguments]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise FailedRunError(f"fedfloor {arguments[0]} failed: {done.stderr.strip()}")

    def _port(self, name: str) -> int:
        """Wait until a program listens; returns its port."""
        address = self._programs.address(name, _START_S)
        if address is not None:
            return int(address.rpartition(":")[2])
        if self._programs.code(name) is not None:
            raise FailedRunError(self._programs.ending(name))
        raise FailedRunError(f"{name} did not listen within {_START_S:g} s. Read {self._logs / name}.log")
