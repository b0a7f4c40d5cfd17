"""How mistakes are shown in Flower's log."""

__all__ = ["logged_errors"]

from collections.abc import Iterator
from contextlib import contextmanager
from logging import ERROR

from flwr.supercore import log

from fedfloor.errors import FailedRunError, FedfloorError


@contextmanager
def logged_errors() -> Iterator[None]:
    """Log what is wrong in one line before it is raised, because Flower shows only tracebacks."""
    try:
        yield
    except (FedfloorError, FailedRunError) as error:
        log(ERROR, "fedfloor: error: %s", error)
        raise
