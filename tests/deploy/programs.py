"""The programs of a small plant as processes that a test can kill, stop and start again: each on a port of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedfloor.deploy.authority import BASE_STATION, make_authority, parties_of
from fedfloor.runs.planned import planned_run
from fedfloor.scenario import resolved_toml
from tests.deploy.plants import OVERRIDES

PATIENCE = 120.0  #: [s] for everything that a test waits for


def wait_until(is_so: Callable[[], bool], what: str = "it") -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, f"{what} never happened"
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_listened_on(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def is_running(number: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has asked for does not."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def descendants(number: int) -> list[int]:
    """Processes that a process has started, and theirs."""
    children: list[int] = []
    for entry in Path(f"/proc/{number}/task").glob("*/children"):
        children += map(int, entry.read_text().split())
    return [*children, *(each for child in children for each in descendants(child))]


class Programs:
    """A base station, a gateway per floor and a process per device."""

    def __init__(self, place: Path, *more: str) -> None:
        planned = planned_run("quick", "random", 100_000, overrides=[*OVERRIDES, *more], training=True)
        self.place, self.floors = place, {floor.name: floor for floor in planned.scenario.floors}
        self.folder, self._scenario = place / "run", place / "plant.toml"
        self._scenario.write_text(resolved_toml(planned.file), encoding="utf-8")
        make_authority(place / "certs", parties_of(planned.scenario))
        self.ports = {name: free_port() for name in (BASE_STATION, *self.floors)}
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start_server(self, *more: str) -> None:
        rounds = ["--policy", "random", "--out", str(self.folder), "--workers", "1", *more]
        listen = ["--listen", f"127.0.0.1:{self.ports[BASE_STATION]}"]
        self._start(BASE_STATION, "server", str(self._scenario), *rounds, *listen, *self._certs("server", BASE_STATION))

    def start_gateway(self, floor: str) -> None:
        listen = f"127.0.0.1:{self.ports[floor]}"
        server = ["--server", f"127.0.0.1:{self.ports[BASE_STATION]}", "--processes", "1"]
        self._start(floor, "gateway", "--listen", listen, *server, *self._certs("gateway", floor))

    def start_device(self, floor: str, name: str) -> None:
        gateway = ["--gateway", f"127.0.0.1:{self.ports[floor]}", "--data", f"scenario:{self._scenario}"]
        self._start(name, "device", *gateway, *self._certs("device", name))

    def start_all(self) -> None:
        self.start_server()
        for name, floor in self.floors.items():
            self.start_gateway(name)
            for device in floor.devices:
                self.start_device(name, device.name)

    def send(self, name: str, number: signal.Signals) -> None:
        self.running[name].send_signal(number)

    def end(self, name: str, number: signal.Signals) -> int:
        """Send a signal to a program that ends it; returns its code once it and all that it started have ended."""
        process, below = self.running.pop(name), descendants(self.running[name].pid) if name in self.running else []
        process.send_signal(number)
        code = process.wait(PATIENCE)
        wait_until(lambda: not any(map(is_running, below)), f"the end of what {name} started")
        return code

    def log(self, name: str) -> str:
        return (self.place / f"{name}.log").read_text(errors="replace")

    def records(self) -> list[dict[str, Any]]:
        """The rounds that the run's log has."""
        path = self.folder / "rounds.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def wait_for_rounds(self, count: int = 1) -> None:
        """Wait for some more rounds."""
        goal = len(self.records()) + count
        wait_until(lambda: len(self.records()) >= goal, "a round")

    def wait_for_record(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for a round, from the next one on, of which something is so."""
        first = len(self.records())
        wait_until(lambda: any(map(is_it, self.records()[first:])), "such a round")
        return next(filter(is_it, self.records()[first:]))

    def close(self) -> None:
        for process in self.running.values():
            for number in [*descendants(process.pid), process.pid]:
                os.kill(number, signal.SIGKILL)
            process.wait()

    def _certs(self, role: str, name: str) -> list[str]:
        return ["--certs", str(self.place / "certs" / role / name)]

    def _start(self, name: str, *arguments: str) -> None:
        with (self.place / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-m", "fedfloor", *arguments]
            self.running[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def of_floor(record: dict[str, Any], floor: str) -> dict[str, Any]:
    """What the log says of a floor in a round."""
    found: dict[str, Any] = next(entry for entry in record["gateways"] if entry["name"] == floor)
    return found
