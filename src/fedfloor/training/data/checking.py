"""What samples and labels must be that a user's function or file gives, in a simulation and on a device."""

__all__ = ["checked_pair"]

from typing import Any

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Labels
from fedfloor.errors import DataError
from fedfloor.scenario.model import Model


def checked_pair(
    samples: object, labels: object, *, label: str, model: Model, predicts: bool
) -> tuple[npt.NDArray[np.generic], Labels]:
    """Samples as uint8 or float32, and labels as int64, or as float32 if numbers are predicted.

    Raises a DataError, which begins with `label`, if they do not fit the model.
    """
    try:
        inputs, targets = np.asarray(samples), np.asarray(labels)
    except (TypeError, ValueError) as error:
        raise DataError(f"{label}: samples and labels must be arrays: {error!s:.200}") from None
    if inputs.shape[1:] != model.input or targets.shape != inputs.shape[:1]:
        problem = f"samples must be (n, {', '.join(map(str, model.input))}) and labels (n,)"
        raise DataError(f"{label}: {problem}, got {inputs.shape} and {targets.shape}")
    checked = _checked_samples(inputs, label)
    return checked, _checked_numbers(targets, label) if predicts else _checked_classes(targets, label, model.classes)


def _checked_samples(samples: npt.NDArray[Any], label: str) -> npt.NDArray[np.generic]:
    if samples.dtype == np.uint8:
        return samples
    if samples.dtype.kind not in "buif":
        raise DataError(f"{label}: samples must be numbers, got {samples.dtype}. Convert them to uint8 or float32")
    values = _in_float32(samples)
    infinite = np.argwhere(~np.isfinite(values))
    if infinite.size:
        problem = f"samples must be finite, got {values[tuple(infinite[0])]} at sample {infinite[0][0]}"
        raise DataError(f"{label}: {problem}. Remove or replace it")
    return values


def _checked_classes(labels: npt.NDArray[Any], label: str, classes: int) -> npt.NDArray[np.int64]:
    problem = f"{label}: labels must be integers from 0 to {classes - 1}"
    if labels.dtype.kind not in "iu":
        raise DataError(f"{problem}, got {labels.dtype}. Convert them, for example with labels.astype(int)")
    if labels.size and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise DataError(f"{problem}, got {labels.min()}..{labels.max()}. Correct them, or raise model.classes")
    return labels.astype(np.int64)


def _checked_numbers(labels: npt.NDArray[Any], label: str) -> npt.NDArray[np.float32]:
    if labels.dtype.kind not in "buif":
        raise DataError(f"{label}: labels must be numbers, got {labels.dtype}. Convert them to float32")
    values = _in_float32(labels)
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        problem = f"labels must be finite, got {labels[wrong[0]]} at sample {wrong[0]}"
        raise DataError(f"{label}: {problem}. Remove or replace it")
    return values


def _in_float32(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Numbers as float32; those that are too large for it become infinite, which is refused then."""
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float32)
