"""Files that are either whole or as they were, and folders that one process at a time writes."""

__all__ = ["ELSEWHERE", "failed_write", "lock", "refused_write", "replacing", "write_whole"]

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
    part.touch(exist_ok=False)
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def refused_write(path: Path, error: OSError, *, again: str, advice: str) -> FailedRunError | RunLogError:
    """The error of a file that the user chose: a full disk wants room, any other trouble what `advice` says."""
    if _is_full(error):
        return failed_write(path, error, again=again)
    return RunLogError(f"{path}: cannot be written: {error.strerror}. {advice}")


def failed_write(path: Path, error: OSError, *, again: str) -> FailedRunError:
    """The error of a file that a run could write so far."""
    first = "Make room" if _is_full(error) else "Mend the folder"
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
    except BlockingIOError:
        os.close(handle)
        problem = f"{folder}: another process is writing it"
        raise RunLogError(f"{problem}. Wait for it, or name another folder with --out") from None
    except OSError:  # a file system without locks
        pass
    return handle
