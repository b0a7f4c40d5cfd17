"""A whole plant on this machine: the base station in this process, every gateway and device in one of its own."""

__all__ = ["LocalMachines", "run_local"]

import logging
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Self

from fedfloor.deploy.authority import BASE_STATION, make_authority, parties_of
from fedfloor.deploy.certificates import Role
from fedfloor.deploy.commands import run_server
from fedfloor.deploy.options import LocalOptions, RoundsOptions, ServerOptions
from fedfloor.deploy.programs import Programs
from fedfloor.deploy.serving import DeployedRun
from fedfloor.deploy.tasks import permissions
from fedfloor.rounds.events import Tell
from fedfloor.runs.folder import SCENARIO
from fedfloor.runs.planned import PlannedRun
from fedfloor.scenario import resolved_toml
from fedfloor.scenario.resolved import Floor

_LOG = logging.getLogger(__name__)
_HOST = "127.0.0.1"
_PATIENCE = 5.0  #: [s] that a thread may take to notice that programs have ended


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
        self._programs = Programs(self._place)
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        try:
            make_authority(self._place / "certs", parties_of(self._planned.scenario), days=30, ca_days=30)
            (self._place / SCENARIO).write_text(resolved_toml(self._planned.file), encoding="utf-8")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._programs.close()
        for thread in self._threads:
            thread.join(_PATIENCE)
        shutil.rmtree(self._place, ignore_errors=True)

    def folder_of(self, role: Role, name: str) -> Path:
        """Folder with the certificate of a party."""
        return self._place / "certs" / role / name

    def start(self, port: int) -> None:
        """Start all gateways, and the devices of each as soon as it listens."""
        for floor in self._planned.scenario.floors:
            self._begin(self._start_floor, floor, port)

    def _start_floor(self, floor: Floor, port: int) -> None:
        folder, options = self.folder_of(Role.GATEWAY, floor.name), self._options
        arguments = ["gateway", "--server", f"{_HOST}:{port}", "--listen", f"{_HOST}:0", "--certs", str(folder)]
        gateway = f"{Role.GATEWAY}-{floor.name}"  # a device may have the name of a floor
        self._start(gateway, [*arguments, "--processes", "1", *self._shared()])
        address = self._programs.address(gateway)
        if address is None:
            return  # it has ended, which `_watch` says
        devices = [str(self.folder_of(Role.DEVICE, device.name)) for device in floor.devices]
        groups = [devices] if options.together else [[device] for device in devices]
        for group in groups:
            certs = [part for device in group for part in ("--certs", device)]
            data = ["--data", f"scenario:{self._place / SCENARIO}"]
            allowed = permissions(self._planned.scenario.deploy)
            if options.data_dir is not None:
                data += ["--data-dir", str(options.data_dir)]
            name = f"{Role.DEVICE}-{Path(group[0]).name}"
            self._start(name, ["device", "--gateway", address, *certs, *data, *allowed, *self._shared()])

    def _shared(self) -> list[str]:
        frequency = self._options.frequency_ghz
        clock = [] if frequency is None else ["--frequency-ghz", str(frequency)]
        return ["--actuator", self._options.actuator, *clock, *(["--own"] if self._own else [])]

    def _start(self, name: str, arguments: Sequence[str]) -> None:
        self._programs.start(name, arguments)
        self._begin(self._watch, name)

    def _watch(self, name: str) -> None:
        """Say that a machine has ended too early, and the last line of its log."""
        ending = self._programs.early_end(name)
        if ending:
            _LOG.warning("%s", ending)

    def _begin(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()
