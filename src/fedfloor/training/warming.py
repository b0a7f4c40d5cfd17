"""First steps of a machine that joins a plant: one step of its side at every cut, before any round counts on it.

The first step of a process is slow, because memory is mapped and libraries choose their kernels in it.
"""

__all__ = ["warm_up_bottoms", "warm_up_tops"]

import contextlib
import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Floats, Labels, Vector
from fedfloor.training.halves import Bottom, DeviceRound, Top
from fedfloor.training.network.built import BuiltNetwork, Inputs
from fedfloor.training.network.quantised import Quantised


def warm_up_bottoms(
    network: BuiltNetwork, inputs: Inputs, samples: npt.NDArray[np.generic], labels: Labels, *, boundary: int = 32
) -> Floats:
    """Train a batch (B, ...) below every cut once; returns the seconds of each step (L+1,), 0 for cut 0.

    The network keeps its weights.
    """
    seconds = np.zeros(network.depth + 1)
    with _kept(network) as weights:
        for cut in range(1, network.depth + 1):
            bottom = Bottom(network, _trial(cut, boundary), inputs, weights[: network.below(cut)])
            begin = time.perf_counter()
            if cut == network.depth:
                bottom.step(samples, labels)
            else:
                activations = bottom.forward(samples)
                assert activations is not None
                bottom.backward(activations)  # of the kind and shape of their gradient
            seconds[cut] = time.perf_counter() - begin
    return seconds


def warm_up_tops(network: BuiltNetwork, inputs: Inputs, batch: int, *, boundary: int = 32) -> Floats:
    """Train a batch of random numbers above every cut once; returns the seconds of each step (L+1,), 0 for cut L.

    The network keeps its weights.
    """
    rng, seconds = np.random.default_rng(0), np.zeros(network.depth + 1)
    labels = rng.integers(network.model.classes, size=batch)
    with _kept(network) as weights:
        for cut in range(network.depth):
            top = Top(network, _trial(cut, boundary), inputs, weights[network.below(cut) :])
            shape = (batch, *network.sent_shape(cut, boundary))
            numbers = rng.standard_normal(shape, np.float32)
            received = numbers if boundary == 32 else Quantised(np.float32(0.01), numbers.astype(f"int{boundary}"))
            begin = time.perf_counter()
            top.step(received, labels)
            seconds[cut] = time.perf_counter() - begin
    return seconds


def _trial(cut: int, boundary: int) -> DeviceRound:
    return DeviceRound(seed=0, index=0, device=0, cut=cut, learning_rate=0.0, boundary=boundary)


@contextlib.contextmanager
def _kept(network: BuiltNetwork) -> Iterator[Vector]:
    """Weights of a network, which it gets back at the end."""
    weights = np.empty(network.layout.size, np.float32)
    network.layout.save(weights)
    try:
        yield weights
    finally:
        network.layout.load(weights)
