"""Arrays that several processes see: a file in memory, which vanishes with the last of them."""

__all__ = ["Place", "attach", "shared"]

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_MEMORY = Path("/dev/shm")  # noqa: S108  # a file system in memory, where there is one


@dataclass(frozen=True, slots=True)
class Place:
    """Where an array lies, to be told to another process."""

    path: str
    shape: tuple[int, ...]
    kind: str  #: dtype


def shared(shape: tuple[int, ...], kind: npt.DTypeLike) -> tuple[Place, npt.NDArray[Any]]:
    """A new array and where others find it; unlink its file once they have."""
    size = max(1, int(np.prod(shape)) * np.dtype(kind).itemsize)
    folder = _MEMORY if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 2 * size else None
    with tempfile.NamedTemporaryFile(prefix="fedfloor-", dir=folder, delete=False) as file:
        file.truncate(size)
    place = Place(file.name, shape, np.dtype(kind).str)
    return place, attach(place)


def attach(place: Place) -> npt.NDArray[Any]:
    """The array at a place."""
    if 0 in place.shape:
        return np.zeros(place.shape, place.kind)
    return np.memmap(place.path, dtype=place.kind, mode="r+", shape=place.shape)
