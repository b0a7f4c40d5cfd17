"""Ends of axes, and which of many entries an axis or a line shows."""

__all__ = ["greatest", "spread"]

from collections.abc import Iterable

import numpy as np

from fedfloor.arrays import Floats, Ints


def greatest(arrays: Iterable[Floats]) -> float:
    """Greatest finite value of arrays without negative values; 0 if there is none."""
    return max((float(values[np.isfinite(values)].max(initial=0.0)) for values in arrays), default=0.0)


def spread(count: int, limit: int) -> Ints:
    """At most `limit` of the indices 0..count-1, evenly spaced, with the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, limit)).round().astype(np.int64))
