"""Tasks of a training process: calls of `Work`'s methods, and the error that a failing model raises."""

__all__ = ["Task", "carry_out"]

from dataclasses import dataclass
from typing import Any

from fedfloor.arrays import Vector
from fedfloor.errors import FailedRunError, FedfloorError, ModelError
from fedfloor.references import where_raised
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


def carry_out(work: Work, task: Task, weights: Vector, out: Vector) -> Any:
    """Carry out one task and fill `out` (k, P); a failure in a user's model is raised as a `ModelError`."""
    method = getattr(work, task.name)
    try:
        if task.vectors == 0:
            return method(*task.arguments, weights)
        return method(*task.arguments, weights, out if task.name == "train" else out[0])
    except (Exception, SystemExit) as error:
        name = work.job.model.name
        if ":" not in name or isinstance(error, FedfloorError | FailedRunError) or is_short_of_memory(error):
            raise
        activity, advice = _ACTIVITIES[task.name]
        raise ModelError(f"model '{name}': {activity} failed: {where_raised(error)}. {advice}") from error
