"""Array types for signatures; the shape and the unit of an array stand beside its name."""

__all__ = ["Bools", "Floats", "Ints", "Vector"]

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Vector = npt.NDArray[np.float32]  #: (P,) the weights of a network, or (k, P) of k networks
