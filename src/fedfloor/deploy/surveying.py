"""A device's part in an estimate of participation rates: gradients of its data at the weights that it is sent."""

__all__ = ["Surveyor", "checked_names", "mean_survey", "work_of"]

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Labels, Vector
from fedfloor.deploy.crossing import schedule_of
from fedfloor.deploy.fields import LinkError
from fedfloor.deploy.messages import Compared, Distance, Slope, Surveyed
from fedfloor.deploy.tasks import DeviceTask
from fedfloor.errors import DeploymentError, shown
from fedfloor.training.comparing import compare
from fedfloor.training.data.samples import Samples
from fedfloor.training.network.built import BuiltNetwork, Inputs
from fedfloor.training.network.weights import mean_of
from fedfloor.training.tasks import EstimateTask, GradientTask, Task, named_model
from fedfloor.training.work import Job, Work, is_short_of_memory


@dataclass(slots=True, eq=False)
class Surveyor:
    """Computes with the whole network on a device's data; it keeps the gradient until it is compared."""

    task: DeviceTask
    work: Work  #: of the device, perhaps with others of its floor
    _last: tuple[int, Vector, Vector] | None = field(init=False, default=None)  #: limit, weights, gradient

    def survey(self, weights: Vector, limit: int) -> Surveyed:
        """Statistics and mean of the gradients of at most `limit` samples at these weights (P,)."""
        gradient = np.empty_like(weights)
        with self._named(EstimateTask):
            found = self.work.estimate(self.task.number, limit, weights, gradient)
        self._refuse_infinite(found.sigma, found.norm, found.smoothness)
        self._last = limit, weights, gradient
        count = self.work.samples.of_device(self.task.number).size
        slope = Slope(self.task.name, count, found.sigma, found.norm, found.smoothness)
        return Surveyed((slope,), gradient)

    def compare(self, mean: Vector) -> Compared:
        """The last gradient beside the mean gradient (P,) of all devices."""
        if self._last is None:
            raise DeploymentError("there is no gradient to compare with the mean")
        (limit, weights, gradient), self._last = self._last, None
        with self._named(GradientTask):
            found = compare(self.work, self.task.number, limit, weights, gradient, mean.astype(np.float64))
        self._refuse_infinite(found.delta, found.smoothness)
        return Compared((Distance(self.task.name, found.delta, found.smoothness),))

    @contextlib.contextmanager
    def _named(self, task: type[Task[object]]) -> Iterator[None]:
        """Raise what goes wrong in the network as an error with a sentence for people."""
        try:
            with named_model(self.task.model.name, task):
                yield
        except (MemoryError, RuntimeError) as error:
            if not is_short_of_memory(error):
                raise
            problem = "memory ran out while gradients were computed"
            raise DeploymentError(f"{problem}. Lower participation.estimate_samples") from None

    def _refuse_infinite(self, *numbers: float) -> None:
        if not np.isfinite(numbers).all():
            raise DeploymentError("the gradients of its samples are not finite")


def mean_survey(answers: Sequence[Surveyed]) -> Surveyed:
    """The surveys of a floor's devices as one of the floor: of their gradients only the mean goes on."""
    counts = [float(answer.devices[0].samples) for answer in answers]
    mean = mean_of(counts, (answer.gradient for answer in answers), answers[0].gradient.size)
    return Surveyed(tuple(slope for answer in answers for slope in answer.devices), mean.astype(np.float32))


def work_of(
    tasks: Sequence[DeviceTask],
    held: Sequence[tuple[npt.NDArray[np.generic], Labels]],
    inputs: Inputs,
    network: BuiltNetwork | None = None,
) -> Work:
    """The computations of devices of one floor, by their numbers in the plant, on the samples and labels they hold.

    Halves are trained apart, as machines train them that have nothing but arrays to send each other. A `network` that
    is given is used for it.
    """
    first, last = tasks[0], max(task.number for task in tasks)
    batch, counts = np.ones(last + 1, np.int64), np.zeros(last + 1, np.int64)
    for task, (_, labels) in zip(tasks, held, strict=True):
        batch[task.number], counts[task.number] = task.batch, labels.size
    job = Job(
        model=first.model,
        seed=first.seed,
        schedule=schedule_of(first),
        iterations=first.local_iterations,
        batch=batch,
        redraw=first.redraw_batch,
        apart=True,
        boundary=first.boundary,
        momentum=first.momentum or 0.0,
    )
    order = np.argsort([task.number for task in tasks])  # as `first` of the samples counts them
    images = np.concatenate([held[place][0] for place in order])
    labels = np.concatenate([held[place][1] for place in order])
    samples = Samples(
        images=images,
        labels=labels,
        first=np.concatenate([[0], np.cumsum(counts)]),
        held=np.arange(labels.size),
        test_images=images[:0],
        test_labels=np.zeros(0, np.int64),
        mean=inputs.mean,
        deviation=inputs.deviation,
    )
    return Work(job, samples, network)


def checked_names(message: Surveyed | Compared, known: Sequence[str]) -> None:
    """Raise a LinkError unless every entry is of another device of these names, and there is one at least."""
    names = [entry.name for entry in message.devices]
    kind = type(message).__name__
    if not names:
        raise LinkError(f"{kind}: has no device.")
    for name in names:
        if name not in known or names.count(name) > 1:
            raise LinkError(f"{kind}: {shown(name)} is no device of this floor, or is there twice.")
    if isinstance(message, Surveyed) and any(entry.samples < 1 for entry in message.devices):
        raise LinkError(f"{kind}: every device must hold at least one sample.")
