"""Drawing floors with given probabilities, for policies that do not choose them."""

__all__ = ["sampled", "within_channels"]

import numpy as np

from fedfloor.arrays import Floats, Ints


def within_channels(chance: Floats, channels: int) -> Floats:
    """Probabilities of the floors (M,), scaled down to the number of channels if they add up to more."""
    return np.asarray(chance * min(1.0, channels / max(float(chance.sum()), 1e-300)))


def sampled(chance: Floats, channels: int, rng: np.random.Generator) -> Ints:
    """Floors drawn with probabilities (M,) that `within_channels` returns, in their order: systematic sampling.

    One draw decides for all, so that their number hardly varies. It never exceeds the channels.
    """
    order = rng.permutation(chance.size)
    steps = np.floor(np.cumsum(chance[order]) + rng.random())
    return np.sort(order[np.diff(steps, prepend=0.0) > 0][:channels])
