"""How commands that run for long end if a service manager asks them to."""

__all__ = ["ended_by_sigterm"]

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from fedfloor.errors import StoppedRunError

_LOG = logging.getLogger(__name__)


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C inside the block, except that the program then ends with code 0."""
    terminated = False

    def interrupt(*_: object) -> None:
        nonlocal terminated
        terminated = True
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not interrupt the closing
        raise KeyboardInterrupt  # unlike SystemExit, nothing takes it for a mistake of a policy

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except (KeyboardInterrupt, StoppedRunError) as error:
        if not terminated:
            raise
        _LOG.warning("Ended by SIGTERM. %s", error)
        sys.exit(0)
    finally:
        signal.signal(signal.SIGTERM, before)
