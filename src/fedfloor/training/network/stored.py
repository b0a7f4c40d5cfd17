"""Named tensors as safetensors, the one format in which weights are kept and exported."""

__all__ = ["packed", "read_tensors"]

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

Tensors = Mapping[str, npt.NDArray[np.generic]]


def packed(tensors: Tensors, facts: Mapping[str, str] | None = None) -> bytes:
    """The content of a file that holds tensors and, if given, facts about them."""
    return save(dict(tensors), None if facts is None else dict(facts))


def read_tensors(path: Path) -> dict[str, npt.NDArray[np.generic]]:
    """The tensors of a file; a ValueError says why they cannot be read, a missing file stays a FileNotFoundError."""
    try:
        return dict(load_file(path))
    except SafetensorError as error:
        raise ValueError(str(error)) from None
