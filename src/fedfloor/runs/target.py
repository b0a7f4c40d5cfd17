"""The file that a user names for an export, and what it must not be."""

__all__ = ["refuse_target"]

import os
import stat
from pathlib import Path

from fedfloor.errors import RunLogError
from fedfloor.rounds.listeners.checkpoint import CHECKPOINT, STATE
from fedfloor.runs.folder import own_files


def refuse_target(path: Path, run: Path | None, *, example: str) -> Path:
    """Refuse a path that is not a plain file, or that belongs to the run itself; returns it with links followed."""
    target, folder = Path(os.path.realpath(path)), None if run is None else Path(os.path.realpath(run))
    own = [] if folder is None else [file for file in own_files(folder) if file.exists()]
    try:
        status = target.stat() if target.parent.is_dir() else None
        if status is None:
            raise RunLogError(f"{path}: there is no folder {target.parent}. Make it, or name another file")
        same = any(os.path.samestat(status, file.stat()) for file in own)
    except FileNotFoundError:
        status, same = None, False
    except OSError as error:
        raise RunLogError(f"{path}: cannot be written: {error.strerror}. Name another place") from None
    if same or (target.parent.name == CHECKPOINT and (target.parent / STATE).exists()):
        raise RunLogError(f"{path}: belongs to a run, which needs it to resume. Name another file")
    if status is not None and stat.S_ISDIR(status.st_mode):
        raise RunLogError(f"{path}: is a folder. Name a file in it, such as {path / example}")
    if status is not None and not stat.S_ISREG(status.st_mode):
        raise RunLogError(f"{path}: is a pipe or a device, not a plain file. Name another file")
    if status is not None and not os.access(target, os.W_OK):
        raise RunLogError(f"{path}: is write-protected. Name another file")
    return target
