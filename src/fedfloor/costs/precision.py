"""Bits of numbers that are sent: the model on the air, and the tensors that cross the cut of a device.

A tensor that is sent with fewer than 32 bits per number carries one float32, the scale of its numbers, beside them.
`training/network/quantised.py` makes messages of exactly these sizes.
"""

__all__ = [
    "COUNTER_BITS",
    "PICTURE_BITS",
    "TARGET_BITS",
    "download_bits",
    "scale_bits",
    "upload_bits",
]

from collections.abc import Sequence

from fedfloor.costs.layers import model_bits
from fedfloor.scenario.layers import BYTES_PER_NUMBER, LayerSpec

_FULL = 8 * BYTES_PER_NUMBER  #: [bit] a number as it is computed with; a scale is sent like that
COUNTER_BITS = _FULL  #: of a whole number that batch norm counts
PICTURE_BITS = 8  #: of a value of a picture
TARGET_BITS = 32  #: of a number to predict


def upload_bits(layers: Sequence[LayerSpec], bits: int) -> float:
    """Size of the update that a gateway sends [bit], gamma_up: gamma with 32 bits per number.

    With fewer, each tensor has a scale. The running statistics of batch norm then count, because they are sent, and so
    do its counters, which stay exact; gamma, like the paper's, has only parameters.
    """
    return model_bits(layers) if bits == _FULL else _tensor_bits(layers, bits, scale=_FULL)


def download_bits(layers: Sequence[LayerSpec], bits: int) -> float:
    """Size of the weights that a gateway receives [bit], gamma_down: gamma with 32 bits per number.

    With fewer, every number of every tensor is cast, which needs no scale; see `upload_bits` for what counts.
    """
    return model_bits(layers) if bits == _FULL else _tensor_bits(layers, bits, scale=0)


def scale_bits(bits: int) -> int:
    """Bits of a tensor's scale; 0 at full precision."""
    return 0 if bits == _FULL else _FULL


def _tensor_bits(layers: Sequence[LayerSpec], bits: int, *, scale: int) -> float:
    """Bits of all tensors, with a scale each, and of all counters."""
    return float(
        sum(bits * size + scale for layer in layers for size in layer.tensors)
        + COUNTER_BITS * sum(layer.counters for layer in layers)
    )
