"""The programs of a plant, each in its place on a network: `fedfloor certs`, `server`, `gateway` and `device`."""

__all__ = ["Machines"]

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from multiprocessing import Pipe
from pathlib import Path
from typing import Self

from fedfloor.deploy.authority import BASE_STATION
from fedfloor.errors import FailedRunError
from fedfloor.workers.processes import ending_of, environment
from testbed.control import CONTROL
from testbed.layout import Layout
from testbed.network import Network

_START_S = 120.0  #: that a program may take to listen
_END_S = 10.0  #: that a program may take to end by itself
_LISTENING = "listening on "


class Machines:
    """All programs of one run; `with` ends them, and so does the end of this process, even by `kill -9`.

    What they print is in `logs`, one file for each.
    """

    def __init__(self, layout: Layout, network: Network, *, control: Path, place: Path, logs: Path) -> None:
        self._layout, self._network, self._control, self._place, self._logs = layout, network, control, place, logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._tie, self._others_end = Pipe()  # programs end when this process and its end of the pipe are gone

    def __enter__(self) -> Self:
        self._logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        end = time.monotonic() + _END_S
        for process in self._running.values():
            try:
                process.wait(max(end - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._tie.close()
        self._others_end.close()

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
        for name, process in self._running.items():
            if process.poll() is not None and (name != BASE_STATION or process.returncode != 0):
                raise FailedRunError(f"{name} {ending_of(process)}: {self._last_line(name)}")
        return self._running[BASE_STATION].returncode == 0

    def _start_station(self, scenario: Path, folder: Path) -> int:
        listen = ["--listen", self._network.station_listen, "--out", str(folder), "--workers", "1"]
        radio = ["--radio", "testbed.control:TestbedRadio"]
        self._start(BASE_STATION, "server", str(scenario), *listen, *radio, *self._certs("server", BASE_STATION))
        return self._port(BASE_STATION)

    def _certs(self, role: str, name: str) -> Sequence[str]:
        return ["--certs", str(self._place / "certs" / role / name)]

    def _start(self, name: str, *arguments: str) -> None:
        tie, within = self._others_end.fileno(), self._network.within("" if name == BASE_STATION else name)
        with (self._logs / f"{name}.out").open("wb") as out, (self._logs / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                [*within, sys.executable, "-P", "-m", "fedfloor.deploy.kept", str(tie), *arguments],
                pass_fds=[tie],
                start_new_session=True,  # Ctrl-C is for this process only
                env={**environment(), CONTROL: str(self._control)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
            )

    def _call(self, *arguments: str) -> None:
        command = [sys.executable, "-P", "-m", "fedfloor", *arguments]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise FailedRunError(f"fedfloor {arguments[0]} failed: {done.stderr.strip()}")

    def _port(self, name: str) -> int:
        """Wait until a program listens; returns its port."""
        end = time.monotonic() + _START_S
        while time.monotonic() < end:
            line, newline, _ = (self._logs / f"{name}.out").read_text(encoding="utf-8").partition("\n")
            if newline and line.startswith(_LISTENING):
                return int(line.rpartition(":")[2])
            if self._running[name].poll() is not None:
                raise FailedRunError(f"{name} {ending_of(self._running[name])}: {self._last_line(name)}")
            time.sleep(0.05)
        raise FailedRunError(f"{name} did not listen within {_START_S:g} s. Read {self._logs / name}.log")

    def _last_line(self, name: str) -> str:
        path = self._logs / f"{name}.log"
        lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else f"{path} is empty"
