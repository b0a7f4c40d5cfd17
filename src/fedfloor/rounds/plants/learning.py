"""A plant that learns: the simulated network, and real split training of the devices that complete a round."""

__all__ = ["LearningPlant"]

import dataclasses
import itertools
import math
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from fedfloor.arrays import Floats, Ints, Vector
from fedfloor.costs.plant import floor_of_devices
from fedfloor.errors import FailedRunError
from fedfloor.rounds.events import Event, Tell, silent
from fedfloor.rounds.outcome import Outcome, Seconds
from fedfloor.rounds.plants.contract import PlantState
from fedfloor.rounds.plants.estimates import Estimates
from fedfloor.rounds.plants.global_model import GlobalModel, Received, diverged
from fedfloor.rounds.plants.simulated import SimulatedPlant, starting_rates
from fedfloor.scenario.resolved import Scenario
from fedfloor.scheduling.state import Decision, RoundState
from fedfloor.theory.bounds import Convergence
from fedfloor.theory.participation import GradientStatistics, corrected_delta
from fedfloor.training.aggregation.registry import make_rule
from fedfloor.training.comparing import change_per_length
from fedfloor.training.floors import DeviceResult, floor_result
from fedfloor.training.network.weights import distance, mean_of, step_along
from fedfloor.training.tasks import EstimateTask, GradientTask
from fedfloor.training.work import Estimate
from fedfloor.workers.engine import Engine, train_devices


