"""Real machines: the base station, gateways and devices. All of it needs the extra 'deploy'."""

__all__ = ["serve", "serve_devices", "serve_floor", "serve_here"]

from collections.abc import Callable
from typing import TYPE_CHECKING

from fedfloor.api.certificates import needing_deploy
from fedfloor.arguments import checked, refuse_other
from fedfloor.deploy.options import DeviceOptions, GatewayOptions, LocalOptions, ServerOptions
from fedfloor.rounds.events import Tell, silent
from fedfloor.runs.planned import PlannedRun

if TYPE_CHECKING:
    from fedfloor.deploy.serving import DeployedRun


@checked
def serve(
    planned: PlannedRun,
    options: ServerOptions,
    *,
    on_event: Tell = silent,
    on_listening: Callable[[int], None] = lambda _: None,
) -> "DeployedRun":
    """Run the base station of a plant of real machines, until the last round of a planned run has ended.

    `on_listening` is told the port on which gateways can join. Needs the extra 'deploy'.
    """
    refuse_other("planned", planned, PlannedRun, "`plan_runs` returns them")
    refuse_other("options", options, ServerOptions, "Make them with ServerOptions(...)")
    with needing_deploy():
        from fedfloor.deploy.commands import run_server
    return run_server(planned, options, tell=on_event, on_listening=on_listening)


@checked
def serve_floor(options: GatewayOptions, *, on_listening: Callable[[int], None] = lambda _: None) -> None:
    """Run the gateway of a floor until it is stopped; `on_listening` is told the port on which devices can join."""
    refuse_other("options", options, GatewayOptions, "Make them with GatewayOptions(...)")
    with needing_deploy():
        from fedfloor.deploy.commands import run_gateway
    run_gateway(options, on_listening=on_listening)


@checked
def serve_here(
    planned: PlannedRun, options: LocalOptions, *, own: bool = False, on_event: Tell = silent
) -> "DeployedRun":
    """Run a planned run on a plant of processes of this machine, over mutual TLS. Needs the extra 'deploy'."""
    refuse_other("planned", planned, PlannedRun, "`plan_runs` returns them")
    refuse_other("options", options, LocalOptions, "Make them with LocalOptions(...)")
    with needing_deploy():
        from fedfloor.deploy.local import run_local
    return run_local(planned, options, own=own, tell=on_event)


@checked
def serve_devices(options: DeviceOptions) -> None:
    """Run one device, or several in this process, until they are stopped."""
    refuse_other("options", options, DeviceOptions, "Make them with DeviceOptions(...)")
    with needing_deploy():
        from fedfloor.deploy.commands import run_devices
    run_devices(options)
