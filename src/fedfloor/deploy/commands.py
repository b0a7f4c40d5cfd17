"""The programs of a real plant, from the options of their commands to the end of their work."""

__all__ = ["run_devices", "run_gateway", "run_server"]

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from fedfloor.deploy.actuators.choosing import make_actuator
from fedfloor.deploy.certificates import Role
from fedfloor.deploy.device import Device, serve_device
from fedfloor.deploy.energy import EnergyBudget, parse_energy, parse_meter
from fedfloor.deploy.gateway import Gateway, serve_gateway
from fedfloor.deploy.holdings import data_source
from fedfloor.deploy.identity import Credentials
from fedfloor.deploy.measuring import CostMeter
from fedfloor.deploy.options import DeviceOptions, GatewayOptions, ServerOptions
from fedfloor.deploy.radio import make_radio
from fedfloor.deploy.running import refuse_open_address, run_until_stopped
from fedfloor.deploy.serving import DeployedRun, Serving, serve_planned
from fedfloor.errors import DeploymentError
from fedfloor.rounds.events import Tell
from fedfloor.rounds.listeners.stop import Until
from fedfloor.runs.planned import PlannedRun

_LOG = logging.getLogger(__name__)


def run_server(
    planned: PlannedRun, options: ServerOptions, *, tell: Tell, on_listening: Callable[[int], None]
) -> DeployedRun:
    """Run the base station until the last round has ended."""
    refuse_open_address("--listen", options.listen, has_tls=options.certs is not None)
    serving = Serving(
        listen=options.listen,
        credentials=_credentials(options.certs, Role.SERVER),
        resume=options.resume,
        until=Until.of(options),
        wait=options.wait,
        data_dir=options.data_dir,
        workers=options.workers,
        radio=None if options.radio is None else make_radio(options.radio),
        on_listening=on_listening,
    )
    return serve_planned(planned, serving, tell=tell)


def run_gateway(options: GatewayOptions, *, on_listening: Callable[[int], None]) -> None:
    """Run a gateway until it is stopped."""
    refuse_open_address("--server", options.server, has_tls=options.certs is not None)
    refuse_open_address("--listen", options.listen, has_tls=options.certs is not None)
    credentials = _credentials(options.certs, Role.GATEWAY, options.name)
    make_actuator(options.actuator)  # one that cannot work here is refused now
    gateway = Gateway(
        name=_name(options.name, credentials),
        station=options.server,
        listen=options.listen,
        actuator=lambda: make_actuator(options.actuator),
        credentials=credentials,
        processes=options.processes,
        energy=_budget(options.energy),
        meter=parse_meter(options.energy_meter),
        state=options.state,
        own=options.own,
        meter_of_costs=_cost_meter(options.frequency_ghz),
        on_listening=on_listening,
    )
    run_until_stopped(lambda: serve_gateway(gateway))


def run_devices(options: DeviceOptions) -> None:
    """Run one device, or several in one process, until they are stopped."""
    refuse_open_address("--gateway", options.gateway, has_tls=bool(options.certs))
    if options.data is None:
        raise DeploymentError("--data: is missing. Name what the device holds, as in --data camera.npz")
    if options.certs and options.names and len(options.certs) != len(options.names):
        problem = f"must be as many as --certs, got {len(options.names)} and {len(options.certs)}"
        raise DeploymentError(f"--name: {problem}. Leave --name out: certificates have names")
    certs: list[Path | None] = [*map(Path, options.certs)] or [None] * len(options.names)
    names: list[str | None] = [*options.names] or [None] * len(certs)
    if not certs:
        raise DeploymentError("--certs: is missing, and so is --name. Give the folder of the device's certificate")
    devices, cost_meter = [], _cost_meter(options.frequency_ghz)
    for folder, name in zip(certs, names, strict=True):
        credentials = _credentials(folder, Role.DEVICE, name)
        devices.append(
            Device(
                name=_name(name, credentials),
                gateway=options.gateway,
                data=data_source(options.data, options.data_dir),
                actuator=make_actuator(options.actuator),
                credentials=credentials,
                energy=_budget(options.energy),
                meter=parse_meter(options.energy_meter),
                allow_samples=options.allow_samples,
                allow_gradients=options.allow_gradients,
                allow_class_counts=options.allow_class_counts,
                own=options.own,
                meter_of_costs=cost_meter,
            )
        )

    async def serve() -> None:
        await asyncio.gather(*map(serve_device, devices))

    run_until_stopped(serve)


def _credentials(folder: Path | None, role: Role, name: str | None = None) -> Credentials | None:
    return None if folder is None else Credentials(folder, role, name=name, tell=_LOG.warning)


def _name(name: str | None, credentials: Credentials | None) -> str:
    if credentials is not None:
        return credentials.identity.own.name
    if name is None:
        raise DeploymentError("--certs: is missing. Give --certs FOLDER, or --name to run without certificates")
    return name


def _cost_meter(frequency_ghz: float | None) -> CostMeter:
    return CostMeter(None if frequency_ghz is None else 1e9 * frequency_ghz)


def _budget(text: str | None) -> EnergyBudget | None:
    return None if text is None else EnergyBudget(parse_energy(text))
