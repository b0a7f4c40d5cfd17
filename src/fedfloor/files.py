"""Files that are either whole or as they were, folders that one process at a time writes, and what JSON can hold."""

__all__ = [
    "ELSEWHERE",
    "failed_write",
    "finite",
    "make_private",
    "only_writer",
    "put_in_place",
    "read_if_there",
    "refused_write",
    "replacing",
    "write_whole",
]

import errno
import math
import os
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from fedfloor.errors import FailedRunError, FedfloorError, RunLogError

#: advice for a folder that cannot be used
ELSEWHERE = "Name another folder"


def read_if_there(path: Path) -> bytes | None:
    """The content of a file; None if there is no such file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def write_whole(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Put a file on the disk in one step: whenever the machine stops, the old or the new one is there.

    `mode` says who may use it, as far as this process allows it at all: 0o600 is for this user only.
    """
    with replacing(path, mode=mode) as part:
        part.write_bytes(content)


@contextmanager
def replacing(path: Path, *, mode: int = 0o666) -> Iterator[Path]:
    """A new, empty file beside `path` to be filled; it takes the place of `path` if the block ends well.

    If the block fails, the new file is removed and `path` stays as it was.
    """
    part = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex}.part")
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))  # never through a link that lies in wait
    try:
        yield part
        put_in_place(part, path)
    finally:
        part.unlink(missing_ok=True)


def put_in_place(part: Path, path: Path) -> None:
    """Move a complete file to its name; an old one stays until then."""
    _sync(part)
    part.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if sys.platform == "win32" and path.is_dir():  # where a folder cannot be opened
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_private(folder: Path) -> None:
    """Make a folder that only this user may read, unless it is there already; the folders above it are ordinary."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def refused_write(path: Path, error: OSError, *, again: str, advice: str) -> FailedRunError | RunLogError:
    """The error of a file that the user chose: a full disk wants room, any other trouble what `advice` says."""
    if _is_full(error):
        return failed_write(path, error, again=again)
    return RunLogError(f"{path}: cannot be written: {error.strerror}. {advice}")


def failed_write(path: Path, error: OSError, *, again: str) -> FailedRunError:
    """The error of a file that a run could write so far."""
    first = "Make room" if _is_full(error) else "Make sure that the folder exists and can be written to"
    return FailedRunError(f"{path}: cannot be written: {error.strerror}. {first}, then {again}")


def _is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def only_writer(
    folder: Path, *, again: str, elsewhere: str = ELSEWHERE, kind: type[FedfloorError] = RunLogError
) -> Iterator[None]:
    """Make a folder if there is none, and keep other processes from writing to it until the block ends.

    A folder that is empty then is removed. There is no such lock on Windows, nor on file systems without locks. If
    another process has the lock, an error of this `kind` says so.
    """
    try:
        make_private(folder)
        handle = _locked(folder)
    except BlockingIOError:
        advice = f"Wait for it, or {elsewhere[0].lower()}{elsewhere[1:]}"
        raise kind(f"{folder}: another process is writing to it. {advice}") from None
    except OSError as error:
        raise refused_write(folder, error, again=again, advice=elsewhere) from None
    try:
        yield
    finally:
        with suppress(OSError):  # what was put there stays
            folder.rmdir()
        if handle is not None:
            os.close(handle)


def _locked(folder: Path) -> int | None:
    """A handle that holds the lock of a folder until it is closed, or this process ends; None without locks.

    Raises a BlockingIOError if another process has the lock.
    """
    if sys.platform == "win32":
        return None
    import fcntl  # noqa: PLC0415  # not everywhere

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        taken = not os.path.samestat(os.fstat(handle), folder.stat())  # its last writer has removed it
    except (BlockingIOError, FileNotFoundError):
        taken = True
    except OSError:  # a file system without locks
        taken = False
    if taken:
        os.close(handle)
        raise BlockingIOError
    return handle


def finite(value: object) -> object:
    """The same with None for numbers that JSON does not know."""
    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
