"""Named tensors in safetensors files, the only format in which weights are stored and exported."""

__all__ = ["packed", "read_tensors"]

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

Tensors = Mapping[str, npt.NDArray[np.generic]]


def packed(tensors: Tensors, facts: Mapping[str, str] | None = None) -> bytes:
    """Content of a file with tensors and, optionally, facts about them."""
    return save(dict(tensors), None if facts is None else dict(facts))


def read_tensors(path: Path) -> dict[str, npt.NDArray[np.generic]]:
    """Read the tensors of a file; raises FileNotFoundError if it is missing, ValueError if it cannot be read."""
    try:
        return dict(load_file(path))
    except SafetensorError as error:
        raise ValueError(str(error)) from None
