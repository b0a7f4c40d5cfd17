"""A SuperLink with SuperNodes on loopback, over TLS and with node keys; every process ends with the block."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fedfloor.deploy.authority import BASE_STATION, make_authority, parties_of
from fedfloor.deploy.certificates import Role
from fedfloor.runs.planned import load

PROGRAMS = Path(sys.executable).parent
PATIENCE = 400.0  #: [s] for everything that a test waits for


def free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


def environment(home: Path) -> dict[str, str]:
    """Flower in a home of its own, without telemetry and updates."""
    private = {"FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    private["PATH"] = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, **private, "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}


@dataclass(slots=True, eq=False)
class SuperLink:
    """The processes of a federation; floors by name."""

    place: Path
    port: int
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    left: dict[int, str] = field(default_factory=dict)  #: processes that did not end when they were asked to

    def start(self, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
        with (self.place / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(PROGRAMS / arguments[0]), *arguments[1:]],
                stdout=log,
                stderr=log,
                env=environment(self.place / "home"),
                cwd=self.place,
            )
        self.processes[name] = process
        return process

    def flwr(self, *arguments: str) -> Any:
        """What a command of Flower prints as JSON."""
        command = [str(PROGRAMS / "flwr"), *arguments, "--format", "json"]
        done = subprocess.run(
            command,
            capture_output=True,
            env=environment(self.place / "home"),
            cwd=self.place,
            timeout=PATIENCE,
            check=False,
        )
        text = done.stdout.decode()
        assert done.returncode == 0, f"{text} {done.stderr.decode()} {self.logs()}"
        answer = json.loads(text[text.index("{") :])
        assert answer["success"], answer
        return answer

    def logs(self) -> str:
        """The ends of all logs, for a test that fails."""
        logs = sorted(self.place.glob("*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in logs)

    def wait_for(self, folder: Path, rounds: int) -> None:
        """Wait until a run has logged so many rounds."""
        end = time.monotonic() + PATIENCE
        log = folder / "rounds.jsonl"
        while not (log.exists() and len(log.read_text().splitlines()) >= rounds):
            assert time.monotonic() < end, self.logs()
            time.sleep(0.2)

    def wait_for_end(self, run: str) -> str:
        """Wait until a run has ended; how."""
        end = time.monotonic() + PATIENCE
        while True:
            (found,) = self.flwr("list", "test", "--run-id", run)["runs"]
            status = str(found["status"])
            if status.startswith("finished"):
                return status
            assert time.monotonic() < end, self.logs()
            time.sleep(3.0)  # every look is a process that takes seconds to start


def running_in(home: Path) -> dict[int, str]:
    """Processes that were started in a home of Flower, whoever is their parent by now, and their commands."""
    mark, running = f"FLWR_HOME={home}".encode(), {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                running[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return running


@contextlib.contextmanager
def superlink(
    place: Path, scenario: str | Path, overrides: Sequence[str], floors: Sequence[str], *, named: bool = False
) -> Iterator[SuperLink]:
    """A SuperLink, and a SuperNode with a registered key for each floor, which has its name there or in its config."""
    make_authority(
        place / "certs",
        parties_of(load(scenario, overrides)),
        hosts={BASE_STATION: ["127.0.0.1", "localhost"]},
        days=30,
        ca_days=30,
    )
    own = place / "certs" / Role.SERVER / BASE_STATION
    ca, certificate, key = own / "ca.pem", own / "certificate.pem", own / "key.pem"
    link = SuperLink(place, free_port())
    (place / "home").mkdir()
    address = f"127.0.0.1:{link.port}"
    text = f'[superlink]\ndefault = "test"\n\n[superlink.test]\naddress = "{address}"\nroot-certificates = "{ca}"\n'
    (place / "home" / "config.toml").write_text(text)
    tls = ["--ssl-certfile", str(certificate), "--ssl-keyfile", str(key), "--ssl-ca-certfile", str(ca)]
    switches = ["--enable-supernode-auth", "--disable-runtime-dependency-installation"]
    try:
        link.start("superlink", "flower-superlink", "--host", "127.0.0.1", "--port", str(link.port), *tls, *switches)
        wait_for_port(link)
        for partition, name in enumerate(floors):
            private, public = node_keys(place / name)
            link.flwr("supernode", "register", str(public), "test", *(["--name", name] if named else []))
            config = f"partition-id={partition}" if named else f'floor="{name}"'
            link.start(
                name,
                "flower-supernode",
                *("--superlink", address, "--root-certificates", str(ca)),
                *("--auth-supernode-private-key", str(private), "--node-config", config),
                *("--port", str(free_port())),
            )
        yield link
    finally:
        for process in link.processes.values():
            process.send_signal(signal.SIGTERM)
        end = time.monotonic() + 30.0
        for process in link.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(end - time.monotonic(), 0.1))
        while running_in(place / "home") and time.monotonic() < end:
            time.sleep(0.2)
        link.left = running_in(place / "home")
        for identity in link.left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(identity, signal.SIGKILL)
        for process in link.processes.values():
            process.wait()


def node_keys(place: Path) -> tuple[Path, Path]:
    """Files with a new key pair of a SuperNode, as Flower takes them."""
    key = ec.generate_private_key(ec.SECP384R1())
    form, nothing = serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    private, public = place.with_suffix(".key"), place.with_suffix(".pub")
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, nothing))
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    )
    return private, public


def wait_for_port(link: SuperLink) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", link.port), 1.0):
            return
        assert time.monotonic() < end, link.logs()
        assert link.processes["superlink"].poll() is None, link.logs()
        time.sleep(0.2)
