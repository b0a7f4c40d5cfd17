"""Samples of a run: which device holds which, which form a batch, and which are drawn for the test set."""

__all__ = ["Samples", "batch_of", "drawn_for_test"]

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Floats, Ints, Labels
from fedfloor.streams import Stream, run_stream


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Data of a run, and the samples that each device holds."""

    images: npt.NDArray[np.generic]  #: (D, ...) uint8 or float32
    labels: Labels  #: (D,)
    first: Ints  #: (N+1,) device n holds `held[first[n]:first[n+1]]`
    held: Ints  #: (sum D_n,) sample numbers
    test_images: npt.NDArray[np.generic]  #: (D', ...)
    test_labels: Labels  #: (D',)
    mean: Floats  #: (C,) per channel
    deviation: Floats  #: (C,) per channel

    def of_device(self, n: int) -> Ints:
        """Sample numbers of device n."""
        return self.held[self.first[n] : self.first[n + 1]]


def batch_of(numbers: Ints, size: int, seed: int, index: int, device: int, iteration: int) -> Ints:
    """Batch of a device in a round, drawn from its sample numbers without replacement, by a stream of its own."""
    rng = run_stream(seed, Stream.BATCH, index, device, iteration)
    return np.sort(rng.choice(numbers, size=min(size, numbers.size), replace=False))


def drawn_for_test(classes: Iterable[Ints], share: float, rng: np.random.Generator) -> Ints:
    """Members of the test set: a share of every class, drawn at random from its members.

    A class has two members or more: at least one is drawn, and at least one is left for training.
    """
    chosen: list[Ints] = [np.zeros(0, np.int64)]
    for members in classes:
        count = min(max(round(share * members.size), 1), members.size - 1)
        chosen.append(rng.permutation(members)[:count])
    return np.concatenate(chosen)
