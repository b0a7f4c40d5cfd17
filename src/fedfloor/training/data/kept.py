"""Arrays that were slow to read from files, kept on the disk until one of the files changes."""

__all__ = ["cache_folder", "kept_arrays"]

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedfloor.files import make_private, replacing

Arrays = dict[str, npt.NDArray[Any]]

_WORTH = 1.0  #: [s] of reading from which on the arrays are kept
_STAMP = "stamp"
_VERSION = 3  #: of what is kept


def cache_folder() -> Path:
    """Folder of the arrays: `fedfloor` in the user's folder for caches. It can be removed at any time."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "fedfloor"


def kept_arrays(settings: Sequence[object], files: Sequence[Path], read: Callable[[], Arrays]) -> Arrays:
    """What `read` makes of the files with these settings, or what it made of the same files earlier.

    Files are the same if their names, sizes and times of change are.
    """
    key = _digest([_VERSION, *settings])
    states = [path.stat() for path in files]
    stamp = _digest([[str(path), state.st_size, state.st_mtime_ns] for path, state in zip(files, states, strict=True)])
    place = cache_folder() / f"{key}.npz"
    kept = _kept(place, stamp)
    if kept is not None:
        return kept
    begun = time.monotonic()
    arrays = read()
    if time.monotonic() - begun >= _WORTH:
        with contextlib.suppress(OSError):  # a full or read-only disk: the files are read again next time
            make_private(place.parent)
            with replacing(place, mode=0o600) as part, part.open("wb") as file:
                np.savez(file, allow_pickle=False, **{_STAMP: np.array(stamp)}, **arrays)
    return arrays


def _kept(place: Path, stamp: str) -> Arrays | None:
    """Arrays of a file with this stamp; None if there is none, or if it is damaged."""
    try:
        with place.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            if str(stored[_STAMP]) != stamp:
                return None
            return {name: stored[name] for name in stored.files if name != _STAMP}
    except Exception:  # zipfile, zlib and numpy raise errors of many kinds on damaged files
        return None


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
