"""What samples and labels must be that a user's function or file gives, in a simulation and on a device."""

__all__ = ["checked_pair"]

from typing import Any

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Labels
from fedfloor.errors import DataError
from fedfloor.scenario.model import Model


def checked_pair(
    samples: object, labels: object, *, label: str, model: Model, predicts_numbers: bool
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
    checked = inputs if inputs.dtype == np.uint8 else _in_float32(inputs, label, "samples", "uint8 or float32")
    if predicts_numbers:
        return checked, _in_float32(targets, label, "labels", "float32")
    return checked, _checked_classes(targets, label, model.classes)


def _checked_classes(labels: npt.NDArray[Any], label: str, classes: int) -> npt.NDArray[np.int64]:
    problem = f"{label}: labels must be integers from 0 to {classes - 1}"
    if labels.dtype.kind not in "iu":
        raise DataError(f"{problem}, got {labels.dtype}. Convert them, for example with labels.astype(int)")
    if labels.size and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise DataError(f"{problem}, got {labels.min()}..{labels.max()}. Correct them, or raise model.classes")
    return labels.astype(np.int64)


def _in_float32(values: npt.NDArray[Any], label: str, what: str, kinds: str) -> npt.NDArray[np.float32]:
    """Numbers as float32; one that is not finite, or too large for float32, is refused."""
    if values.dtype.kind not in "buif":
        raise DataError(f"{label}: {what} must be numbers, got {values.dtype}. Convert them to {kinds}")
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = values.astype(np.float32)
    wrong = np.argwhere(~np.isfinite(numbers))
    if wrong.size:
        value = values[tuple(wrong[0])]
        must = f"fit float32 (up to {np.finfo(np.float32).max:.2g})" if np.isfinite(value) else "be finite"
        problem = f"{what} must {must}, got {value} at sample {wrong[0][0]}"
        raise DataError(f"{label}: {problem}. Remove or replace it")
    return numbers
