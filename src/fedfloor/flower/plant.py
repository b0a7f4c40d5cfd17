"""A plant whose floors are nodes of a Flower federation: costs and clock are simulated, training is the nodes' own."""

__all__ = ["Exchange", "FlowerPlant", "MetricKeys", "refuse_sampling"]

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from logging import INFO, WARNING

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from flwr.supercore import log
from pydantic import JsonValue

from fedfloor.arrays import Floats
from fedfloor.errors import FedfloorError, PolicyError, shown
from fedfloor.flower.memory import StrategyMemory, layers_of, remember
from fedfloor.flower.nodes import ChosenGrid
from fedfloor.rounds.outcome import MessageSeconds, Outcome, Seconds
from fedfloor.rounds.plants.contract import PlantState, numbers_from, numbers_to
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.scenario.resolved import Scenario
from fedfloor.scheduling.state import Decision, RoundState

Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]

_STRATEGY = "strategy/"  #: beginning of the names of tensors that the strategy remembers


@dataclass(frozen=True, slots=True)
class MetricKeys:
    """Keys of the metrics that the log keeps; of several, the first that is there counts."""

    train_loss: tuple[str, ...]  #: in the replies of nodes that have trained
    accuracy: tuple[str, ...]  #: in an evaluation, from 0 to 1
    loss: tuple[str, ...]  #: in an evaluation


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """How a run talks to its nodes: the arguments of a Flower strategy's `start`."""

    grid: Grid
    nodes: Mapping[int, int]  #: node id of every floor, by its number
    timeout: float  #: [s]
    train_config: ConfigRecord
    evaluate_config: ConfigRecord
    evaluate_fn: Evaluate | None


def refuse_sampling(strategy: Strategy) -> None:
    """Refuse a strategy that is told to choose nodes itself."""
    for layer in layers_of(strategy):
        fraction = getattr(layer, "fraction_train", 1.0)
        if fraction != 1.0:
            problem = f"strategy {type(layer).__name__}: fraction_train must be 1, got {shown(fraction)}"
            raise FedfloorError(f"{problem}: the policy decides which nodes take part. Leave fraction_train out")


