"""Tensors with fewer than 32 bits per number: stochastic rounding to whole steps, and messages made of them.

`costs/precision.py` counts the bits of these messages.
"""

__all__ = [
    "Quantised",
    "Rounded",
    "at_the_cut",
    "boundary_stream",
    "cast",
    "cast_size",
    "pack",
    "packed_size",
    "quantised",
    "rounded",
    "uncast",
    "unpack",
    "upload_stream",
]

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Vector
from fedfloor.streams import Stream, run_stream
from fedfloor.training.network.weights import Piece

#: bits per number -> its type in a message
_TYPES: dict[int, np.dtype[np.signedinteger]] = {16: np.dtype("<i2"), 8: np.dtype("i1")}
_SCALE = np.dtype("<f4")
_COUNTER: np.dtype[np.signedinteger] = np.dtype("<i4")
_HALF: np.dtype[np.floating] = np.dtype("<f2")


@dataclass(frozen=True, slots=True, eq=False)
class Quantised:
    """A tensor as it is sent."""

    scale: np.float32  #: length of a step; 0 if all numbers are 0
    steps: npt.NDArray[np.signedinteger]  #: whole numbers from -(2^(b-1) - 1) to 2^(b-1) - 1

    @property
    def values(self) -> Vector:
        """The tensor as it is received."""
        return self.steps.astype(np.float32) * self.scale


def boundary_stream(seed: int, index: int, device: int, iteration: int) -> np.random.Generator:
    """Random numbers that round what crosses a device's cut in an iteration, first up, then down."""
    return run_stream(seed, Stream.BOUNDARY, index, device, iteration)


def upload_stream(seed: int, index: int, floor: int) -> np.random.Generator:
    """Random numbers that round a floor's update in a round."""
    return run_stream(seed, Stream.UPLOAD, index, floor)


def quantised(values: Vector, bits: int, rng: np.random.Generator) -> Quantised:
    """Round a tensor to steps of max|x| / (2^(b-1) - 1): up or down at random, so that the mean is right.

    Raises an OverflowError for a tensor that is not finite.
    """
    largest, most = np.abs(values).max(initial=np.float32(0.0)), np.float32(2 ** (bits - 1) - 1)
    if not np.isfinite(largest):
        raise OverflowError("is not finite")
    scale = np.float32(largest / most)
    if scale * np.float64(most) < largest:
        scale = np.nextafter(scale, np.float32(np.inf))  # rounded up, so that no number has too many steps
    # float64, because a float32 that counts thousands of steps has few digits left for the part that is rounded
    steps = np.divide(values, scale if scale > 0.0 else 1.0, dtype=np.float64)
    steps += rng.random(values.shape, np.float32)
    return Quantised(scale, np.floor(steps, out=steps).astype(_TYPES[bits]))


def at_the_cut(values: Vector, bits: int, rng: np.random.Generator) -> Quantised:
    """Round what crosses a cut; a tensor that is not finite arrives as nan, which the loss or the weights show."""
    try:
        return quantised(values, bits, rng)
    except OverflowError:
        return Quantised(np.float32(np.nan), np.zeros(values.shape, _TYPES[bits]))


def pack(update: Vector, pieces: Sequence[Piece], bits: int, rng: np.random.Generator) -> bytes:
    """Serialise an update (P,), tensor by tensor: the scale, then the steps; counters stay exact."""
    parts: list[bytes] = []
    for piece in pieces:
        values = update[piece.place]
        if piece.counts:
            parts.append(np.rint(values).astype(_COUNTER).tobytes())
        else:
            sent = quantised(values, bits, rng)
            parts += [sent.scale.astype(_SCALE).tobytes(), sent.steps.tobytes()]
    return b"".join(parts)


def unpack(message: bytes, pieces: Sequence[Piece], bits: int) -> Vector:
    """Read a message as an update (P,)."""
    update = np.empty(pieces[-1].place.stop if pieces else 0, np.float32)
    at = 0
    for piece in pieces:
        size, kind, scale = piece.place.stop - piece.place.start, _COUNTER, np.float32(1.0)
        if not piece.counts:
            scale, kind = np.frombuffer(message, _SCALE, 1, at)[0], _TYPES[bits]
            at += _SCALE.itemsize
        update[piece.place] = Quantised(scale, np.frombuffer(message, kind, size, at)).values
        at += size * kind.itemsize
    return update


@dataclass(frozen=True, slots=True, eq=False)
class Rounded:
    """An update that is sent with fewer bits."""

    message: bytes  #: as it is sent
    received: Vector  #: (P,) as it is received
    error: Vector  #: (P,) what rounding took from it


def rounded(update: Vector, error: Vector, pieces: Sequence[Piece], bits: int, rng: np.random.Generator) -> Rounded:
    """Round an update (P,) plus the error left by earlier rounding (P,).

    Raises an OverflowError for a sum that is not finite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        whole = update + error
    message = pack(whole, pieces, bits, rng)
    received = unpack(message, pieces, bits)
    return Rounded(message, received, whole - received)


def packed_size(pieces: Sequence[Piece], bits: int) -> int:
    """Bytes of a message that `pack` makes."""
    tensors: list[int] = [piece.place.stop - piece.place.start for piece in pieces if not piece.counts]
    return sum(tensors) * bits // 8 + len(tensors) * _SCALE.itemsize + _counters(pieces) * _COUNTER.itemsize


def cast(weights: Vector, pieces: Sequence[Piece]) -> bytes:
    """Serialise weights (P,) with 16 bits per number; counters stay exact.

    Raises an OverflowError for a weight that is too large for it.
    """
    parts: list[bytes] = []
    for piece in pieces:
        values = weights[piece.place]
        with np.errstate(over="ignore"):
            sent = np.rint(values).astype(_COUNTER) if piece.counts else values.astype(_HALF)
        if not np.isfinite(sent).all():
            raise OverflowError(
                f"a weight of {values[~np.isfinite(sent)][0]:.3g} is too large for 16 bits (at most 65504)"
            )
        parts.append(sent.tobytes())
    return b"".join(parts)


def uncast(message: bytes, pieces: Sequence[Piece]) -> Vector:
    """Read a message that `cast` made as weights (P,)."""
    weights, at = np.empty(pieces[-1].place.stop if pieces else 0, np.float32), 0
    for piece in pieces:
        size, kind = piece.place.stop - piece.place.start, _COUNTER if piece.counts else _HALF
        weights[piece.place] = np.frombuffer(message, kind, size, at)
        at += size * kind.itemsize
    return weights


def cast_size(pieces: Sequence[Piece]) -> int:
    """Bytes of a message that `cast` makes."""
    numbers = (pieces[-1].place.stop if pieces else 0) - _counters(pieces)
    return numbers * _HALF.itemsize + _counters(pieces) * _COUNTER.itemsize


def _counters(pieces: Sequence[Piece]) -> int:
    return sum(piece.place.stop - piece.place.start for piece in pieces if piece.counts)
