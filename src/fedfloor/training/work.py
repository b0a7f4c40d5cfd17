"""Computations of one process: local training of devices, evaluation and gradients."""

__all__ = [
    "Estimate",
    "Job",
    "Work",
    "has_device",
    "is_short_of_memory",
    "undisturbed",
]

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from fedfloor.arrays import Floats, Ints, Labels, Vector
from fedfloor.scenario.model import Model
from fedfloor.streams import dropout_seed
from fedfloor.training.data.samples import Samples, batch_of
from fedfloor.training.halves import Bottom, DeviceRound, Top
from fedfloor.training.network.built import BuiltNetwork, Inputs, network_of
from fedfloor.training.network.dense import AT_ONCE, DenseStack, is_dense
from fedfloor.training.network.losses import loss_of
from fedfloor.training.network.split import Momentum, Scored, joined_step, sgd_step, squared_losses
from fedfloor.training.network.weights import Layout, length, step_along
from fedfloor.training.schedule import RateSchedule

_STACKED_PARAMETERS = 500_000  #: larger networks keep a core busy without stacking
_AT_ONCE = 256  #: samples per forward pass outside training
_GRADIENT_FLOATS = 5_000_000  #: largest number of per-sample gradient values in memory


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """Settings that all tasks of a run share."""

    model: Model
    seed: int
    schedule: RateSchedule  #: beta(t)
    iterations: int  #: K
    batch: Ints  #: (N,) D~_n
    redraw: bool  #: draw a new batch in every iteration
    apart: bool  #: train the halves separately, as real machines do
    boundary: int = 32  #: [bit] per number that crosses the cut
    device: str = "cpu"  #: torch device
    sample_losses: bool = False  #: measure the mean square of the losses of single samples
    momentum: float = 0.0  #: mu, inside a round

    @property
    def learning_rate(self) -> float:
        """Beta of the first round and of estimates."""
        return self.schedule.first

    def rate(self, index: int) -> float:
        """Learning rate of a round."""
        return self.schedule.rate(index)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Gradient statistics of one device at the current weights (Sec. IV)."""

    sigma: float  #: root mean square distance of per-sample gradients from their mean
    norm: float  #: norm of the mean gradient
    smoothness: float  #: change of the gradient over a step of gradient descent, per length of the step


def has_device(name: str) -> bool:
    """Whether torch can compute on a device: cpu, cuda or mps."""
    if name == "cuda":
        return torch.cuda.is_available()
    return name == "cpu" or (name == "mps" and torch.backends.mps.is_available())


def is_short_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out; on the CPU only torch's message says so."""
    on_cpu = type(error) is RuntimeError and "can't allocate memory" in str(error)
    return on_cpu or isinstance(error, MemoryError | torch.OutOfMemoryError)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Restore torch's number of threads and its random state at the end, for other code in this process.

    A lack of memory that only torch's message names is raised as a MemoryError, like any other.
    """
    threads = torch.get_num_threads()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(devices):
        try:
            yield
        except RuntimeError as error:
            if not is_short_of_memory(error):
                raise
            raise MemoryError(str(error)) from error
        finally:
            torch.set_num_threads(threads)


class _StepLosses:
    """Losses of the steps of one device in one round."""

    def __init__(self, job: Job) -> None:
        self._counted = job.iterations
        self._losses: list[float] = []
        self._squares: list[float] = []
        self.scored: Scored | None = self._add_squares if job.sample_losses else None

    def add(self, loss: float) -> None:
        """Add the mean loss of a step; `scored` has been told its scores."""
        self._losses.append(loss)

    def _add_squares(self, scores: Tensor, y: Tensor) -> None:
        self._squares.append(squared_losses(scores, y))

    def means(self) -> tuple[float, float]:
        """Means over the first K steps: of losses, and of squares of losses of single samples, nan if not measured."""
        losses, squares = self._losses[: self._counted], self._squares[: self._counted]
        return sum(losses) / len(losses), sum(squares) / len(squares) if squares else math.nan


class Work:
    """A network, samples, and the computations on them."""

    def __init__(self, job: Job, samples: Samples, network: BuiltNetwork | None = None) -> None:
        """Work in a network of its own, or in one that nobody else uses meanwhile."""
        self.job, self.samples = job, samples
        self._built = BuiltNetwork(job.model, job.seed, job.device) if network is None else network
        torch.set_num_threads(1)  # as when the network was built, whatever happened since
        self._device = self._built.device
        self.network, self.layout = self._built.network, self._built.layout
        self._inputs = Inputs(samples.mean, samples.deviation)

    @property
    def stacks(self) -> int:
        """Number of devices that train at once: several if the network is small and dense."""
        whole = not self.job.apart and self.job.boundary == 32
        small = self.layout.size <= _STACKED_PARAMETERS and whole
        return AT_ONCE if small and is_dense(self.network) else 1

    def first_weights(self) -> Vector:
        """First weights (P,), which follow from the seed."""
        vector = np.empty(self.layout.size, np.float32)
        Layout(network_of(self.job.model, self.job.seed)).save(vector)
        return vector

    def train(
        self, index: int, devices: Ints, cuts: Ints, weights: Vector, out: Vector, *, iterations: int | None = None
    ) -> Floats:
        """Train devices (k,) locally in a round; fills `out` (k, P) with their weights.

        All do the same number of iterations, K if none is given. Returns (k, 2): mean losses, and mean squares of the
        losses of single samples, nan if they are not measured; both of the first K iterations, so that they compare.
        """
        steps = self.job.iterations if iterations is None else iterations
        if self.stacks > 1:
            return self._train_stacked(index, devices, steps, weights, out)
        losses = np.empty((devices.size, 2))
        for k, (n, cut) in enumerate(zip(devices.tolist(), cuts.tolist(), strict=True)):
            losses[k] = self._train_one(index, n, cut, steps, weights).means()
            self.layout.save(out[k])
        return losses

    def _train_one(self, index: int, n: int, cut: int, steps: int, weights: Vector) -> _StepLosses:
        """Train one device in the network."""
        job = self.job
        torch.manual_seed(dropout_seed(job.seed, index, n))
        if job.apart or self._rounds_at(cut):
            return self._train_apart(index, n, cut, steps, weights)
        self.layout.load(weights)
        self.network.train()
        losses, rate, momentum = _StepLosses(job), job.rate(index), Momentum.of(job.momentum)
        for iteration in range(steps):
            if iteration == 0 or job.redraw:
                x, y = self._tensors(self.samples.images, self.samples.labels, self._batch(index, n, iteration))
            losses.add(float(joined_step(self.network, x, y, losses.scored)))
            sgd_step(self._built.parameters, rate, momentum)
        return losses

    def _rounds_at(self, cut: int) -> bool:
        """Whether something is rounded that crosses a cut: pictures are not, and at the last cut nothing crosses."""
        is_picture = cut == 0 and self.samples.images.dtype == np.uint8
        return self.job.boundary < 32 and not is_picture and cut < self._built.depth

    def _train_apart(self, index: int, n: int, cut: int, steps: int, weights: Vector) -> _StepLosses:
        """Train one device as two machines do; only arrays cross the cut."""
        job, built, below = self.job, self._built, self._built.below(cut)
        settings = DeviceRound(
            job.seed, index, n, cut, job.rate(index), job.boundary, momentum=job.momentum, own_streams=job.apart
        )
        losses = _StepLosses(job)
        bottom = Bottom(built, settings, self._inputs, weights[:below], losses.scored)
        top = Top(built, settings, self._inputs, weights[below:], losses.scored) if cut < built.depth else None
        for iteration in range(steps):
            samples, labels = None, None
            if iteration == 0 or job.redraw:
                numbers = self._batch(index, n, iteration)
                samples, labels = self.samples.images[numbers], self.samples.labels[numbers]
            if top is None:
                losses.add(bottom.step(samples, labels))
                continue
            loss, gradient = top.step(bottom.forward(samples), labels)
            if gradient is not None:
                bottom.backward(gradient)
            losses.add(loss)
        return losses

    def _batch(self, index: int, n: int, iteration: int) -> Ints:
        """Sample numbers of a device's batch."""
        return batch_of(self.samples.of_device(n), int(self.job.batch[n]), self.job.seed, index, n, iteration)

    def _tensors(self, images: npt.NDArray[np.generic], labels: Labels, numbers: Ints | slice) -> tuple[Tensor, Tensor]:
        x = self._inputs.scaled(images[numbers], self._built)
        return x, torch.from_numpy(np.ascontiguousarray(labels[numbers])).to(self._device)

    def _train_stacked(self, index: int, devices: Ints, steps: int, weights: Vector, out: Vector) -> Floats:
        """Train several devices at once; shorter batches are padded with samples of weight 0."""
        job, rate = self.job, self.job.rate(index)
        self.layout.load(weights)
        stack, totals = DenseStack(self.network, devices.size, job.momentum), torch.zeros(devices.size).double()
        squares = torch.zeros_like(totals) if job.sample_losses else None
        for iteration in range(steps):
            if iteration == 0 or job.redraw:
                x, y, share = self._stack(index, devices, iteration)
            counts = iteration < job.iterations
            losses = stack.step(x, y, share, rate, squares if counts else None).cpu().double()
            totals += losses if counts else 0.0
        stack.save(out)
        squares = torch.full_like(totals, torch.nan) if squares is None else squares / job.iterations
        return cast("Floats", torch.stack([totals / job.iterations, squares], dim=1).numpy())

    def _stack(self, index: int, devices: Ints, iteration: int) -> tuple[Tensor, Tensor, Tensor]:
        images, labels = self.samples.images, self.samples.labels
        batches = [self._tensors(images, labels, self._batch(index, n, iteration)) for n in devices.tolist()]
        longest = max(len(y) for _, y in batches)
        x = torch.zeros(len(batches), longest, *batches[0][0].shape[1:], device=self._device)
        y = torch.zeros(len(batches), longest, dtype=batches[0][1].dtype, device=self._device)
        share = torch.zeros(len(batches), longest, device=self._device)
        for k, (inputs, targets) in enumerate(batches):
            x[k, : len(targets)], y[k, : len(targets)], share[k, : len(targets)] = inputs, targets, 1.0 / len(targets)
        return x, y, share

    def evaluate(self, begin: int, end: int, weights: Vector) -> tuple[Ints | None, float]:
        """Confusion matrix (true, predicted) of the test samples from `begin` to `end`, and the sum of their losses.

        The matrix is None if numbers are predicted.
        """
        self.layout.load(weights)
        self.network.eval()
        classes = self.job.model.classes
        confusion, total = np.zeros((classes, classes), np.int64), 0.0
        with torch.no_grad():
            for start in range(begin, end, _AT_ONCE):
                part = slice(start, min(start + _AT_ONCE, end))
                x, y = self._tensors(self.samples.test_images, self.samples.test_labels, part)
                scores = self.network(x)
                total += float(loss_of(scores, y, "sum"))
                if not y.is_floating_point():
                    np.add.at(confusion, (y.cpu().numpy(), scores.argmax(1).cpu().numpy()), 1)
        return None if self.samples.test_labels.dtype.kind == "f" else confusion, total

    def gradient(self, n: int, limit: int | None, weights: Vector, out: Vector) -> float:
        """Loss of a device over all or `limit` of its samples; fills `out` (P,) with the gradient of that loss."""
        self.layout.load(weights)
        self.network.eval()  # batch norm keeps its statistics, dropout is off
        numbers = self._some(n, limit)
        total = 0.0
        for start in range(0, numbers.size, _AT_ONCE):
            x, y = self._tensors(self.samples.images, self.samples.labels, numbers[start : start + _AT_ONCE])
            loss = loss_of(self.network(x), y, "sum") / numbers.size
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        self._take_gradient(out)
        return total

    def estimate(self, n: int, limit: int, weights: Vector, out: Vector) -> Estimate:
        """Spread, norm and smoothness of a device's gradients; fills `out` (P,) with their mean.

        Paper note: sigma is the root mean square distance; the mean distance would not give sigma/sqrt(D~).
        """
        self.layout.load(weights)
        self.network.eval()
        numbers = self._some(n, limit)
        parts = {name: value.detach() for name, value in self.network.named_parameters() if value.requires_grad}
        single = vmap(grad(self._single_loss), in_dims=(None, 0, 0))
        size = max(1, min(_AT_ONCE, _GRADIENT_FLOATS // max(1, self.layout.size)))
        squares = 0.0
        mean = {name: torch.zeros(value.shape, dtype=torch.float64) for name, value in parts.items()}
        for start in range(0, numbers.size, size):
            x, y = self._tensors(self.samples.images, self.samples.labels, numbers[start : start + size])
            for name, gradients in single(parts, x, y).items():  # (B, ...) each
                exact = gradients.cpu().double()  # some torch devices have no float64
                squares += float(exact.square().sum())
                mean[name] += exact.sum(0)
        for name, parameter in self.network.named_parameters():
            if name not in mean:
                continue
            parameter.grad = (mean[name] / numbers.size).to(parameter.dtype).to(self._device)
        self._take_gradient(out)
        norm, probe, there = length(out), step_along(weights, out, self.job.learning_rate), np.empty_like(out)
        self.gradient(n, limit, probe, there)
        step = length(probe - weights)  # in float32, unlike `distance`: the rates of earlier runs rest on these bits
        return Estimate(
            sigma=math.sqrt(max(squares / numbers.size - norm**2, 0.0)),
            norm=norm,
            smoothness=length(there - out) / step if step > 0.0 else 0.0,
        )

    def _single_loss(self, parts: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        scores = functional_call(self.network, parts, (x.unsqueeze(0),))
        return loss_of(scores, y.unsqueeze(0))

    def _some(self, n: int, limit: int | None) -> Ints:
        """Sample numbers of a device, or `limit` of them, the same ones every time."""
        numbers = self.samples.of_device(n)
        return numbers if limit is None else batch_of(numbers, limit, self.job.seed, 0, n, -1 % 2**32)

    def _take_gradient(self, out: Vector) -> None:
        """Move the gradients into a vector laid out like the weights, with 0 for weights that are not trained."""
        out[:] = 0.0
        flat, at = torch.from_numpy(out), 0
        parameters = dict(self.network.named_parameters())
        for name, tensor in self.network.state_dict().items():
            gradient = parameters[name].grad if name in parameters else None
            if gradient is not None:
                flat[at : at + tensor.numel()].view(tensor.shape).copy_(gradient)
                parameters[name].grad = None
            at += tensor.numel()
