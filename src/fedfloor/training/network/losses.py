"""The loss of a batch: cross-entropy of classes, or the squared error of numbers that are predicted."""

__all__ = ["loss_of"]

from typing import Literal

from torch import Tensor
from torch.nn import functional


def loss_of(outputs: Tensor, y: Tensor, reduction: Literal["mean", "sum", "none"] = "mean") -> Tensor:
    """Loss of a network's outputs (B, classes) for labels (B,): whole numbers are classes, others are predicted.

    The squared error has no factor 1/2, so that its mean is the square of the root mean square error.
    """
    if y.is_floating_point():
        return functional.mse_loss(outputs.squeeze(1), y, reduction=reduction)
    return functional.cross_entropy(outputs, y, reduction=reduction)
