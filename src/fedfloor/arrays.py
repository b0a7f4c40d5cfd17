"""Array types for signatures, and dataclasses whose arrays nobody can change.

The shape and the unit of an array stand beside its name.
"""

__all__ = ["Bools", "Floats", "Ints", "Labels", "Vector", "read_only"]

from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Labels = npt.NDArray[np.int64] | npt.NDArray[np.float32]  #: numbers of classes, or numbers to predict
Vector = npt.NDArray[np.float32]  #: (P,) the weights of a network, or (k, P) of k networks


def read_only(instance: Any) -> None:
    """Close the arrays of a frozen dataclass for writing, so that a policy cannot change what it reads."""
    for name in _names(instance.__class__):
        value = getattr(instance, name)
        if isinstance(value, np.ndarray):
            value.setflags(write=False)


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(entry.name for entry in fields(kind))
