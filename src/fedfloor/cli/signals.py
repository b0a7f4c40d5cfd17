"""What ends a command early: Ctrl-C, or SIGTERM, which service managers and job schedulers send."""

__all__ = ["SERVICES", "sigterm_interrupts"]

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: programs that run as services: SIGTERM is how they are meant to end, with exit code 0
SERVICES = ("server", "gateway", "device", "local-plant")


@contextmanager
def sigterm_interrupts() -> Iterator[Callable[[], bool]]:
    """Treat SIGTERM like Ctrl-C inside the block; yields a function that says whether it has arrived."""
    terminated = False

    def interrupt(*_: object) -> None:
        nonlocal terminated
        terminated = True
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not interrupt the closing
        raise KeyboardInterrupt  # unlike SystemExit, nothing takes it for a mistake of a policy

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield lambda: terminated
    finally:
        signal.signal(signal.SIGTERM, before)
