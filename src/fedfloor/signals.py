"""What ends a command early: Ctrl-C, or SIGTERM, which service managers and job schedulers send."""

__all__ = ["ends_at_once", "exit_code", "sigterm_interrupts"]

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

#: programs that run as services: SIGTERM is how they are meant to end, with exit code 0
_SERVICES = ("server", "gateway", "device", "local-plant")
#: programs that have nothing to put in order until they serve, and hear signals themselves from then on
_SERVERS = ("gateway", "device")
_Handler = Callable[[int, FrameType | None], None]
_PAUSE_S = 0.02  #: until it is seen again whether an import or a validation has ended


class _Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM has arrived.

    If a plain KeyboardInterrupt passes through `exec`, as in the making of a dataclass, Python remembers it and ends as
    if by SIGINT, whatever the exit code.
    """


def exit_code(*, terminated: bool) -> int:
    """The exit code of this program after SIGTERM, or after Ctrl-C."""
    return 130 if not terminated else 0 if _command() in _SERVICES else 143


def _command() -> str:
    return sys.argv[1] if len(sys.argv) > 1 else ""


@contextmanager
def ends_at_once() -> Iterator[None]:
    """End this process at once if a signal arrives in the block, until something in it hears signals itself.

    Ctrl-C while modules are imported would otherwise leave a traceback. After the block, Python ends, and a signal ends
    it without a word.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # in the background it is ignored
        signal.signal(signal.SIGINT, _end_at_once)
    signal.signal(signal.SIGTERM, _end_at_once)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end_at_once(number: int, _: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(exit_code(terminated=number == signal.SIGTERM))


@contextmanager
def sigterm_interrupts() -> Iterator[Callable[[], bool]]:
    """Treat SIGTERM like Ctrl-C inside the block; yields a function that says whether it has arrived.

    Both raise a KeyboardInterrupt, but not within an import, and not while pydantic works: libraries print what is
    raised there, take it for a mistake, or lose it. It is raised when that has ended.
    """
    terminated = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal terminated
        if number == signal.SIGTERM:
            terminated = True
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not interrupt the closing
        if _must_wait(frame) and hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, _PAUSE_S)
            return
        raise _Interrupted  # unlike SystemExit, nothing takes it for a mistake of a policy

    handler: _Handler = _end_at_once if _command() in _SERVERS else interrupt
    handlers: dict[int, _Handler] = {signal.SIGTERM: handler, signal.SIGINT: handler}
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background
        del handlers[signal.SIGINT]
    if hasattr(signal, "SIGALRM"):
        handlers[signal.SIGALRM] = interrupt
    before = {number: signal.signal(number, each) for number, each in handlers.items()}
    try:
        yield lambda: terminated
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _must_wait(frame: FrameType | None) -> bool:
    """Whether a frame, or one that it was called from, imports a module or belongs to pydantic."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if frame.f_code.co_filename.startswith("<frozen importlib") or name.partition(".")[0] == "pydantic":
            return True
        frame = frame.f_back
    return False
