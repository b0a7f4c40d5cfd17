"""Weights of a network as one float32 vector, in which form they are sent, averaged and stored."""

__all__ = ["Layout", "Piece", "average", "distance", "initial_weights", "length", "mean_of", "step_along"]

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fedfloor.arrays import Floats, Vector
from fedfloor.streams import first_weights_seed


@dataclass(frozen=True, slots=True)
class Piece:
    """Place of one tensor in the vector."""

    place: slice
    counts: bool  #: whole numbers, as the batches that batch norm has seen


class Layout:
    """Order of a network's tensors in the vector; the statistics of batch norm count as weights."""

    def __init__(self, network: nn.Module) -> None:
        self._tensors = dict(network.state_dict())  # these share the network's memory
        ends = np.cumsum([0, *(tensor.numel() for tensor in self._tensors.values())]).tolist()
        self.size: int = ends[-1]
        self.pieces = tuple(
            Piece(slice(begin, end), not tensor.is_floating_point())
            for (begin, end), tensor in zip(pairwise(ends), self._tensors.values(), strict=True)
        )
        names = {name for name, parameter in network.named_parameters() if parameter.requires_grad}
        parts = [np.full(tensor.numel(), name in names) for name, tensor in self._tensors.items()]
        self.learnt = np.concatenate(parts) if parts else np.zeros(0, bool)  #: (P,) whether training changes a weight

    def load(self, vector: Vector) -> None:
        """Copy a vector (P,) into the network."""
        flat = torch.from_numpy(vector)
        at = 0
        with torch.no_grad():
            for tensor in self._tensors.values():
                tensor.copy_(_as_kind(flat[at : at + tensor.numel()], tensor).view(tensor.shape))
                at += tensor.numel()

    def save(self, vector: Vector) -> None:
        """Copy the weights of the network into a vector (P,)."""
        flat = torch.from_numpy(vector)
        at = 0
        for tensor in self._tensors.values():
            flat[at : at + tensor.numel()].view(tensor.shape).copy_(tensor.detach())
            at += tensor.numel()

    def named(self, vector: Vector) -> dict[str, npt.NDArray[np.generic]]:
        """Copy a vector (P,) into tensors, by their names in the network."""
        parts: dict[str, npt.NDArray[np.generic]] = {}
        at = 0
        for name, tensor in self._tensors.items():
            piece = torch.from_numpy(vector[at : at + tensor.numel()].copy())
            parts[name] = _as_kind(piece, tensor).view(tensor.shape).cpu().numpy()
            at += tensor.numel()
        return parts

    def vector(self, parts: Mapping[str, npt.NDArray[np.generic]]) -> Vector:
        """Join named tensors into one vector (P,); raises KeyError for a wrong name, ValueError for a wrong value."""
        if list(parts) != list(self._tensors) and set(parts) != set(self._tensors):
            names = sorted(set(self._tensors) ^ set(parts))
            raise KeyError(names[0])
        for name, tensor in self._tensors.items():
            if parts[name].shape != tuple(tensor.shape):
                raise ValueError(f"{name} must be {tuple(tensor.shape)}, got {parts[name].shape}")
        vectors = {name: np.asarray(parts[name], np.float32).ravel() for name in self._tensors}
        for name, values in vectors.items():
            finite = np.isfinite(values)
            if not finite.all():
                raise ValueError(f"{name} must be finite, got {values[~finite][0]}")
        return np.concatenate(list(vectors.values()))


def _as_kind(values: Tensor, like: Tensor) -> Tensor:
    """Values in the dtype of another tensor; counters, as in batch norm, are rounded to whole numbers."""
    return values if like.is_floating_point() else values.round().to(like.dtype)


def initial_weights(network: nn.Module, *, seed: int) -> None:
    """Kaiming-normal weights (fan-in, ReLU) and zero biases of convolutions and linear layers, from a seed."""
    generator = torch.Generator().manual_seed(first_weights_seed(seed))
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def average(models: Iterable[tuple[float, Vector]], size: int) -> Vector:
    """Mean of models, weighted by their numbers of points and summed in float64 in the order in which they come.

    Devices are averaged into the model of a floor with weights D~_n, then floors into the global model with weights
    D_m, the sums of D~_n over their devices.
    """
    total, weight, share = np.zeros(size), 0.0, np.empty(size)
    for points, model in models:
        total += np.multiply(model, points, out=share, dtype=np.float64)
        weight += points
    return (total / weight).astype(np.float32)


def distance(one: npt.NDArray[np.floating], other: npt.NDArray[np.floating]) -> float:
    """Euclidean distance of two vectors, computed in float64."""
    return length(one.astype(np.float64) - other)


def length(vector: npt.NDArray[np.floating]) -> float:
    """Euclidean length, by NumPy's sum, which no number of threads changes."""
    return math.sqrt(float(np.square(vector, dtype=np.float64).sum()))


def step_along(weights: Vector, gradient: npt.NDArray[np.floating], learning_rate: float) -> Vector:
    """The weights (P,) after one step of gradient descent."""
    return (weights - learning_rate * gradient).astype(np.float32)


def mean_of(counts: Sequence[float], gradients: Iterable[Vector], size: int) -> Floats:
    """Mean of gradients (P,), weighted by the numbers of their samples, summed in float64 in the order they come."""
    total, mean = sum(counts), np.zeros(size)
    for count, gradient in zip(counts, gradients, strict=True):
        mean += count / total * gradient.astype(np.float64)
    return mean
