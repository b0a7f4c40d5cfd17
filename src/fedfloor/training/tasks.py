"""Tasks of a training process: calls of `Work`'s methods, and the error that a failing model raises."""

__all__ = ["Task", "carry_out", "named_model"]

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedfloor.arrays import Vector
from fedfloor.errors import FailedRunError, FedfloorError, ModelError
from fedfloor.references import where_raised
from fedfloor.training.halves import MisfitError
from fedfloor.training.work import Work, is_short_of_memory

#: task -> what a model does in it, and what to do if that fails
_ACTIVITIES = {
    "train": ("a training step", "Fix the model; operations in place often break the backward pass"),
    "evaluate": ("a pass over test samples", "Fix the model"),
    "gradient": ("the gradient of a device's loss", "Fix the model; operations in place often break the backward pass"),
    "estimate": (
        "gradients of single samples (torch.func.vmap)",
        "Avoid operations that change tensors in place or read single values, or set participation.rates to 'uniform'",
    ),
}


@dataclass(frozen=True, slots=True)
class Task:
    """Call of one of `Work`'s methods."""

    name: str
    arguments: tuple[Any, ...]
    vectors: int  #: number of weight vectors that it fills
    effort: float = 1.0  #: relative to other tasks
    options: Mapping[str, Any] = field(default_factory=dict)  #: arguments by name


@contextlib.contextmanager
def named_model(name: str, task: str) -> Iterator[None]:
    """Raise a failure of a user's model in a task as a `ModelError` that names the model."""
    try:
        yield
    except (Exception, SystemExit) as error:
        known = isinstance(error, FedfloorError | FailedRunError | MisfitError) or is_short_of_memory(error)
        if ":" not in name or known:
            raise
        activity, advice = _ACTIVITIES[task]
        raise ModelError(f"model '{name}': {activity} failed: {where_raised(error)}. {advice}") from error


def carry_out(work: Work, task: Task, weights: Vector, out: Vector) -> Any:
    """Carry out one task and fill `out` (k, P); a failure in a user's model is raised as a `ModelError`."""
    method = getattr(work, task.name)
    with named_model(work.job.model.name, task.name):
        if task.vectors == 0:
            return method(*task.arguments, weights)
        return method(*task.arguments, weights, out if task.name == "train" else out[0], **task.options)
