"""The kinds of arrays that functions take and return; shapes and units stand beside each name."""

__all__ = ["Bools", "Floats", "Ints", "Vector"]

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Vector = npt.NDArray[np.float32]  #: (P,) a network's weights, or (k, P) of several
