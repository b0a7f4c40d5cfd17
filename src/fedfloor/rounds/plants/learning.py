"""A plant that learns: the simulated network, and real split training of the devices that complete a round."""

__all__ = ["LearningPlant", "Timing"]

import dataclasses
import itertools
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Floats, Ints, Vector
from fedfloor.errors import FailedRunError
from fedfloor.rounds.loop import Outcome
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.scenario.resolved import Scenario
from fedfloor.scheduling.state import Decision, RoundState
from fedfloor.theory.participation import GradientFigures, divergence_bound, participation_rates, uniform_rates
from fedfloor.training.network.weights import average
from fedfloor.training.tasks import Task
from fedfloor.workers.engine import Engine, train_devices

_TESTED_AT_ONCE = 500  #: test samples per task, whoever does it


@dataclass(slots=True)
class Timing:
    """Wall-clock seconds of a round."""

    train: float = 0.0
    evaluate: float | None = None
    estimate: float | None = None  #: of the rates


@dataclass(slots=True, eq=False)
class LearningPlant:
    """Keeps the global weights and what was learnt about the floors between rounds."""

    scenario: Scenario
    engine: Engine
    weights: Vector = field(init=False)  #: (P,) W^t
    simulated: SimulatedPlant = field(init=False)
    last_loss: Floats = field(init=False)  #: (M,)
    figures: GradientFigures | None = None  #: of the last estimate, with the greatest L_n and rho_n seen
    bound: Floats | None = None  #: (M,) Phi_m of the last estimate
    timing: Timing = field(default_factory=Timing)
    on_training: Callable[[Sequence[str]], None] = lambda _: None  #: told which floors train
    on_estimating: Callable[[], None] = lambda: None  #: told when an estimate of the rates begins
    batch: Ints = field(init=False)  #: (N,) D~_n
    floor: Ints = field(init=False)  #: (N,) floor of every device
    gradient_square: float | None = None  #: squared norm of the mean gradient at the last estimate
    _tested: tuple[Vector, Ints, float] | None = None  #: the weights that were evaluated last, and what came of it

    def __post_init__(self) -> None:
        scenario = self.scenario
        estimated = scenario.participation.rates == "estimated"
        uniform = uniform_rates(len(scenario.floors), scenario.radio.channels)
        self.simulated = SimulatedPlant(scenario, uniform if estimated else simulated_rates(scenario))
        self.weights = self.engine.work.first_weights()
        self.last_loss = np.full(len(scenario.floors), np.nan)
        self.batch = self.engine.work.job.batch
        self.floor = np.repeat(np.arange(len(scenario.floors)), [len(floor.devices) for floor in scenario.floors])

    @property
    def index(self) -> int:
        """Number of the next round."""
        return self.simulated.index

    def observe(self) -> RoundState:
        """Draw the round's weather; estimate the rates when their time has come."""
        self.timing = Timing()
        wanted = self.scenario.participation
        if wanted.rates == "estimated" and self.index % wanted.estimate_every == 0:
            begun = time.perf_counter()
            self.on_estimating()
            self._estimate()
            self.timing.estimate = time.perf_counter() - begun
        return dataclasses.replace(self.simulated.observe(), last_loss=self.last_loss)

    def execute(self, decision: Decision) -> Outcome:
        """Train the floors that complete the round, average them, and look at the result when it is time."""
        begun = time.perf_counter()
        outcome = self.simulated.execute(decision)
        watched = self.scenario.participation.observe_every
        observes = watched > 0 and self.index % watched == 0
        trains = np.ones_like(outcome.completed) if observes else outcome.completed
        start, models, loss = self.weights, [], np.full(trains.size, np.nan)
        target = self._full_steps(start) if observes else None
        divergence = np.full(trains.size, np.nan)
        learnt = self.engine.work.layout.learnt  # statistics of batch norm are no part of the theory
        names = [floor.name for floor in self.scenario.floors]
        self.on_training([name for name, busy in zip(names, trains, strict=True) if busy])
        devices = np.flatnonzero(trains[self.floor])
        results = train_devices(self.engine, self.index, devices, outcome.allocation.cut[devices], start)
        for m, group in itertools.groupby(results, key=lambda result: int(self.floor[result[0]])):
            seen: list[tuple[float, float]] = []
            model = average(self._checked(group, seen, counts=bool(outcome.completed[m])), start.size)
            if target is not None:
                divergence[m] = _distance(model[learnt], target[learnt])
            if outcome.completed[m]:
                points = math.fsum(weight for weight, _ in seen)
                loss[m] = math.fsum(weight * value for weight, value in seen) / points
                models.append((points, model))
        if models:
            self.weights = average(iter(models), start.size)
            if not np.isfinite(self.weights).all():
                raise self._diverged("the averaged weights are not finite")
        self.last_loss = np.where(np.isnan(loss), self.last_loss, loss)
        self.timing.train = time.perf_counter() - begun
        accuracy, test_loss = None, None
        if (self.index + 1) % self.scenario.training.evaluate_every == 0:
            begun = time.perf_counter()
            confusion, test_loss = self.evaluate()
            accuracy = float(np.trace(confusion) / confusion.sum())
            self.timing.evaluate = time.perf_counter() - begun
        bound = np.full(trains.size, np.nan) if self.bound is None else self.bound
        return dataclasses.replace(
            outcome,
            loss=loss,
            accuracy=accuracy,
            test_loss=test_loss,
            per_floor={"divergence_bound": bound, "divergence": divergence},
        )

    def settle(self, queue: Floats) -> None:
        """Keep the queues and go on to the next round."""
        self.simulated.settle(queue)

    def evaluate(self) -> tuple[Ints, float]:
        """Confusion matrix (true, predicted) on the test set, and the mean loss."""
        if self._tested is not None and self._tested[0] is self.weights:
            return self._tested[1:]
        size = self.engine.work.samples.test_labels.size
        steps = range(0, size, _TESTED_AT_ONCE)
        tasks = [Task("evaluate", (begin, min(begin + _TESTED_AT_ONCE, size)), 0) for begin in steps]
        results = [result for result, _ in self.engine.run(tasks, self.weights)]
        confusion = np.sum([confusion for confusion, _ in results], axis=0)
        self._tested = (self.weights, confusion, math.fsum(loss for _, loss in results) / size)
        return self._tested[1:]

    def training_loss(self, weights: Vector) -> float:
        """Loss over the devices' samples, or over as many of each as an estimate looks at."""
        counts, limit = self._counts(), self.scenario.participation.estimate_samples
        tasks = [Task("gradient", (n, limit), 1) for n in range(counts.size)]
        losses = [loss for loss, _ in self.engine.run(tasks, weights)]
        return math.fsum(count * loss for count, loss in zip(counts.tolist(), losses, strict=True)) / int(counts.sum())

    def _checked(
        self, group: Iterator[tuple[int, float, Vector]], seen: list[tuple[float, float]], *, counts: bool
    ) -> Iterator[tuple[float, Vector]]:
        """Batch size and weights of a floor's devices, for averaging; notes batch size and loss.

        What is not finite ends the run where it counts, and is only measured where it does not.
        """
        for n, loss, weights in group:
            if counts and not (math.isfinite(loss) and np.isfinite(weights).all()):
                floor, device = self.scenario.floors[self.floor[n]].name, self.scenario.devices[n].name
                raise self._diverged(f"{floor}: {device}: the training loss is {loss:g} or its weights are not finite")
            seen.append((float(self.batch[n]), loss))
            yield float(self.batch[n]), weights

    def _diverged(self, problem: str) -> FailedRunError:
        advice = "Lower training.learning_rate; the last checkpoint is untouched"
        return FailedRunError(f"round {self.index}: {problem}. {advice}")

    def _counts(self) -> Ints:
        return np.diff(self.engine.work.samples.first)

    def _full_steps(self, weights: Vector) -> Vector:
        """v^{K,t}: K gradient steps on all data of all devices, for comparison only."""
        training, counts = self.scenario.training, self._counts()
        current = weights
        for _ in range(training.local_iterations):
            tasks = [Task("gradient", (n, None), 1) for n in range(counts.size)]
            total = np.zeros(weights.size)
            for n, (_, gradient) in enumerate(self.engine.run(tasks, current)):
                total += counts[n] / counts.sum() * gradient[0].astype(np.float64)
            current = (current - training.learning_rate * total).astype(np.float32)
        return current

    def _estimate(self) -> None:
        """Estimate what Theorem 1 asks for at the current weights, and the rates that follow (Sec. IV)."""
        wanted, counts, size = self.scenario.participation, self._counts(), self.weights.size
        tasks = [Task("estimate", (n, wanted.estimate_samples), 1) for n in range(counts.size)]
        found: list[Any] = []
        with _Rows(size) as gradients:
            mean = np.zeros(size)
            for n, (result, gradient) in enumerate(self.engine.run(tasks, self.weights)):
                found.append(result)
                gradients.append(gradient[0])
                mean += counts[n] / counts.sum() * gradient[0].astype(np.float64)
            delta = np.array([_distance(gradient, mean) for gradient in gradients])
            seen = np.maximum([entry.smoothness for entry in found], self._smoothness_along(mean, gradients))
        self.gradient_square = float(np.square(mean).sum())
        before = self.figures
        norm = np.array([entry.norm for entry in found])
        self.figures = GradientFigures(
            sigma=np.array([entry.sigma for entry in found]),
            delta=delta,
            smoothness=seen if before is None else np.maximum(before.smoothness, seen),
            gradient_norm=norm if before is None else np.maximum(before.gradient_norm, norm),
        )
        self.bound = divergence_bound(
            self.figures,
            batch=self.batch.astype(float),
            floor=self.floor,
            floors=len(self.scenario.floors),
            learning_rate=self.scenario.training.learning_rate,
            iterations=self.scenario.training.local_iterations,
        )
        self.simulated.target_rate = participation_rates(self.bound, self.scenario.radio.channels)

    def _smoothness_along(self, mean: Floats, gradients: "_Rows") -> Floats:
        """Change of every device's gradient over a step along the mean of all, per length of the step, (N,).

        A device's own step alone does not do: one that holds a single class has solved it after that step, and a
        vanished gradient looks smooth.
        """
        wanted = self.scenario.participation
        probe = (self.weights - self.scenario.training.learning_rate * mean).astype(np.float32)
        length = _distance(probe, self.weights)
        if length == 0.0:
            return np.zeros(len(gradients))
        tasks = [Task("gradient", (n, wanted.estimate_samples), 1) for n in range(len(gradients))]
        changed = (gradient[0] for _, gradient in self.engine.run(tasks, probe))
        return np.array([_distance(there, here) / length for there, here in zip(changed, gradients, strict=True)])


class _Rows:
    """Vectors in a file, one after another, because all devices' gradients may be more than memory holds."""

    def __init__(self, size: int) -> None:
        self._size, self._count = size, 0
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # closed when the block that uses it ends

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __len__(self) -> int:
        return self._count

    def append(self, vector: Vector) -> None:
        """Add a vector at the end."""
        try:
            self._file.write(np.ascontiguousarray(vector).data)
            self._file.flush()
        except OSError as error:
            problem = f"gradients do not fit the folder for temporary files: {error.strerror}"
            raise FailedRunError(f"{tempfile.gettempdir()}: {problem}. Make room, or name another in TMPDIR") from None
        self._count += 1

    def __iter__(self) -> Iterator[Vector]:
        self._file.seek(0)
        for _ in range(self._count):
            yield np.fromfile(self._file, np.float32, self._size)


def _distance(one: npt.NDArray[np.floating], other: npt.NDArray[np.floating]) -> float:
    """Euclidean distance of two vectors; numpy's own sum, which no number of threads changes."""
    return math.sqrt(float(np.square(one.astype(np.float64) - other).sum()))
