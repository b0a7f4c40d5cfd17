"""The programs of a small plant as processes that a test can kill, stop and start again: each on a port of its own.

With relays, every gateway and device dials through a relay of its own.
"""

import contextlib
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
from fedfloor.rounds.listeners.checkpoint import load_checkpoint
from fedfloor.runs.planned import planned_run
from fedfloor.scenario import resolved_toml
from tests.deploy.plants import OVERRIDES
from tests.deploy.relay import Relay

PATIENCE = 600.0  #: [s] for everything that a test waits for, on a machine that others use too
SLACK = 1.0  #: [s] that a round may last longer than its deadline: the base station has other things to do too


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

    def __init__(self, place: Path, *more: str, rounds: int = 100_000, relayed: bool = False) -> None:
        planned = planned_run("quick", "random", rounds, overrides=[*OVERRIDES, *more], training=True)
        self.place, self.floors = place, {floor.name: floor for floor in planned.scenario.floors}
        self.folder, self._scenario = place / "run", place / "plant.toml"
        self._scenario.write_text(resolved_toml(planned.file), encoding="utf-8")
        self.deadline = planned.scenario.deploy  #: factor and margin
        self.above = {device.name: floor for floor in self.floors for device in self.floors[floor].devices}
        self.above |= dict.fromkeys(self.floors, BASE_STATION)  #: whom a program dials
        make_authority(place / "certs", parties_of(planned.scenario), hosts=self.hosts())
        self.ports = {name: free_port() for name in (BASE_STATION, *self.floors)}
        self.relays = {name: self._relay_to(above) for name, above in self.above.items()} if relayed else {}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.ended: set[int] = set()  #: processes that must not run any more
        self._begins: dict[str, int] = {}  #: where the log of the last start of a program begins
        self.temporary = place / "temporary"
        self.temporary.mkdir()

    def hosts(self) -> dict[str, list[str]]:
        """Addresses of those who are dialled, if they are not those of this machine."""
        return {}

    def listens_on(self, name: str) -> str:
        """HOST:PORT of a program."""
        return f"127.0.0.1:{self.ports[name]}"

    def within(self, name: str) -> list[str]:
        """What a program's command begins with."""
        del name
        return []

    def start_server(self, *more: str) -> None:
        rounds = ["--policy", "random", "--out", str(self.folder), "--workers", "1", *more]
        listen = ["--listen", self.listens_on(BASE_STATION)]
        self._start(BASE_STATION, "server", str(self._scenario), *rounds, *listen, *self._certs("server", BASE_STATION))

    def start_gateway(self, floor: str) -> None:
        addresses = ["--listen", self.listens_on(floor), "--server", self._dialled_by(floor)]
        self._start(floor, "gateway", *addresses, "--processes", "1", *self._certs("gateway", floor))

    def start_device(self, *names: str) -> None:
        """Start devices of a floor in one process, which has the name of the first."""
        certs = [part for name in names for part in self._certs("device", name)]
        data = ["--gateway", self._dialled_by(names[0]), "--data", f"scenario:{self._scenario}"]
        self._start(names[0], "device", *data, *certs)

    def start(self, name: str) -> None:
        """Start a program, as it has to be started after its end."""
        if name == BASE_STATION:
            self.start_server("--resume")
        elif name in self.floors:
            self.start_gateway(name)
        else:
            self.start_device(name)

    def start_all(self) -> None:
        self.start_server()
        for name in self.above:
            self.start(name)

    def send(self, name: str, number: signal.Signals) -> None:
        self.running[name].send_signal(number)

    def end(self, name: str, number: signal.Signals) -> int:
        """Send a signal to a program that ends it; returns its code once it and all that it started have ended."""
        process = self.running[name]
        below = descendants(process.pid)
        process.send_signal(number)
        code = process.wait(PATIENCE)
        wait_until(lambda: not any(map(is_running, below)), f"the end of what {name} started")
        del self.running[name]
        self.ended |= {process.pid, *below}
        return code

    def has_begun(self, name: str) -> bool:
        """Whether a program has said anything since its start; before, it may not even know signals."""
        return len(self.log(name)) > self._begins[name]

    def log(self, name: str) -> str:
        return (self.place / f"{name}.log").read_text(errors="replace")

    def records(self) -> list[dict[str, Any]]:
        """The rounds that the run's log has."""
        return _lines(self.folder / "rounds.jsonl")

    def kept_records(self) -> list[dict[str, Any]]:
        """The rounds that a base station which has ended must find again: all of its checkpoint."""
        checkpoint, records = load_checkpoint(self.folder), self.records()
        count = 0 if checkpoint is None else checkpoint.round
        assert count <= len(records) <= count + 1, (count, len(records))  # the log is written first
        return records[:count]

    def late_rounds(self) -> list[tuple[int, float]]:
        """Rounds that lasted longer than the deadlines of their floors, and how long [s]."""
        factor, margin = self.deadline.deadline_factor, self.deadline.deadline_margin_s + SLACK
        most = {
            record["round"]: factor * max(entry["predicted_s"] or 0.0 for entry in record["gateways"]) + margin
            for record in self.records()
        }
        timings = [(entry["round"], entry["train_s"]) for entry in _lines(self.folder / "timings.jsonl")]
        return [(index, seconds) for index, seconds in timings if index in most and seconds > most[index]]

    def left_behind(self) -> list[str]:
        """What programs have left though all have ended."""
        assert not self.running, self.running.keys()
        ports = [f"port {port} of {name}" for name, port in self.ports.items() if is_listened_on(port)]
        others = self.temporary.glob("torchinductor_*")  # torch keeps one cache per user, which all processes share
        files = [f"file {path.name}" for path in {*self.temporary.iterdir()} - {*others}]
        return [*(f"process {number}" for number in self.ended if is_running(number)), *ports, *files]

    def tracebacks(self) -> list[str]:
        """Programs that ran into a mistake of ours, as their logs say."""
        signs = ("Traceback", "mistake in this program", "exception was never retrieved", "was destroyed but")
        return [path.stem for path in self.place.glob("*.log") if any(sign in path.read_text() for sign in signs)]

    def wait_for_rounds(self, count: int = 1) -> None:
        """Wait for some more rounds."""
        goal = len(self.records()) + count
        wait_until(lambda: len(self.records()) >= goal, "a round")

    def wait_for_record(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for a round, from the next one on, of which something is so."""
        first = len(self.records())
        wait_until(lambda: any(map(is_it, self.records()[first:])), "such a round")
        return next(filter(is_it, self.records()[first:]))

    def wait_for_a_whole_round(self) -> None:
        """Wait for a round that all floors complete."""
        self.wait_for_record(lambda record: all(entry["completed"] for entry in record["gateways"]))

    def close(self) -> None:
        """Kill what still runs."""
        for process in self.running.values():
            for number in [*descendants(process.pid), process.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            process.wait()
        for relay in self.relays.values():
            relay.close()

    def _relay_to(self, name: str) -> Relay:
        return Relay(lambda: self.ports[name])

    def _dialled_by(self, name: str) -> str:
        relay = self.relays.get(name)
        return self.listens_on(self.above[name]) if relay is None else f"127.0.0.1:{relay.port}"

    def _certs(self, role: str, name: str) -> list[str]:
        return ["--certs", str(self.place / "certs" / role / name)]

    def _start(self, name: str, *arguments: str) -> None:
        environment = {**os.environ, "TMPDIR": str(self.temporary)}
        with (self.place / f"{name}.log").open("ab") as log:
            self._begins[name] = len(self.log(name))
            command = [*self.within(name), sys.executable, "-m", "fedfloor", *arguments]
            self.running[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )


def _lines(path: Path) -> list[dict[str, Any]]:
    """Whole lines of a log."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


def of_floor(record: dict[str, Any], floor: str) -> dict[str, Any]:
    """What the log says of a floor in a round."""
    found: dict[str, Any] = next(entry for entry in record["gateways"] if entry["name"] == floor)
    return found
