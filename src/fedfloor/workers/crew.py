"""Crews: functions that run in other processes, several at a time, and send messages while they run."""

__all__ = ["Crew", "LostError", "News", "Processes", "sends_main", "serve"]

import contextlib
import pickle
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from fedfloor.errors import FailedRunError, FedfloorError
from fedfloor.workers.processes import (
    end_process,
    end_with,
    ending_of,
    packed_failure,
    start_process,
    unpacked_failure,
)


class LostError(FailedRunError):
    """A process that ended without a result; its work can be repeated."""


@dataclass(frozen=True, slots=True)
class News:
    """A message of a piece of work, or its end."""

    number: int  #: of the piece of work
    message: Any = None
    ended: bool = False
    error: BaseException | None = None  #: why the work failed; None if it did not


class Crew(Protocol):
    """Runs functions elsewhere; each is called with `tell`, which sends a message, and with its arguments."""

    @property
    def size(self) -> int:
        """Number of pieces of work that run at a time."""

    def start(self, number: int, function: Callable[..., None], *arguments: Any) -> None:
        """Start a piece of work; `function(tell, *arguments)` must be importable where it runs."""

    def news(self) -> list[News]:
        """Wait until there is news, and return it; news of one piece of work stays in order."""

    def close(self) -> None:
        """End all work that still runs."""


def sends_main() -> bool:
    """Whether objects of classes can be sent that the program itself defines, a notebook for example."""
    return find_spec("cloudpickle") is not None


def _packed(work: object) -> bytes:
    """Pickle something; what the program itself defines is packed with its code, if that is possible."""
    if not sends_main():
        return pickle.dumps(work)
    import cloudpickle  # noqa: PLC0415  # an extra

    packed: bytes = cloudpickle.dumps(work)
    return packed


class Processes:
    """Crew of local processes, one for every piece of work; they end as soon as this process does."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._running: dict[int, tuple[Connection, subprocess.Popen[bytes], str]] = {}

    @property
    def size(self) -> int:
        """See `Crew`."""
        return self._size

    def start(self, number: int, function: Callable[..., None], *arguments: Any) -> None:
        """See `Crew`."""
        try:
            work = _packed((function, arguments))
        except Exception as error:  # users' objects may raise anything
            problem = f"policy, model and data must be importable in another process: {error}"
            raise FedfloorError(f"{problem}. Define them in a module that can be imported") from None
        connection, other_end = Pipe()
        scratch = tempfile.mkdtemp(prefix="fedfloor-")
        with other_end:
            code = f"from fedfloor.workers.crew import serve; serve({other_end.fileno()}, {scratch!r})"
            process = start_process(["-c", code], [other_end.fileno()], {"TMPDIR": scratch})
        self._running[number] = connection, process, scratch
        with contextlib.suppress(BrokenPipeError):  # `news` reports a process that has ended
            connection.send_bytes(work)

    def news(self) -> list[News]:
        """See `Crew`."""
        items = []
        ready = wait([connection for connection, _, _ in self._running.values()])
        for number, (connection, process, scratch) in list(self._running.items()):
            if connection not in ready:
                continue
            try:
                message, ended, failure = connection.recv()
            except (EOFError, OSError, pickle.UnpicklingError):
                item = News(number, ended=True, error=LostError(f"its process {ending_of(process)}"))
            else:
                error = None if failure is None else unpacked_failure(failure)
                item = News(number, message, ended, error)
            if item.ended:
                connection.close()
                process.wait()
                shutil.rmtree(scratch, ignore_errors=True)
                del self._running[number]
            items.append(item)
        return items

    def close(self) -> None:
        """See `Crew`."""
        for connection, _, _ in self._running.values():
            connection.close()
        for _, process, scratch in self._running.values():
            end_process(process)
            shutil.rmtree(scratch, ignore_errors=True)
        self._running.clear()


def serve(descriptor: int, scratch: str) -> None:
    """Do the piece of work that arrives through a connection; if the other side ends first, remove `scratch`."""
    connection = Connection(descriptor)
    leave = partial(shutil.rmtree, scratch, ignore_errors=True)  # the other side may not be there to do it
    end_with(connection, leave)
    try:
        work = connection.recv_bytes()
        failure = None
        try:
            function, arguments = pickle.loads(work)  # noqa: S301  # from a process of our own
            function(lambda message: connection.send((message, False, None)), *arguments)
        except Exception as error:  # the other side decides what to do
            failure = packed_failure(error)
        connection.send((None, True, failure))
    except (EOFError, OSError):  # the other side has ended
        leave()
