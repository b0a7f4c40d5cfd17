"""What all child processes share: their environment, their end, and exceptions that cross between processes."""

__all__ = [
    "Failure",
    "cores",
    "end_process",
    "end_with",
    "ending_of",
    "environment",
    "packed_failure",
    "settings",
    "start_process",
    "unpacked_failure",
]

import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO

from fedfloor.errors import FailedRunError
from fedfloor.references import where_raised

#: one thread, which does not spin while it waits; memory that is kept for the next step instead of being returned
_QUIET = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
    "MALLOC_MMAP_THRESHOLD_": "33554432",
    "MALLOC_TRIM_THRESHOLD_": "268435456",
    "MALLOC_TOP_PAD_": "16777216",
}

_PATIENCE = 5.0  #: [s] that a process may take to end by itself


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def environment() -> dict[str, str]:
    """Environment of a child process, in which it finds the same modules as this process."""
    return {**os.environ, **settings()}


def settings() -> dict[str, str]:
    """Environment variables that every child process needs, on this machine or another.

    Folders are searched in the order of this process; the working folder is among them only if it is here.
    """
    return {**_QUIET, "PYTHONPATH": os.pathsep.join(part or str(Path.cwd()) for part in sys.path)}


def start_process(
    arguments: Iterable[str],
    descriptors: Iterable[int] = (),
    variables: Mapping[str, str] | None = None,
    *,
    within: Sequence[str] = (),
    stdout: IO[bytes] | int | None = None,
    stderr: IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Start this interpreter again; the process inherits some descriptors and gets some more variables.

    The command begins with the words of `within`, for example those that enter a namespace.
    What it prints, as policies and models of users may, goes to the standard error of this process, unless `stdout` or
    `stderr` say otherwise: standard output is for results.
    """
    return subprocess.Popen(  # noqa: S603  # our own module, in this interpreter
        [*within, sys.executable, "-P", *arguments],  # -P does not put the working folder first
        pass_fds=[*descriptors],
        start_new_session=True,  # Ctrl-C is for this process only
        env={**environment(), **(variables or {})},
        stdin=subprocess.DEVNULL,
        stdout=_standard_error() if stdout is None else stdout,
        stderr=stderr,
    )


def _standard_error() -> int:
    """The descriptor of standard error; that of nothing if it is closed."""
    try:
        os.fstat(2)
    except OSError:
        return subprocess.DEVNULL
    return 2


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process to end by itself, and kill it if it does not."""
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_with(connection: Connection, last: Callable[[], None] = lambda: None) -> None:
    """End this process, whatever it does then, when the other side of a connection closes it or is killed.

    `last` is called before the end.
    """

    def watch() -> None:
        end = select.poll()
        end.register(connection.fileno(), 0)  # report only the hang-up, not incoming messages
        end.poll()
        last()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def ending_of(process: subprocess.Popen[bytes]) -> str:
    """How a process ended whose connection is closed: by a signal, or with an exit code."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_PATIENCE)
    code = process.returncode
    if code is None:
        return "closed its connection"
    if code >= 0:
        return f"ended with code {code}"
    hint = ", perhaps because memory ran out" if -code == signal.SIGKILL else ""
    return f"was ended by {signal.Signals(-code).name}{hint}"


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception on its way to another process."""

    packed: bytes | None  #: the pickled exception; None if it cannot be pickled
    words: str  #: type, message and place


def packed_failure(error: BaseException) -> Failure:
    """Pack an exception for another process, whatever it holds."""
    words = where_raised(error)
    error.add_note(f"in another process: {words}")  # because its traceback is lost on the way
    try:
        return Failure(pickle.dumps(error), words)
    except Exception:  # the exception may hold any object
        return Failure(None, words)


def unpacked_failure(failure: Failure) -> BaseException:
    """Restore the exception; if that is impossible here, return a `FailedRunError` with its text."""
    if failure.packed is not None:
        with contextlib.suppress(Exception):  # unpickling calls the class of the exception, which may fail
            error: BaseException = pickle.loads(failure.packed)  # noqa: S301  # from a process of our own
            if failure.words.startswith(f"{type(error).__name__}: {error}"):  # some come back with another message
                return error
    advice = "Fix the cause, then resume from the last checkpoint"
    return FailedRunError(f"a process failed: {failure.words}. {advice}")
