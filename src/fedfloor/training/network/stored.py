"""Named tensors in safetensors files, the only format in which weights are stored and exported."""

__all__ = ["packed", "unpacked"]

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

Tensors = Mapping[str, npt.NDArray[np.generic]]


def packed(tensors: Tensors, facts: Mapping[str, str] | None = None) -> bytes:
    """Content of a file with tensors and, optionally, facts about them."""
    return save(dict(tensors), None if facts is None else dict(facts))


def unpacked(content: bytes) -> dict[str, npt.NDArray[np.generic]]:
    """The tensors of a file's content; raises a ValueError if it is damaged."""
    try:
        return dict(load(content))
    except SafetensorError as error:
        raise ValueError(str(error)) from None