@dataclass(slots=True, eq=False)
class FlowerPlant:
    """Keeps the arrays between rounds; weather, costs, energy, queues and clock are those of a simulation."""

    scenario: Scenario
    strategy: Strategy
    exchange: Exchange
    keys: MetricKeys
    arrays: ArrayRecord
    needs_losses: bool = False  #: the policy decides by training losses
    result: Result = field(default_factory=Result)
    redraws_weather: bool = field(init=False, default=True)
    last_loss: Floats = field(init=False)  #: (M,) [1] training loss when the floor last completed a round; nan: never
    _simulated: SimulatedPlant = field(init=False)
    _memory: StrategyMemory = field(init=False)

    def __post_init__(self) -> None:
        self._simulated = SimulatedPlant(self.scenario, simulated_rates(self.scenario))
        self._memory = StrategyMemory.of(self.strategy)
        self.last_loss = np.full(len(self.scenario.floors), np.nan)

    @property
    def index(self) -> int:
        """Number of the next round."""
        return self._simulated.index

    def observe(self) -> RoundState:
        """The simulated round, with the losses that nodes have reported."""
        return dataclasses.replace(self._simulated.observe(), last_loss=self.last_loss)

    def execute(self, decision: Decision) -> Outcome:
        """Let the nodes of the floors that complete the round train, aggregate their replies, and evaluate.

        A floor that lacks memory or energy by the cost model gets no message and fails as in a simulation. A node that
        does not answer in time, or with an error, is a lost floor: its time and energy count, its model does not.
        """
        if decision.weight is not None:
            problem = "weights the models of floors itself, and so does the strategy of Flower"
            raise PolicyError(f"policy {shown(self.scenario.policy.name)}: {problem}. Choose another policy")
        predicted = self._simulated.execute(decision)
        begun = time.perf_counter()
        floors = np.flatnonzero(predicted.completed).tolist()
        sent, replies = self._train(floors)
        losses = self._losses(replies)
        train_time = time.perf_counter() - begun
        begun = time.perf_counter()
        accuracy, loss = self._evaluate()
        outcome = dataclasses.replace(
            _with_lost(predicted, [m for m in floors if m not in losses]),
            loss=_by_floor(losses, predicted.completed.size),
            accuracy=accuracy,
            test_loss=loss,
            seconds=Seconds(
                train=train_time,
                evaluate=time.perf_counter() - begun,
                messages=tuple(
                    MessageSeconds(
                        name=self.scenario.floors[m].name,
                        answered=max(reply.metadata.created_at - sent[m], 0.0),
                        predicted=float(predicted.delay[m]),
                    )
                    for m, reply in replies.items()
                ),
            ),
        )
        self._simulated.book(outcome)
        self.last_loss = np.where(np.isfinite(outcome.loss), outcome.loss, self.last_loss)
        return outcome

    def settle(self, queue: Floats) -> None:
        """Keep the queues and advance to the next round."""
        self._simulated.settle(queue)

    def snapshot(self) -> PlantState:
        """Arrays, queues, rates, batteries, last losses, and what the strategy remembers."""
        simulated = self._simulated.snapshot()
        described, tensors = self._memory.saved()
        values: dict[str, JsonValue] = {
            **simulated.values,
            "last_loss": numbers_to(self.last_loss),
            "strategy": described,
        }
        weights = {name: np.asarray(array.numpy(), order="C") for name, array in self.arrays.items()}
        return PlantState(self.index, values, weights, {f"{_STRATEGY}{name}": part for name, part in tensors.items()})

    def restore(self, state: PlantState) -> None:
        """Continue from a snapshot."""
        shapes = {name: tuple(array.shape) for name, array in self.arrays.items()}
        for name in shapes.keys() | state.weights.keys():
            there = None if name not in state.weights else state.weights[name].shape
            if shapes.get(name) != there:
                problem = f"must be {shapes.get(name)}, as in initial_arrays, got {there}"
                raise ValueError(f"weights {shown(name)}: the shape {problem}")
        tensors = {
            name.removeprefix(_STRATEGY): part for name, part in state.memory.items() if name.startswith(_STRATEGY)
        }
        self._simulated.restore(state)
        self.last_loss = numbers_from(state.values, "last_loss", self.last_loss.size, gaps=True)
        self._memory.restore(state.values.get("strategy"), tensors)
        arrays = remember({name: state.weights[name] for name in shapes}, "record")
        assert isinstance(arrays, ArrayRecord)
        self.arrays = arrays
        self.result.arrays = arrays

    def _train(self, floors: Sequence[int]) -> tuple[dict[int, float], dict[int, Message]]:
        """When each floor's message was made [s], and the replies, those with an error included, by floor."""
        if not floors:
            return {}, {}
        exchange, number = self.exchange, self.index + 1
        chosen = {exchange.nodes[m]: m for m in floors}
        grid = ChosenGrid(exchange.grid, list(chosen))
        with _as_decided(self.strategy, len(chosen)):
            messages = list(self.strategy.configure_train(number, self.arrays, exchange.train_config, grid))
        self._refuse_other_nodes([message.metadata.dst_node_id for message in messages], chosen)
        sent = {chosen[message.metadata.dst_node_id]: message.metadata.created_at for message in messages}
        received = list(exchange.grid.send_and_receive(messages, timeout=exchange.timeout))
        del messages
        replies = {chosen[reply.metadata.src_node_id]: reply for reply in received}
        replies = {m: replies[m] for m in floors if m in replies}  # in one order, however they came in
        with _as_decided(self.strategy, len(chosen)):
            arrays, metrics = self.strategy.aggregate_train(number, list(replies.values()))
        if arrays is not None:
            self.arrays = self.result.arrays = arrays
        if metrics is not None:
            log(INFO, "\t└──> Aggregated MetricRecord: %s", metrics)
            self.result.train_metrics_clientapp[number] = metrics
        return sent, replies

    def _refuse_other_nodes(self, nodes: Sequence[int], chosen: Mapping[int, int]) -> None:
        if sorted(nodes) == sorted(chosen):
            return
        name = type(self.strategy).__name__
        problem = f"strategy {name}: samples nodes itself: it sends {len(nodes)} messages to {len(chosen)} chosen nodes"
        raise FedfloorError(f"{problem}. Wrap a strategy that trains all nodes of the grid it is given, such as FedAvg")

    def _losses(self, replies: Mapping[int, Message]) -> dict[int, float]:
        """Training losses of the floors that answered, nan where a node reports none; lost floors are left out."""
        losses: dict[int, float] = {}
        for m, reply in replies.items():
            if reply.has_error():
                log(WARNING, "fedfloor: %s is lost: %s", self.scenario.floors[m].name, reply.error.reason)
                continue
            loss = _metric(reply.content.metric_records.values(), self.keys.train_loss)
            if loss is None and self.needs_losses:
                problem = f"the reply of {self.scenario.floors[m].name} has no metric {self.keys.train_loss[0]!r}"
                advice = "Name the metric with train_loss_key, or choose another policy"
                raise PolicyError(f"{problem}, by which the policy decides. {advice}")
            losses[m] = math.nan if loss is None else loss
        return losses

    def _evaluate(self) -> tuple[float | None, float | None]:
        """Accuracy and loss of an evaluation by the server, or else by nodes; None where there is none.

        Both happen as in Flower, and take no simulated time.
        """
        exchange, number = self.exchange, self.index + 1
        messages = list(self.strategy.configure_evaluate(number, self.arrays, exchange.evaluate_config, exchange.grid))
        replies = list(exchange.grid.send_and_receive(messages, timeout=exchange.timeout)) if messages else []
        by_nodes = self.strategy.aggregate_evaluate(number, replies)
        if by_nodes is not None:
            log(INFO, "\t└──> Aggregated MetricRecord: %s", by_nodes)
            self.result.evaluate_metrics_clientapp[number] = by_nodes
        by_server = self.evaluate_centrally(number)
        records = [record for record in (by_server, by_nodes) if record is not None]
        accuracy, loss = _metric(records, self.keys.accuracy), _metric(records, self.keys.loss)
        if accuracy is not None and not 0.0 <= accuracy <= 1.0:
            problem = f"metric {self.keys.accuracy[0]!r}: must be from 0 to 1, got {accuracy:g}"
            raise FedfloorError(f"{problem}. Return the share of samples that are right, or name another accuracy_key")
        return accuracy, loss if loss is not None and math.isfinite(loss) else None

    def evaluate_centrally(self, number: int) -> MetricRecord | None:
        """What the server's own evaluation says after so many rounds; None without one."""
        if self.exchange.evaluate_fn is None:
            return None
        metrics = self.exchange.evaluate_fn(number, self.arrays)
        log(INFO, "\t└──> MetricRecord of the server: %s", metrics)
        if metrics is not None:
            self.result.evaluate_metrics_serverapp[number] = metrics
        return metrics


