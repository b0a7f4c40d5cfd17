"""Files that are either whole or as they were, and folders that one process at a time writes."""

__all__ = ["ELSEWHERE", "failed_write", "lock", "make_private", "refused_write", "replacing", "write_whole"]

import errno
import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedfloor.errors import FailedRunError, RunLogError

#: advice for a folder that cannot be used
ELSEWHERE = "Name another folder with --out"


def write_whole(path: Path, content: bytes) -> None:
    """Put a file on the disk in one step: whenever the machine stops, the old or the new one is there."""
    with replacing(path) as part:
        part.write_bytes(content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new, empty file beside `path` to be filled; it takes the place of `path` if the block ends well.

    If the block fails, the new file is removed and `path` stays as it was.
    """
    part = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex}.part")
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))  # never through a link that lies in wait
    try:
        yield part
        _sync(part)
        part.replace(path)
        _sync(path.parent)
    finally:
        part.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if sys.platform == "win32" and path.is_dir():  # where a folder cannot be opened
        return
    handle = os.open(path, os.O_RDONLY)
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


def lock(folder: Path) -> int | None:
    """Keep other processes from writing a folder until the returned handle is closed, or this process ends."""
    if sys.platform == "win32":  # there is no such lock
        return None
    import fcntl  # noqa: PLC0415  # not everywhere

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        removed = not os.path.samestat(os.fstat(handle), folder.stat())  # by the process that had the lock before
    except (BlockingIOError, FileNotFoundError):
        removed = True
    except OSError:  # a file system without locks
        removed = False
    if removed:
        os.close(handle)
        raise RunLogError(f"{folder}: another process is writing to it. Wait for it, or {ELSEWHERE.lower()}")
    return handle
