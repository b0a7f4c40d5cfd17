"""Programs that run until they are told to stop: by Ctrl-C, or by SIGTERM as a service manager sends it."""

__all__ = ["refuse_open_address", "run_until_stopped"]

import asyncio
import contextlib
import ipaddress
import logging
import signal
from collections.abc import Coroutine
from typing import Any

from fedfloor.errors import DeploymentError, shown

_LOG = logging.getLogger(__name__)


def run_until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine; SIGTERM cancels it and counts as a normal end, Ctrl-C raises KeyboardInterrupt."""
    terminated = False

    async def main() -> None:
        task = asyncio.ensure_future(work)

        def terminate() -> None:
            nonlocal terminated
            terminated = True
            task.cancel()

        with contextlib.suppress(NotImplementedError):  # Windows
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
        try:
            await task
        except asyncio.CancelledError:
            if not terminated:
                raise  # asyncio.run turns it into a KeyboardInterrupt
            _LOG.warning("interrupted")

    asyncio.run(main())


def refuse_open_address(option: str, address: str, *, has_tls: bool) -> None:
    """Refuse an address that is not HOST:PORT, and one that other machines reach without certificates."""
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 2**16):
        raise DeploymentError(f"{option}: must be HOST:PORT, got {shown(address)}. Write it as in 10.0.0.1:7443")
    if has_tls or host == "localhost":
        return
    try:
        is_local = ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        is_local = False
    if not is_local:
        problem = f"needs certificates, because other machines reach {shown(address)}"
        raise DeploymentError(f"{option}: {problem}. Give --certs, or use 127.0.0.1")
