"""Programs that run until they are told to stop: by Ctrl-C, or by SIGTERM as a service manager sends it."""

__all__ = ["refuse_open_address", "run_until_stopped"]

import asyncio
import contextlib
import ipaddress
import logging
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

from fedfloor.errors import DeploymentError, shown

_LOG = logging.getLogger(__name__)


def run_until_stopped(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine; SIGTERM cancels it and counts as a normal end, Ctrl-C cancels it and raises KeyboardInterrupt.

    A signal raises nothing until the event loop has ended: a task that it ended in the middle of a step would leave the
    others alone, and both would be logged as mistakes. Further signals do not disturb the closing.
    """
    with _noted_signals() as noted:

        async def main() -> None:
            task, loop = asyncio.ensure_future(work()), asyncio.get_running_loop()
            noted.on_first.append(lambda: loop.call_soon_threadsafe(task.cancel))
            if noted.arrived and noted.on_first:  # before there was a task, or it would have been called
                noted.on_first.clear()
                task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                if not noted.arrived:
                    raise
            finally:
                noted.on_first.clear()  # the loop is about to close

        asyncio.run(main())
    if signal.SIGINT in noted.arrived[:1]:
        raise KeyboardInterrupt
    if noted.arrived:
        _LOG.warning("interrupted")


@dataclass(frozen=True, slots=True)
class _Noted:
    heard: tuple[int, ...]  #: signals that are noted
    arrived: list[int] = field(default_factory=list)
    on_first: list[Callable[[], object]] = field(default_factory=list)  #: called when the first signal arrives

    def note(self, number: int, _: object) -> None:
        """Handle a signal."""
        self.arrived.append(number)
        while self.on_first:
            self.on_first.pop()()


@contextlib.contextmanager
def _noted_signals() -> Iterator[_Noted]:
    """Only note the signals that arrive in the block; a thread other than the main one hears of none."""
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    noted = _Noted(tuple(number for number, handler in before.items() if handler is not signal.SIG_IGN))
    for number in noted.heard:
        signal.signal(number, noted.note)
    try:
        yield noted
    finally:
        for number in noted.heard:
            signal.signal(number, before[number])


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
