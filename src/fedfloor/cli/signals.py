"""What ends a command early: Ctrl-C, or SIGTERM, which service managers and job schedulers send."""

__all__ = ["SERVICES", "sigterm_interrupts"]

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: programs that run as services: SIGTERM is how they are meant to end, with exit code 0
SERVICES = ("server", "gateway", "device", "local-plant")


class _Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM has arrived.

    If a plain KeyboardInterrupt passes through `exec`, as in the making of a dataclass, Python remembers it and ends as
    if by SIGINT, whatever the exit code.
    """


@contextmanager
def sigterm_interrupts() -> Iterator[Callable[[], bool]]:
    """Treat SIGTERM like Ctrl-C inside the block; yields a function that says whether it has arrived."""
    terminated = False

    def terminate(*_: object) -> None:
        nonlocal terminated
        terminated = True
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not interrupt the closing
        raise _Interrupted  # unlike SystemExit, nothing takes it for a mistake of a policy

    def interrupt(*_: object) -> None:
        raise _Interrupted

    before = signal.signal(signal.SIGTERM, terminate)
    hears_ctrl_c = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # in the background it is ignored
    if hears_ctrl_c:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield lambda: terminated
    finally:
        signal.signal(signal.SIGTERM, before)
        if hears_ctrl_c:
            signal.signal(signal.SIGINT, signal.default_int_handler)