@contextmanager
def _as_decided(strategy: Strategy, count: int) -> Iterator[None]:
    """Let a strategy train so many nodes although it was told to wait for more: the policy decides how many."""
    limits = [
        (layer, name, getattr(layer, name))
        for layer in layers_of(strategy)
        for name in ("min_train_nodes", "min_available_nodes")
        if isinstance(getattr(layer, name, None), int)
    ]
    try:
        for layer, name, least in limits:
            setattr(layer, name, min(least, count))
        yield
    finally:
        for layer, name, least in limits:
            setattr(layer, name, least)


def _metric(records: Iterable[MetricRecord], keys: Sequence[str]) -> float | None:
    """The number under the first key that is there, in the first record that has one; None if there is none."""
    for record in records:
        for key in keys:
            value = record.get(key)
            if isinstance(value, int | float):
                return float(value)
    return None


def _with_lost(predicted: Outcome, lost: Sequence[int]) -> Outcome:
    """The outcome with floors that did not deliver although they could."""
    completed, failure = predicted.completed.copy(), list(predicted.failure)
    completed[lost] = False
    for m in lost:
        failure[m] = "lost"
    return dataclasses.replace(predicted, completed=completed, failure=tuple(failure))


def _by_floor(losses: Mapping[int, float], floors: int) -> Floats:
    """Losses (M,) with nan for floors that have none."""
    return np.array([losses.get(m, math.nan) for m in range(floors)])
