"""Files that are either whole or as they were, and folders that one process at a time writes."""

__all__ = ["lock", "write_whole"]

import os
import sys
from pathlib import Path

from fedfloor.errors import RunLogError


def write_whole(path: Path, content: bytes) -> None:
    """Put a file on the disk in one step: whenever the machine stops, the old or the new one is there."""
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def lock(folder: Path) -> int | None:
    """Keep other processes from writing a folder until what is returned is closed, or this process ends."""
    if sys.platform == "win32":  # nobody is kept out
        return None
    import fcntl  # noqa: PLC0415  # not everywhere

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise RunLogError(
            f"{folder}: another process is writing it. Wait for it, or name another folder with --out"
        ) from None
    except OSError:  # a file system without locks
        pass
    return handle
