"""The model that floors learn together, as the base station keeps it: what all plants that learn have in common."""

__all__ = ["GlobalModel", "Received", "Tested", "diverged", "inputs_of", "served_weights"]

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from pydantic import JsonValue

from fedfloor.arrays import Floats, Ints, Vector
from fedfloor.costs.compute import floor_sum
from fedfloor.costs.plant import floor_of_devices
from fedfloor.errors import FailedRunError, shown
from fedfloor.rounds.plants.contract import PlantState, numbers_from, numbers_to
from fedfloor.rounds.summary import accuracy_of, final_rounds
from fedfloor.scenario.resolved import Scenario
from fedfloor.theory.participation import divergence_of_updates, rates_of_updates, recent_mean
from fedfloor.training.aggregation.aggregator import Aggregator
from fedfloor.training.aggregation.averaging import AveragedModel
from fedfloor.training.aggregation.contract import Rule
from fedfloor.training.aggregation.gaps import Gaps
from fedfloor.training.aggregation.normalising import iteration_scales
from fedfloor.training.exchange import Exchange
from fedfloor.training.network.built import Inputs
from fedfloor.training.network.weights import Layout, distance
from fedfloor.training.tasks import EvaluateTask
from fedfloor.workers.engine import Engine

_UPLOAD_ERROR = "upload_error"  #: name of the rounding errors in a checkpoint
_RULE = "rule/"  #: beginning of the names of what the aggregation rule keeps in a checkpoint
_AVERAGED = "averaged"  #: name of the averaged model in a checkpoint
_GAPS = {"mean": "gap_mean", "ended": "gaps_ended", "length": "gap_length"}  #: field of `Gaps` -> key of a checkpoint
_TESTED_AT_ONCE = 500  #: test samples per task, whoever does it


@dataclass(frozen=True, slots=True, eq=False)
class Received:
    """What the base station receives of a floor that completes a round."""

    floor: int  #: m
    points: float  #: [1] D_m, sum of D~_n over the devices that trained
    loss: float  #: [1] mean training loss
    model: Vector  #: (P,) the floor's model, or its update if the precision of the scenario asks for one
    iterations: int | None = None  #: [1] K_m; None: K


@dataclass(frozen=True, slots=True)
class Tested:
    """Result of an evaluation; None in rounds without one."""

    accuracy: float | None = None  #: [1]
    loss: float | None = None  #: [1]
    seconds: float | None = None  #: [s] wall clock
    raw_accuracy: float | None = None  #: [1] of the weights that training goes on from; None if they are those above


