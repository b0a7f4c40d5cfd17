"""The base station's aggregation: weights of the floors, the rule, and what both keep between rounds."""

__all__ = ["Aggregator", "Arrived"]

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Bools, Floats, Vector
from fedfloor.errors import AggregationError, FedfloorError, shown
from fedfloor.references import different_attribute, is_foreign, where_raised
from fedfloor.training.aggregation.contract import Gathered, Memory, Rule, Step, Update
from fedfloor.training.aggregation.gaps import Gaps, next_gaps
from fedfloor.training.exchange import Exchange


class Arrived(Protocol):
    """What arrived of one floor."""

    @property
    def floor(self) -> int:
        """Its number m."""

    @property
    def points(self) -> float:
        """D_m [1], of the devices that trained."""

    @property
    def model(self) -> Vector:
        """Its model (P,), or its update; see `Exchange.sends_models`."""


@dataclass(slots=True, eq=False)
class Aggregator:
    """Makes the next weights from what arrived; keeps the rule's memory and the gaps of the floors."""

    rule: Rule
    exchange: Exchange
    points: Floats  #: (M,) [1] D_m of every floor with all its devices
    gaps: Gaps | None = None  #: of weights by FedAU; None: by points alone
    memory: Memory = field(init=False, default_factory=dict)
    _untouched: Rule | None = field(init=False, default=None)  #: a user's rule as it was before its first step
    _steps: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if is_foreign(type(self.rule)):
            try:
                self._untouched = copy.deepcopy(self.rule)
            except Exception as error:  # a lock or an open file, for example
                problem = f"aggregation rule {type(self.rule).__name__}: cannot be copied: {error!s:.300}"
                advice = "Keep only numbers, texts and arrays on the object: docs/faster.md"
                raise AggregationError(f"{problem}. {advice}") from None

    def combined(self, weights: Vector, arrived: Sequence[Arrived]) -> Vector:
        """The next weights (P,) from what arrived, in the order of the floors.

        The rule sees the weights that training learns. Everything else, as the statistics of batch norm, is averaged.
        """
        shares = self._shares(arrived)
        mean = self._mean(weights, arrived, float(shares.sum()))
        learnt = self.exchange.layout.learnt
        whole = bool(learnt.all())

        def part(vector: Vector) -> Vector:
            return vector if whole else vector[learnt]

        def updates() -> Iterator[Update]:
            start = part(weights)
            for entry, share in zip(arrived, shares.tolist(), strict=True):
                sent = part(entry.model)
                yield Update(entry.floor, share, _fixed(sent - start if self.exchange.sends_models else sent))

        # A rule reads what it gets, and changes nothing. The mean is made anew in every round.
        gathered = Gathered(part(_fixed(weights)), part(mean), self.points / self.points.sum(), updates)
        step = self._step(gathered)
        self.memory = _sorted(step.memory)
        if whole:
            return step.weights if step.weights.flags.writeable else step.weights.copy()
        combined = mean.copy()
        combined[learnt] = step.weights
        return combined

    def note(self, completed: Bools) -> None:
        """Count the gaps of the floors (M,) after a round, also after one that nobody completed."""
        if self.gaps is not None:
            self.gaps = next_gaps(self.gaps, completed)

    def restore(self, memory: Mapping[str, npt.NDArray[np.generic]], gaps: Gaps | None) -> None:
        """Continue with what an earlier run kept; a ValueError says why it does not fit."""
        for name, values in memory.items():
            if values.dtype != np.float32 or not np.isfinite(values).all():
                raise ValueError(f"{name}, which the aggregation rule keeps, must be finite float32")
        self.memory = _sorted({name: values.astype(np.float32) for name, values in memory.items()})
        self.gaps = gaps

    def _shares(self, arrived: Sequence[Arrived]) -> Floats:
        """Weight of every floor's change in the mean; by points they add up to 1, with FedAU only in the long run."""
        points = np.array([entry.points for entry in arrived])
        if self.gaps is None:
            return np.asarray(points / points.sum())
        return np.asarray(self.gaps.mean[[entry.floor for entry in arrived]] * points / self.points.sum())

    def _mean(self, weights: Vector, arrived: Sequence[Arrived], total: float) -> Vector:
        """W^t plus the changes times their shares (P,), which add up to `total`; what is not learnt is averaged."""
        if self.gaps is None:
            return self.exchange.combined(weights, [(entry.points, entry.model) for entry in arrived])
        gaps = self.gaps.mean
        mean = self.exchange.combined(weights, [(gaps[entry.floor] * entry.points, entry.model) for entry in arrived])
        with np.errstate(over="ignore"):
            longer = (weights + total * (mean.astype(np.float64) - weights)).astype(np.float32)
        return np.where(self.exchange.layout.learnt, longer, mean)

    def _step(self, gathered: Gathered) -> Step:
        """What the rule makes of the round; an error in a user's rule names the line that raised it."""
        name = type(self.rule).__name__
        self._steps += 1
        try:
            again = self._again(gathered)
            step = self.rule.step(gathered, self.memory)
        except (FedfloorError, KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:  # the rule may be the user's and do anything
            raise AggregationError(f"aggregation rule {name}: step failed: {where_raised(error)}") from error
        problem = _problem(step, gathered.weights.size)
        if not problem and is_foreign(type(self.rule)) and np.isfinite(gathered.mean).all():
            wrong = step.weights[~np.isfinite(step.weights)]  # not of the training, whose models are finite
            problem = f"weights must be finite, as the mean of the models is, got {wrong[0]}" if wrong.size else ""
        if problem:
            raise AggregationError(f"aggregation rule {name}: {problem}. See docs/faster.md")
        if again is not None and not _same(step, again):
            problem = f"its step {self._steps} is not that of a new object"
            advice = "It keeps state on itself, or draws at random, so that a run could not be resumed"
            advice = f"{advice}. Keep everything in the memory of the step: docs/faster.md"
            raise AggregationError(f"aggregation rule {name}: {problem}. {advice}")
        # Arrays of a user's rule may be its own, which it changes in the next round.
        if self._untouched is None:
            return step
        return Step(step.weights.copy(), {key: values.copy() for key, values in step.memory.items()})

    def _again(self, gathered: Gathered) -> Step | None:
        """The step of a new object: of a user's rule in its second step, and whenever its attributes have changed."""
        if self._untouched is None or not (self._steps == 2 or different_attribute(self.rule, self._untouched)):
            return None
        return copy.deepcopy(self._untouched).step(gathered, self.memory)


def _fixed(values: Vector) -> Vector:
    """The same numbers, read-only."""
    view = values.view()
    view.setflags(write=False)
    return view


def _sorted(memory: Memory) -> Memory:
    """What a rule keeps, by name: files of weights are read in any order, and a rule may sum in the order it sees."""
    return dict(sorted(memory.items()))


def _same(one: Step, other: Step) -> bool:
    """Whether two steps are the same to the last bit."""
    if one.memory.keys() != other.memory.keys() or not np.array_equal(one.weights, other.weights, equal_nan=True):
        return False
    return all(np.array_equal(values, other.memory[name]) for name, values in one.memory.items())


def _problem(step: object, size: int) -> str:
    """What is wrong with the result of a rule; empty if nothing is."""
    if not isinstance(step, Step):
        return f"step must return a Step, got {shown(step)}"
    memory: object = step.memory
    if not isinstance(memory, Mapping):
        return f"its memory must be a mapping of arrays, got {shown(memory)}"
    for name in memory:
        if not isinstance(name, str) or not name or not name.isascii() or not name.isprintable():
            return f"the names in its memory must be printable ASCII text, got {shown(name)}"
    parts: list[tuple[str, object]] = [("weights", step.weights), *memory.items()]
    for name, values in parts:
        if not isinstance(values, np.ndarray) or values.dtype != np.float32:
            return f"{name} must be a float32 array, got {shown(values)}"
        if name != "weights" and not np.isfinite(values).all():
            return f"{name} of its memory must be finite"
    return "" if step.weights.shape == (size,) else f"weights must be ({size},), got {step.weights.shape}"
