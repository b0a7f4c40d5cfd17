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
    _refuse_too_much(3 * sum(tensor.nbytes for tensor in tensors.values()))  # it copies twice more
    return save(dict(tensors), None if facts is None else dict(facts))


def unpacked(content: bytes) -> dict[str, npt.NDArray[np.generic]]:
    """The tensors of a file's content; raises a ValueError if it is damaged."""
    _refuse_too_much(2 * len(content))
    try:
        return dict(load(content))
    except SafetensorError as error:
        raise ValueError(str(error)) from None


def _refuse_too_much(size: int) -> None:
    """Raise a MemoryError if there is no memory for `size` bytes; safetensors would end the whole process."""
    np.empty(size, np.uint8)