@dataclass(slots=True, eq=False)
class GlobalModel:
    """Keeps the global weights between rounds: sends them, averages what comes back, and tests the result."""

    scenario: Scenario
    engine: Engine  #: evaluates; its samples say how inputs are scaled
    rule: Rule  #: of the aggregation
    feedback: bool = True  #: keep the floors' rounding errors; False if gateways keep their own
    tests_all: bool = False  #: test the model in every round, as any may be the last of a run that ends early
    weights: Vector = field(init=False)  #: (P,) W^t
    last_loss: Floats = field(init=False)  #: (M,) [1] training loss when the floor last completed a round; nan before
    divergence: Floats | None = field(
        init=False, default=None
    )  #: (M,) of the floors' recent updates, nan before the first; None if no rates follow from it
    _exchange: Exchange = field(init=False)
    _aggregator: Aggregator = field(init=False)
    _averaged: AveragedModel | None = field(init=False, default=None)  #: None: the weights themselves are served
    _tested: tuple[Vector, Ints | None, float] | None = field(
        init=False, default=None
    )  #: the served weights that were evaluated last, and the result

    def __post_init__(self) -> None:
        scenario, work = self.scenario, self.engine.work
        floors = len(scenario.floors)
        self.weights = work.first_weights()
        self._exchange = Exchange(
            scenario.precision, work.layout, floors=floors if self.feedback else 0, seed=scenario.seed
        )
        aggregation = scenario.aggregation
        points = floor_sum(work.job.batch.astype(float), floor_of_devices(scenario.floors), floors)
        gaps = Gaps.unknown(floors) if aggregation.weights == "fedau" else None
        self._aggregator = Aggregator(self.rule, self._exchange, points, gaps)
        if aggregation.averaged_decay > 0.0:
            self._averaged = AveragedModel(aggregation.averaged_decay)
        self.last_loss = np.full(floors, np.nan)
        if scenario.participation.rates == "updates":
            self.divergence = np.full(floors, np.nan)

    @property
    def rates(self) -> Floats | None:
        """Participation rates Gamma_m (M,) that follow from the floors' updates; None if the scenario has others."""
        return None if self.divergence is None else rates_of_updates(self.divergence, self.scenario.radio.channels)

    @property
    def served(self) -> Vector:
        """The weights (P,) that are tested and exported: the averaged ones if the scenario asks for them."""
        averaged = None if self._averaged is None else self._averaged.weights
        return self.weights if averaged is None else averaged

    def downloaded(self, index: int) -> Vector:
        """The weights (P,) with which floors start."""
        try:
            return self._exchange.downloaded(self.weights)
        except OverflowError as error:
            advice = "Start a new run with precision.download = 32; the last checkpoint is untouched"
            raise FailedRunError(f"round {index}: {error}. {advice}") from None

    def uploaded(self, model: Vector, downloaded: Vector, *, index: int, floor: int) -> Vector:
        """What the base station receives of a floor's model (P,), if it keeps the floors' rounding errors."""
        try:
            return self._exchange.uploaded(model, downloaded, index=index, floor=floor)
        except OverflowError as error:
            raise diverged(index, f"{self.scenario.floors[floor].name}: its update {error}") from None

    def advance(self, index: int, received: Sequence[Received], weight: Floats | None = None) -> Floats:
        """Aggregate what was received, in the order of the floors; returns their training losses (M,), nan for others.

        A round that no floor completes leaves the weights as they are, also the averaged ones. `weight` (M,) multiplies
        the floors' points in the aggregation.
        """
        loss = np.full(self.last_loss.size, np.nan)
        for entry in received:
            loss[entry.floor] = entry.loss
        if received:
            start, points = self.weights, _weighted_points(received, weight)
            received = self._normalised(received, points)
            weighted = [replace(entry, points=part) for entry, part in zip(received, points.tolist(), strict=True)]
            self.weights = self._aggregator.combined(start, weighted)
            if not all(np.isfinite(part).all() for part in (self.weights, *self._aggregator.memory.values())):
                raise diverged(index, "the averaged weights are not finite")
            if self._averaged is not None:
                self._averaged.add(self.weights)
            if self.divergence is not None:
                self.divergence = recent_mean(self.divergence, self._measured(start, received))
        self._aggregator.note(~np.isnan(loss))
        self.last_loss = np.where(np.isnan(loss), self.last_loss, loss)
        return loss

    def _normalised(self, received: Sequence[Received], points: Floats) -> Sequence[Received]:
        """What was received as if all floors had done their mean number of iterations, weighted by points (k,)."""
        training = self.scenario.training
        iterations = np.array([entry.iterations or training.local_iterations for entry in received])
        if np.all(iterations == iterations[0]):
            return received
        scales = iteration_scales(iterations, points, training.momentum)
        learnt, start = self.engine.work.layout.learnt, self.weights if self._exchange.sends_models else np.float32(0.0)
        return [
            replace(
                entry,
                model=np.where(learnt, start + np.float32(scale) * (entry.model - start), entry.model).astype(
                    np.float32
                ),
            )
            for entry, scale in zip(received, scales.tolist(), strict=True)
        ]

    def _measured(self, start: Vector, received: Sequence[Received]) -> Floats:
        """Divergence of the updates of this round, (M,); nan for floors that sent none."""
        learnt = self.engine.work.layout.learnt  # the theory does not cover the statistics of batch norm
        mean = self._exchange.combined(start, [(entry.points, entry.model) for entry in received])  # whatever the rule
        mean = mean if self._exchange.sends_models else mean - start
        apart = np.array([distance(entry.model[learnt], mean[learnt]) for entry in received])
        measured = np.full(self.last_loss.size, np.nan)
        points = np.array([entry.points for entry in received])
        measured[[entry.floor for entry in received]] = divergence_of_updates(apart, points)
        return measured

    def tested(self, index: int) -> Tested:
        """Evaluate the model in rounds that are due for it and in each of the last ones, if there is a test set."""
        is_final = self.tests_all or index >= self.scenario.rounds - final_rounds(self.scenario.rounds)
        is_due = (index + 1) % self.scenario.training.evaluate_every == 0
        if not (is_due or is_final) or not self.has_test_set:
            return Tested()
        begun = time.perf_counter()
        confusion, loss = self.evaluate()
        if not math.isfinite(loss):
            raise diverged(index, f"the test loss is {loss}")
        raw = None if self._averaged is None else accuracy_of(self._evaluated(self.weights)[0])
        return Tested(accuracy_of(confusion), loss, time.perf_counter() - begun, raw)

    @property
    def has_test_set(self) -> bool:
        """Whether there are samples to evaluate on."""
        return self.engine.work.samples.test_labels.size > 0

    def evaluate(self) -> tuple[Ints | None, float]:
        """Confusion matrix (true, predicted) on the test set, which must not be empty, and the mean loss.

        The matrix is None if numbers are predicted.
        """
        if self._tested is None or self._tested[0] is not self.served:
            self._tested = (self.served, *self._evaluated(self.served))
        return self._tested[1:]

    def _evaluated(self, weights: Vector) -> tuple[Ints | None, float]:
        size = self.engine.work.samples.test_labels.size
        steps = range(0, size, _TESTED_AT_ONCE)
        tasks = [EvaluateTask(begin, min(begin + _TESTED_AT_ONCE, size)) for begin in steps]
        results = [result for result, _ in self.engine.run(tasks, weights)]
        loss = math.fsum(loss for _, loss in results) / size
        confusions = [confusion for confusion, _ in results if confusion is not None]
        return np.sum(confusions, axis=0) if confusions else None, loss

    def snapshot(self, simulated: PlantState, more: Mapping[str, JsonValue]) -> PlantState:
        """The state of a plant: the model, how inputs are scaled, its simulated part, and what else it keeps."""
        samples, rest = self.engine.work.samples, dict(simulated.values)
        values: dict[str, JsonValue] = {
            "inputs": {"mean": samples.mean.tolist(), "deviation": samples.deviation.tolist()},
            "queue": rest.pop("queue"),
            "target_rate": rest.pop("target_rate"),
            "last_loss": numbers_to(self.last_loss),
            **rest,
            **more,
        }
        if self.divergence is not None:
            values["update_divergence"] = numbers_to(self.divergence)
        error, gaps, averaged = self._exchange.error, self._aggregator.gaps, self._averaged
        memory = {} if error is None else {_UPLOAD_ERROR: error.copy()}
        memory |= {f"{_RULE}{name}": kept for name, kept in self._aggregator.memory.items()}
        if gaps is not None:
            values |= {key: numbers_to(getattr(gaps, name)) for name, key in _GAPS.items()}
        if averaged is not None:
            values["averaged_rounds"] = averaged.rounds
            if averaged.weights is not None:
                memory[_AVERAGED] = averaged.weights
        return PlantState(simulated.index, values, self.engine.work.layout.named(self.weights), memory)

    def restore(self, state: PlantState) -> None:
        """Continue from a snapshot."""
        self.load(state)
        gaps, floors = self._aggregator.gaps, self.last_loss.size
        if gaps is not None:
            gaps = Gaps(**{name: numbers_from(state.values, key, floors) for name, key in _GAPS.items()})
        kept = {key.removeprefix(_RULE): part for key, part in state.memory.items() if key.startswith(_RULE)}
        self._aggregator.restore(kept, gaps)
        self._exchange.restore(state.memory.get(_UPLOAD_ERROR))
        self.last_loss = numbers_from(state.values, "last_loss", self.last_loss.size, gaps=True)
        if self.divergence is not None:
            self.divergence = numbers_from(state.values, "update_divergence", self.divergence.size, gaps=True)

    def load(self, state: PlantState) -> None:
        """Take the weights of a checkpoint, also the averaged ones; a ValueError says why they do not fit."""
        self.weights = _weights_of(state, self.engine.work.layout)
        if self._averaged is not None:
            rounds, averaged = state.values.get("averaged_rounds"), state.memory.get(_AVERAGED)
            if type(rounds) is not int or rounds < 0 or (averaged is None) != (rounds == 0):
                raise ValueError(f"averaged_rounds must be the number of averaged rounds, got {shown(rounds)}")
            self._averaged.rounds = rounds
            self._averaged.weights = None if averaged is None else _vector(averaged, self.weights.size)


