"""A whole plant on this machine: the base station in this process, every gateway and device in one of its own."""

__all__ = ["LocalMachines", "run_local"]

import logging
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import fields
from multiprocessing import Pipe
from pathlib import Path
from typing import Self

from fedfloor.deploy.authority import BASE_STATION, make_authority, parties_of
from fedfloor.deploy.certificates import Role
from fedfloor.deploy.commands import run_server
from fedfloor.deploy.options import LocalOptions, RoundsOptions, ServerOptions
from fedfloor.deploy.serving import DeployedRun
from fedfloor.deploy.tasks import permissions
from fedfloor.rounds.events import Tell
from fedfloor.runs.folder import SCENARIO
from fedfloor.runs.planned import PlannedRun
from fedfloor.scenario import resolved_toml
from fedfloor.scenario.resolved import Floor
from fedfloor.workers.processes import ending_of, start_process

_LOG = logging.getLogger(__name__)
_HOST = "127.0.0.1"
_PATIENCE = 5.0  #: [s] that a process may take to end by itself


def run_local(planned: PlannedRun, options: LocalOptions, *, own: bool = False, tell: Tell) -> DeployedRun:
    """Run a plant on this machine until the last round has ended; devices hold their shares of the scenario's data."""
    with LocalMachines(planned, options, own=own) as plant:
        shared = {field.name: getattr(options, field.name) for field in fields(RoundsOptions)}
        server = ServerOptions(listen=f"{_HOST}:0", certs=plant.folder_of(Role.SERVER, BASE_STATION), **shared)
        return run_server(planned, server, tell=tell, on_listening=plant.start)


class LocalMachines:
    """Gateways and devices as processes; all have ended when the block ends."""

    def __init__(self, planned: PlannedRun, options: LocalOptions, *, own: bool) -> None:
        self._planned, self._options, self._own = planned, options, own
        self._place = Path(tempfile.mkdtemp(prefix="fedfloor-plant-"))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._tie, self._others_end = Pipe()  # machines end when this process and its end of the pipe are gone
        self._starting = threading.Lock()
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        try:
            make_authority(self._place / "certs", parties_of(self._planned.scenario), days=30, ca_days=30)
            (self._place / SCENARIO).write_text(resolved_toml(self._planned.file), encoding="utf-8")
        except BaseException:
            self.__exit__()
            raise
        return self

    def folder_of(self, role: Role, name: str) -> Path:
        """Folder with the certificate of a party."""
        return self._place / "certs" / role / name

    def start(self, port: int) -> None:
        """Start all gateways, and the devices of each as soon as it listens."""
        for floor in self._planned.scenario.floors:
            thread = threading.Thread(target=self._start_floor, args=(floor, port), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _start_floor(self, floor: Floor, port: int) -> None:
        folder, options = self.folder_of(Role.GATEWAY, floor.name), self._options
        arguments = ["gateway", "--server", f"{_HOST}:{port}", "--listen", f"{_HOST}:0", "--certs", str(folder)]
        gateway = self._started(floor.name, [*arguments, "--processes", "1", *self._shared()])
        if gateway is None or gateway.stdout is None:
            return
        line = gateway.stdout.readline().decode(errors="replace").strip()
        address = line.removeprefix("listening on ")
        if address == line:
            return  # it has ended, which `_watch` says
        devices = [str(self.folder_of(Role.DEVICE, device.name)) for device in floor.devices]
        groups = [devices] if options.together else [[device] for device in devices]
        for group in groups:
            certs = [part for device in group for part in ("--certs", device)]
            data = ["--data", f"scenario:{self._place / SCENARIO}"]
            allowed = permissions(self._planned.scenario.deploy)
            if options.data_dir is not None:
                data += ["--data-dir", str(options.data_dir)]
            self._started(
                Path(group[0]).name, ["device", "--gateway", address, *certs, *data, *allowed, *self._shared()]
            )

    def _shared(self) -> list[str]:
        frequency = self._options.frequency_ghz
        clock = [] if frequency is None else ["--frequency-ghz", str(frequency)]
        return ["--actuator", self._options.actuator, *clock, *(["--own"] if self._own else [])]

    def _started(self, name: str, arguments: Sequence[str]) -> "subprocess.Popen[bytes] | None":
        """Start one machine; None if the plant is being closed."""
        with self._starting:
            if self._closed.is_set():
                return None
            log = (self._place / f"{name}.log").open("wb")
            with log:
                tie = self._others_end.fileno()
                command = ["-m", "fedfloor.deploy.kept", str(tie), *arguments]
                process = start_process(command, [tie], stdout=subprocess.PIPE, stderr=log)
            self._processes[name] = process
        thread = threading.Thread(target=self._watch, args=(name, process), daemon=True)
        self._threads.append(thread)
        thread.start()
        return process

    def _watch(self, name: str, process: "subprocess.Popen[bytes]") -> None:
        """Say that a machine has ended too early, and the last line of its log."""
        process.wait()
        if not self._closed.is_set():
            lines = (self._place / f"{name}.log").read_text(errors="replace").splitlines()
            _LOG.warning("%s %s. %s", name, ending_of(process), lines[-1] if lines else "")

    def __exit__(self, *_: object) -> None:
        with self._starting:
            self._closed.set()
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        for thread in self._threads:
            thread.join(_PATIENCE)
        self._tie.close()
        self._others_end.close()
        shutil.rmtree(self._place, ignore_errors=True)
