"""Tasks of a training process, and the error that a failing model raises."""

__all__ = ["EstimateTask", "EvaluateTask", "GradientTask", "Task", "TrainTask", "carry_out", "named_model"]

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from fedfloor.arrays import Floats, Ints, Vector
from fedfloor.errors import FailedRunError, FedfloorError, ModelError
from fedfloor.references import where_raised
from fedfloor.training.halves import MisfitError
from fedfloor.training.work import Estimate, Work, is_short_of_memory

R = TypeVar("R")
Result_co = TypeVar("Result_co", covariant=True)

_BACKWARD = "Fix the model; operations in place often break the backward pass"


class Task(ABC, Generic[Result_co]):
    """Something to compute with the weights of a run; which process does it makes no difference."""

    __slots__ = ()
    activity: ClassVar[str]  #: what a model does in it
    advice: ClassVar[str]  #: what to do if that fails

    @property
    def vectors(self) -> int:
        """Number of weight vectors that it fills."""
        return 1

    @property
    def effort(self) -> float:
        """How much work it is, relative to other tasks."""
        return 1.0

    @abstractmethod
    def run(self, work: Work, weights: Vector, out: Vector) -> Result_co:
        """Compute the result at these weights (P,), and fill `out` (k, P)."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainTask(Task[Floats]):
    """Local training of devices in a round; see `Work.train`."""

    activity: ClassVar[str] = "a training step"
    advice: ClassVar[str] = _BACKWARD
    index: int  #: t
    devices: Ints  #: (k,)
    cuts: Ints  #: (k,)
    iterations: int | None = None  #: None: K
    effort: float = 1.0

    @property
    def vectors(self) -> int:
        """One for every device."""
        return self.devices.size

    def run(self, work: Work, weights: Vector, out: Vector) -> Floats:
        """See `Work.train`."""
        return work.train(self.index, self.devices, self.cuts, weights, out, iterations=self.iterations)


@dataclass(frozen=True, slots=True, eq=False)
class EvaluateTask(Task[tuple[Ints | None, float]]):
    """A pass over test samples; see `Work.evaluate`."""

    activity: ClassVar[str] = "a pass over test samples"
    advice: ClassVar[str] = "Fix the model"
    begin: int
    end: int

    @property
    def vectors(self) -> int:
        """Zero: an evaluation fills no vector."""
        return 0

    def run(self, work: Work, weights: Vector, out: Vector) -> tuple[Ints | None, float]:  # noqa: ARG002
        """See `Work.evaluate`."""
        return work.evaluate(self.begin, self.end, weights)


@dataclass(frozen=True, slots=True, eq=False)
class GradientTask(Task[float]):
    """Loss and gradient of a device; see `Work.gradient`."""

    activity: ClassVar[str] = "the gradient of a device's loss"
    advice: ClassVar[str] = _BACKWARD
    device: int  #: n
    limit: int | None  #: number of its samples; None: all

    def run(self, work: Work, weights: Vector, out: Vector) -> float:
        """See `Work.gradient`."""
        return work.gradient(self.device, self.limit, weights, out[0])


@dataclass(frozen=True, slots=True, eq=False)
class EstimateTask(Task[Estimate]):
    """Gradient statistics of a device; see `Work.estimate`."""

    activity: ClassVar[str] = "gradients of single samples (torch.func.vmap)"
    advice: ClassVar[str] = (
        "Avoid operations that change tensors in place or read single values, or set participation.rates to 'uniform'"
    )
    device: int  #: n
    limit: int  #: number of its samples

    def run(self, work: Work, weights: Vector, out: Vector) -> Estimate:
        """See `Work.estimate`."""
        return work.estimate(self.device, self.limit, weights, out[0])


@contextlib.contextmanager
def named_model(name: str, task: type[Task[object]]) -> Iterator[None]:
    """Raise a failure of a user's model in a task as a `ModelError` that names the model."""
    try:
        yield
    except (Exception, SystemExit) as error:
        known = isinstance(error, FedfloorError | FailedRunError | MisfitError) or is_short_of_memory(error)
        if ":" not in name or known:
            raise
        problem = f"{task.activity} failed: {where_raised(error)}"
        raise ModelError(f"model '{name}': {problem}. {task.advice}") from error


def carry_out(work: Work, task: Task[R], weights: Vector, out: Vector) -> R:
    """Carry out one task and fill `out` (k, P); a failure in a user's model is raised as a `ModelError`."""
    with named_model(work.job.model.name, type(task)):
        return task.run(work, weights, out)
