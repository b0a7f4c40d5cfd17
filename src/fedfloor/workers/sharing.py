"""Arrays that processes share: files without a name, which vanish with the last process that has them open."""

__all__ = ["Place", "attach", "release", "shared"]

import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedfloor.errors import FailedRunError

_MEMORY = Path("/dev/shm")  # noqa: S108  # a file system in memory, if the machine has one


@dataclass(frozen=True, slots=True)
class Place:
    """Location of an array, for a process that inherits the descriptor."""

    descriptor: int
    shape: tuple[int, ...]
    kind: str  #: dtype


def shared(shape: tuple[int, ...], kind: npt.DTypeLike) -> tuple[Place, npt.NDArray[Any]]:
    """Create an array; returns its place, which is released once others have attached, and the array."""
    size = max(1, int(np.prod(shape)) * np.dtype(kind).itemsize)
    folder = str(_MEMORY) if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 2 * size else tempfile.gettempdir()
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)  # a lack of space shows here, not in the middle of a copy
            else:
                file.truncate(size)
        except OSError as error:
            problem = f"cannot reserve {size / 1e6:.0f} MB for the training processes: {error.strerror}"
            raise FailedRunError(f"{folder}: {problem}. Free some space, or train with one worker") from None
        place = Place(os.dup(file.fileno()), shape, np.dtype(kind).str)
    return place, attach(place)


def attach(place: Place) -> npt.NDArray[Any]:
    """Map the array at a place."""
    if 0 in place.shape:
        return np.zeros(place.shape, place.kind)
    with os.fdopen(os.dup(place.descriptor), "r+b") as file:
        return np.memmap(file, dtype=place.kind, mode="r+", shape=place.shape)


def release(places: Iterable[Place]) -> None:
    """Close the descriptors; arrays that are mapped stay mapped."""
    for place in places:
        os.close(place.descriptor)