def served_weights(state: PlantState, layout: Layout, scenario: Scenario) -> Vector:
    """The weights (P,) of a checkpoint that are tested and exported; a ValueError says why they do not fit."""
    weights, averaged = _weights_of(state, layout), state.memory.get(_AVERAGED)
    if scenario.aggregation.averaged_decay > 0.0 and averaged is not None:
        return _vector(averaged, weights.size)
    return weights


def inputs_of(state: PlantState, channels: int) -> Inputs | None:
    """How a checkpoint's model scales its inputs, as `GlobalModel.snapshot` says it; None if an old one does not say.

    Raises a ValueError if the numbers do not fit the channels.
    """
    inputs = state.values.get("inputs")
    if inputs is None:
        return None
    if not isinstance(inputs, dict):
        raise ValueError(f"inputs must be a table, got {shown(inputs)}")
    values = {f"inputs.{key}": value for key, value in inputs.items()}
    mean = numbers_from(values, "inputs.mean", channels, least=-math.inf)
    deviation = numbers_from(values, "inputs.deviation", channels)
    if not np.all(deviation > 0.0):
        raise ValueError(f"inputs.deviation must be {channels} numbers > 0, got {shown(inputs['deviation'])}")
    return Inputs(mean, deviation)


def _weights_of(state: PlantState, layout: Layout) -> Vector:
    try:
        return layout.vector(state.weights)
    except KeyError as error:
        raise ValueError(f"weights {error}: only one of checkpoint and model has them") from None


def _vector(values: npt.NDArray[np.generic], size: int) -> Vector:
    """Averaged weights of a checkpoint; a ValueError says why they are not (size,) finite float32 numbers."""
    if values.shape != (size,) or values.dtype != np.float32 or not np.isfinite(values).all():
        raise ValueError(f"{_AVERAGED} must be finite float32 ({size},), got {values.dtype} {values.shape}")
    return values.astype(np.float32)


def _weighted_points(received: Sequence[Received], weight: Floats | None) -> Floats:
    """Points of what was received in the average, (k,): shifted to floors with more weight (M,), if there are weights.

    Their sum stays the same, because FedAU compares it with the points of all floors.
    """
    points = np.array([entry.points for entry in received])
    if weight is None:
        return points
    shifted = points * weight[[entry.floor for entry in received]]
    return np.asarray(shifted * (points.sum() / shifted.sum()))


def diverged(index: int, problem: str) -> FailedRunError:
    """The error of a round whose numbers are not finite."""
    advice = "Lower training.learning_rate, or the steps of the aggregation rule; the last checkpoint is untouched"
    return FailedRunError(f"round {index}: {problem}. {advice}")
