"""What one process is asked to do: a call of one of `Work`'s methods, and what its failure means."""

__all__ = ["Task", "carry_out"]

from dataclasses import dataclass
from typing import Any

from fedfloor.arrays import Vector
from fedfloor.errors import FailedRunError, FedfloorError, ModelError
from fedfloor.references import where_raised
from fedfloor.training.work import Work, is_short_of_memory

#: task -> what a model does in it, and what to do when it fails
_TRIED = {
    "train": ("a training step", "Mend it; operations in place often break the way back"),
    "evaluate": ("a pass over test samples", "Mend it"),
    "gradient": ("the gradient of a device's loss", "Mend it; operations in place often break the way back"),
    "estimate": (
        "gradients of single samples (torch.func.vmap)",
        "Leave out what changes tensors in place or reads single values, or set participation.rates to 'uniform'",
    ),
}


@dataclass(frozen=True, slots=True)
class Task:
    """A call of one of `Work`'s methods."""

    name: str
    arguments: tuple[Any, ...]
    vectors: int  #: how many vectors of weights it fills; 0 for none
    effort: float = 1.0  #: beside the other tasks'


def carry_out(work: Work, task: Task, weights: Vector, out: Vector) -> Any:
    """One task on one process; `out` (k, P) is filled. What fails with a model of the user's is that model's doing."""
    method = getattr(work, task.name)
    try:
        if task.vectors == 0:
            return method(*task.arguments, weights)
        return method(*task.arguments, weights, out if task.name == "train" else out[0])
    except (Exception, SystemExit) as error:
        name = work.job.model.name
        if ":" not in name or isinstance(error, FedfloorError | FailedRunError) or is_short_of_memory(error):
            raise
        what, advice = _TRIED[task.name]
        raise ModelError(f"model '{name}': {what} failed: {where_raised(error)}. {advice}") from error