@dataclass(slots=True, eq=False)
class LearningPlant:
    """Keeps the global model and what was learnt about the floors between rounds."""

    scenario: Scenario
    engine: Engine
    tell: Tell = silent  #: told which floors train and when an estimate begins
    tests_all: bool = False  #: test the model in every round, as any may be the last of a run that ends early
    redraws_weather: bool = field(init=False, default=True)
    _simulated: SimulatedPlant = field(init=False)
    _model: GlobalModel = field(init=False)
    _estimates: Estimates = field(init=False)
    _batch: Ints = field(init=False)  #: (N,) D~_n
    _floor: Ints = field(init=False)  #: (N,) floor of every device
    _estimate_time: float | None = field(init=False, default=None)  #: [s] wall clock of this round's estimate

    def __post_init__(self) -> None:
        scenario = self.scenario
        self._simulated = SimulatedPlant(scenario, starting_rates(scenario))
        self._model = GlobalModel(scenario, self.engine, make_rule(scenario.aggregation), tests_all=self.tests_all)
        self._batch = self.engine.work.job.batch
        self._floor = floor_of_devices(scenario.floors)
        self._estimates = Estimates(scenario, self._batch, self._floor)

    @property
    def index(self) -> int:
        """Number of the next round."""
        return self._simulated.index

    @property
    def weights(self) -> Vector:
        """W^t, (P,)."""
        return self._model.weights

    @property
    def statistics(self) -> GradientStatistics | None:
        """Gradient statistics of the last estimate; None before the first."""
        return self._estimates.statistics

    def observe(self) -> RoundState:
        """Draw the weather of the round; learn the rates first in rounds that are due for it."""
        self._estimate_time = None
        participation = self.scenario.participation
        if participation.rates == "estimated" and self.index % participation.estimate_every == 0:
            begun = time.perf_counter()
            self.tell(Event(estimating=True))
            self._estimate()
            self._estimate_time = time.perf_counter() - begun
        rates = self._model.rates
        if rates is not None:
            self._simulated.target_rate = rates
        return dataclasses.replace(self._simulated.observe(), last_loss=self._model.last_loss)

    def execute(self, decision: Decision) -> Outcome:
        """Train the floors that complete the round, average them, and evaluate the result in rounds that are due."""
        begun = time.perf_counter()
        outcome = self._simulated.execute(decision)
        observe_every = self.scenario.participation.observe_every
        observes = observe_every > 0 and self.index % observe_every == 0
        trains = np.ones_like(outcome.completed) if observes else outcome.completed
        start, received = self.weights, list[Received]()
        downloaded = self._model.downloaded(self.index)
        target = self._full_steps(start) if observes else None
        divergence, rms_loss = np.full((2, trains.size), np.nan)
        learnt = self.engine.work.layout.learnt  # the theory does not cover the statistics of batch norm
        floors = zip(self.scenario.floors, trains, strict=True)
        self.tell(Event(training=tuple(floor.name for floor, busy in floors if busy)))
        devices = np.flatnonzero(trains[self._floor])
        cuts, counts = outcome.allocation.cut[devices], outcome.iterations
        iterations = None if counts is None else counts[self._floor[devices]]
        results = train_devices(self.engine, self.index, devices, cuts, downloaded, iterations=iterations)
        for m, group in itertools.groupby(results, key=lambda result: int(self._floor[result[0]])):
            result = floor_result(self._checked(group, counts=bool(outcome.completed[m])), start.size)
            if target is not None:
                divergence[m] = distance(result.model[learnt], target[learnt])
            if outcome.completed[m]:
                rms_loss[m] = result.rms_loss
                sent = self._model.uploaded(result.model, downloaded, index=self.index, floor=m)
                count = None if counts is None else int(counts[m])
                received.append(Received(m, result.points, result.loss, sent, count))
        loss_of_floors = self._model.advance(self.index, received, decision.weight)
        train_time = time.perf_counter() - begun
        tested = self._model.tested(self.index)
        return dataclasses.replace(
            outcome,
            loss=loss_of_floors,
            rms_loss=rms_loss if self.engine.work.job.sample_losses else None,
            accuracy=tested.accuracy,
            raw_accuracy=tested.raw_accuracy,
            test_loss=tested.loss,
            divergence_bound=np.full(trains.size, np.nan) if self._estimates.bound is None else self._estimates.bound,
            divergence=divergence,
            seconds=Seconds(self._estimate_time, train_time, tested.seconds),
        )

    def settle(self, queue: Floats) -> None:
        """Keep the queues and advance to the next round."""
        self._simulated.settle(queue)

    def snapshot(self) -> PlantState:
        """Weights, queues, rates, batteries, last losses and estimates, and how inputs are scaled."""
        return self._model.snapshot(self._simulated.snapshot(), self._estimates.snapshot())

    def restore(self, state: PlantState) -> None:
        """Continue from a snapshot."""
        self._model.restore(state)
        self._simulated.restore(state)
        self._estimates.restore(state.values)

    def convergence(self) -> Convergence | None:
        """What Theorem 4 rests on, with the largest gradients seen; None before the first estimate."""
        if self.statistics is None:
            return None
        return Convergence(
            statistics=self.statistics,
            batch=self._batch.astype(float),
            floor=self._floor,
            first_loss=self._training_loss(self.engine.work.first_weights()),
            last_loss=self._training_loss(self.weights),
            gradient_square=self._estimates.gradient_square,
            learning_rate=self.scenario.training.learning_rate,
            iterations=self.scenario.training.local_iterations,
        )

    @property
    def served(self) -> Vector:
        """The weights (P,) that are tested and exported."""
        return self._model.served

    def evaluate(self) -> tuple[Ints | None, float]:
        """Confusion matrix (true, predicted) on the test set, and the mean loss."""
        return self._model.evaluate()

    def _training_loss(self, weights: Vector) -> float:
        """Loss over the devices' samples, or over as many of each as an estimate looks at."""
        counts, limit = self._counts(), self.scenario.participation.estimate_samples
        tasks = [GradientTask(n, limit) for n in range(counts.size)]
        losses = [loss for loss, _ in self.engine.run(tasks, weights)]
        return math.fsum(count * loss for count, loss in zip(counts.tolist(), losses, strict=True)) / int(counts.sum())

    def _checked(self, group: Iterator[tuple[int, float, float, Vector]], *, counts: bool) -> Iterator[DeviceResult]:
        """Results of a floor's devices.

        A value that is not finite ends the run, unless the floor trains for a measurement only and does not count.
        """
        for n, loss, square, weights in group:
            if counts and not (math.isfinite(loss) and np.isfinite(weights).all()):
                floor, device = self.scenario.floors[self._floor[n]].name, self.scenario.devices[n].name
                problem = f"{floor}: {device}: the training loss is {loss:g} or its weights are not finite"
                raise diverged(self.index, problem)
            yield DeviceResult(float(self._batch[n]), loss, weights, square)

    def _counts(self) -> Ints:
        return np.diff(self.engine.work.samples.first)

    def _full_steps(self, weights: Vector) -> Vector:
        """v^{K,t}: K gradient steps on all data of all devices, for comparison only; as devices, with momentum."""
        training, counts, rate = self.scenario.training, self._counts(), self.engine.work.job.rate(self.index)
        current, velocity = weights, np.zeros(weights.size)
        for _ in range(training.local_iterations):
            tasks = [GradientTask(n, None) for n in range(counts.size)]
            gradients = (gradient[0] for _, gradient in self.engine.run(tasks, current))
            velocity = training.momentum * velocity + mean_of(counts.tolist(), gradients, weights.size)
            current = (current - rate * velocity).astype(np.float32)
        return current

    def _estimate(self) -> None:
        """Estimate what Theorem 1 asks for at the current weights, and the rates that follow (Sec. IV)."""
        participation, counts, size = self.scenario.participation, self._counts(), self.weights.size
        tasks = [EstimateTask(n, participation.estimate_samples) for n in range(counts.size)]
        estimates: list[Estimate] = []
        with _Rows(size) as gradients:

            def kept() -> Iterator[Vector]:
                for result, gradient in self.engine.run(tasks, self.weights):
                    estimates.append(result)
                    gradients.append(gradient[0])
                    yield gradient[0]

            mean = mean_of(counts.tolist(), kept(), size)
            delta = np.array([distance(gradient, mean) for gradient in gradients])
            smoothness = np.maximum([entry.smoothness for entry in estimates], self._smoothness_along(mean, gradients))
        sigma = np.array([entry.sigma for entry in estimates])
        statistics = GradientStatistics(
            sigma=sigma,
            delta=corrected_delta(delta, sigma, samples=participation.estimate_samples, held=counts.astype(float)),
            smoothness=smoothness,
            gradient_norm=np.array([entry.norm for entry in estimates]),
        )
        self._estimates.learn(statistics, np.ones(counts.size, bool), float(np.square(mean).sum()))
        rates = self._estimates.rates
        assert rates is not None
        self._simulated.target_rate = rates

    def _smoothness_along(self, mean: Floats, gradients: "_Rows") -> Floats:
        """Change of every device's gradient over a step along the mean of all, per length of the step, (N,)."""
        limit = self.scenario.participation.estimate_samples
        probe = step_along(self.weights, mean, self.scenario.training.learning_rate)
        length = distance(probe, self.weights)
        if length == 0.0:
            return np.zeros(len(gradients))
        tasks = [GradientTask(n, limit) for n in range(len(gradients))]
        changed = (gradient[0] for _, gradient in self.engine.run(tasks, probe))
        return np.array(
            [change_per_length(there, here, length) for there, here in zip(changed, gradients, strict=True)]
        )


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
            problem = f"the gradients cannot be written to the folder for temporary files: {error.strerror}"
            raise FailedRunError(f"{tempfile.gettempdir()}: {problem}. Make room, or name another in TMPDIR") from None
        self._count += 1

    def __iter__(self) -> Iterator[Vector]:
        self._file.seek(0)
        for _ in range(self._count):
            yield np.fromfile(self._file, np.float32, self._size)
