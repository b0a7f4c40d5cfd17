"""Functions carried out by other processes, several at once, which tell what happens while they run."""

__all__ = [
    "Crew",
    "Failure",
    "LostError",
    "News",
    "Processes",
    "cores",
    "environment",
    "packed_failure",
    "serve",
    "settings",
    "unpacked_failure",
]

import contextlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

from fedfloor.errors import FailedRunError, FedfloorError
from fedfloor.references import where_raised

#: one thread that does not spin while it waits, and memory that is kept for the next step instead of given back
_QUIET = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
    "MALLOC_MMAP_THRESHOLD_": "33554432",
    "MALLOC_TRIM_THRESHOLD_": "268435456",
    "MALLOC_TOP_PAD_": "16777216",
}


class LostError(FailedRunError):
    """A process that ended without a word; its work can be done again."""


@dataclass(frozen=True, slots=True)
class News:
    """What one piece of work has to say."""

    number: int  #: of the work
    message: Any = None
    ended: bool = False
    error: BaseException | None = None  #: why it ended, if it did not end well


class Crew(Protocol):
    """Carries functions out, each called with `tell` and its arguments."""

    @property
    def size(self) -> int:
        """How many pieces of work are done at once."""

    def start(self, number: int, function: Callable[..., None], *arguments: Any) -> None:
        """Begin a piece of work; `function(tell, *arguments)` must be importable where it runs."""

    def news(self) -> list[News]:
        """Wait until there is some, in the order it happened for each piece of work."""

    def close(self) -> None:
        """End what still runs."""


class Processes:
    """A process of this machine for every piece of work; it ends at once when this one does."""

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
            work = pickle.dumps((function, arguments))
        except Exception as error:  # users' objects may refuse in any way
            advice = "Define it in a module that can be imported"
            raise FedfloorError(f"work cannot be sent to another process: {error}. {advice}") from None
        ours, theirs = Pipe()
        scratch = tempfile.mkdtemp(prefix="fedfloor-")
        with theirs:
            process = subprocess.Popen(  # noqa: S603  # our own module, in this interpreter
                [
                    sys.executable,
                    "-c",
                    f"from fedfloor.workers.crew import serve; serve({theirs.fileno()}, {scratch!r})",
                ],
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the process that started it
                env={**environment(), "TMPDIR": scratch},
                stdin=subprocess.DEVNULL,
            )
        self._running[number] = ours, process, scratch
        with contextlib.suppress(BrokenPipeError):  # its end is news
            ours.send_bytes(work)

    def news(self) -> list[News]:
        """See `Crew`."""
        heard = []
        ready = wait([connection for connection, _, _ in self._running.values()])
        for number, (connection, process, scratch) in list(self._running.items()):
            if connection not in ready:
                continue
            try:
                message, ended, failure = connection.recv()
            except (EOFError, OSError, pickle.UnpicklingError):
                found = News(number, ended=True, error=LostError(_how_it_ended(process)))
            else:
                error = None if failure is None else unpacked_failure(failure)
                found = News(number, message, ended, error)
            if found.ended:
                connection.close()
                process.wait()
                shutil.rmtree(scratch, ignore_errors=True)
                del self._running[number]
            heard.append(found)
        return heard

    def close(self) -> None:
        """See `Crew`."""
        for connection, _, _ in self._running.values():
            connection.close()
        for _, process, scratch in self._running.values():
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            shutil.rmtree(scratch, ignore_errors=True)
        self._running.clear()


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def environment() -> dict[str, str]:
    """Of a process of ours that finds the same modules as this one."""
    return {**os.environ, **settings()}


def settings() -> dict[str, str]:
    """What of the environment a process of ours needs, here or on another machine."""
    return {**_QUIET, "PYTHONPATH": os.pathsep.join(part or str(Path.cwd()) for part in sys.path)}


def _how_it_ended(process: subprocess.Popen[bytes]) -> str:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)
    code = process.returncode
    if code is not None and code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with code {code}"


def serve(descriptor: int, scratch: str) -> None:
    """Do the one piece of work that is asked for through a connection; `scratch` is removed if the other side ends."""
    connection = Connection(descriptor)
    received = connection.recv_bytes()
    threading.Thread(target=_leave_with, args=(connection, scratch), daemon=True).start()
    failure = None
    try:
        function, arguments = pickle.loads(received)  # noqa: S301  # from a process of our own
        function(lambda message: connection.send((message, False, None)), *arguments)
    except Exception as error:  # the other side decides what it means
        failure = packed_failure(error)
    connection.send((None, True, failure))


def _leave_with(connection: Connection, scratch: str) -> None:
    """Nobody ever says anything more: the connection ends when the other side does."""
    with contextlib.suppress(EOFError, OSError):
        connection.recv()
    shutil.rmtree(scratch, ignore_errors=True)  # there may be nobody else left to do it
    os._exit(1)


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception on its way to another process."""

    packed: bytes | None  #: pickled, if it can be
    words: str  #: type, message and place


def packed_failure(error: BaseException) -> Failure:
    """An exception as it can be sent, whatever it holds."""
    words = where_raised(error)
    error.add_note(f"in another process: {words}")  # its traceback stays behind
    try:
        return Failure(pickle.dumps(error), words)
    except Exception:  # it may hold anything
        return Failure(None, words)


def unpacked_failure(failure: Failure) -> BaseException:
    """The exception again, or one that tells of it if it cannot be made anew here."""
    if failure.packed is not None:
        with contextlib.suppress(Exception):  # its class decides how it is made
            error: BaseException = pickle.loads(failure.packed)  # noqa: S301  # from a process of our own
            if failure.words.startswith(f"{type(error).__name__}: {error}"):  # some come out with other words
                return error
    return FailedRunError(f"a process failed: {failure.words}")
