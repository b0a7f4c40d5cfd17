"""A plant whose floors are nodes of a Flower federation: costs and clock are simulated, training is the nodes' own."""

__all__ = ["FlowerExchange", "FlowerPlant", "refuse_arrays", "refuse_sampling"]

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from logging import INFO, WARNING

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from flwr.supercore import log
from pydantic import JsonValue

from fedfloor.arguments import refuse_other
from fedfloor.arrays import Floats
from fedfloor.errors import FedfloorError, PolicyError, shown
from fedfloor.flower.describing import samples_remark
from fedfloor.flower.evaluating import MetricKeys, evaluation_problems, metric_in
from fedfloor.flower.memory import StrategyMemory, layers_of, record_of
from fedfloor.flower.nodes import ChosenGrid, FloorNodes, replies_to
from fedfloor.flower.replies import ReplyRules, arrays_problem, with_safe_error
from fedfloor.rounds.listeners.checkpoint import MEMORY
from fedfloor.rounds.outcome import MessageSeconds, Outcome, Seconds
from fedfloor.rounds.plants.contract import PlantState, numbers_from, numbers_to
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.scenario.resolved import Scenario
from fedfloor.scheduling.state import Decision, RoundState

Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]

_SAMPLES = "num-examples"  #: the weight of replies that is a number of samples
_STRATEGY = "strategy/"  #: beginning of the names of tensors that the strategy remembers


@dataclass(frozen=True, slots=True, eq=False)
class FlowerExchange:
    """How a run talks to its nodes: the arguments of a Flower strategy's `start`."""

    nodes: FloorNodes
    timeout: float  #: [s]
    train_config: ConfigRecord
    evaluate_config: ConfigRecord
    evaluate_fn: Evaluate | None

    @property
    def grid(self) -> Grid:
        """The way to the nodes."""
        return self.nodes.grid


def refuse_sampling(strategy: Strategy) -> None:
    """Refuse a strategy that is told to choose nodes itself."""
    for layer in layers_of(strategy):
        fraction = getattr(layer, "fraction_train", 1.0)
        if fraction != 1.0:
            problem = f"strategy {type(layer).__name__}: fraction_train must be 1, got {shown(fraction)}"
            raise FedfloorError(f"{problem}: the policy decides which nodes take part. Leave fraction_train out")


def refuse_arrays(arrays: ArrayRecord) -> None:
    """Refuse arrays that no run can begin with: numbers that are not finite, and names that checkpoints need."""
    problem = arrays_problem(arrays)
    if problem:
        raise FedfloorError(f"initial_arrays: {problem}. Begin with a model that can be trained")
    for name in arrays:
        if name.startswith(MEMORY):
            problem = (
                f"initial_arrays: the name {shown(name)} begins with {MEMORY!r}, which checkpoints need themselves"
            )
            raise FedfloorError(f"{problem}. Give the array another name")


@dataclass(slots=True, eq=False)
class FlowerPlant:
    """Keeps the arrays between rounds; weather, costs, energy, queues and clock are those of a simulation."""

    scenario: Scenario
    strategy: Strategy
    exchange: FlowerExchange
    keys: MetricKeys
    arrays: ArrayRecord
    needs_losses: bool = False  #: the policy decides by training losses
    must_match: bool = True  #: replies must have the arrays that were sent, and the metrics of other replies
    result: Result = field(default_factory=Result)
    last_loss: Floats = field(init=False)  #: (M,) [1] training loss when the floor last completed a round; nan: never
    _simulated: SimulatedPlant = field(init=False)
    _memory: StrategyMemory = field(init=False)
    _rules: ReplyRules = field(init=False)
    _had_usable: bool = field(init=False, default=False)  #: a reply could be used, or a checkpoint was restored
    _wrong: set[int] = field(init=False, default_factory=set)  #: floors that sent what cannot be used before that
    _initial: dict[str, JsonValue] = field(init=False)  #: shapes of the arrays that the run begins with
    _reported: set[int] = field(init=False, default_factory=set)  #: floors whose samples are known
    _present: Mapping[int, int] = field(init=False, default_factory=dict)  #: node ids by floor, in this round

    def __post_init__(self) -> None:
        self._simulated = SimulatedPlant(self.scenario, simulated_rates(self.scenario))
        configs = {"train_config": self.exchange.train_config, "evaluate_config": self.exchange.evaluate_config}
        self._memory = StrategyMemory.of(self.strategy, configs)
        self._rules = ReplyRules.of(self.strategy, must_match=self.must_match)
        self._initial = {name: list(array.shape) for name, array in self.arrays.items()}
        self.last_loss = np.full(len(self.scenario.floors), np.nan)

    @property
    def index(self) -> int:
        """Number of the next round."""
        return self._simulated.index

    @property
    def redraws_weather(self) -> bool:
        """Only with simulated nodes: a real one may be absent, which is weather too."""
        return self.exchange.nodes.are_simulated

    @property
    def forgets(self) -> list[str]:
        """What of the strategy no checkpoint keeps."""
        return self._memory.left_out()

    def observe(self) -> RoundState:
        """The simulated round, with dead links to floors whose nodes are absent, and the losses that nodes reported."""
        state, self._present = self._simulated.observe(), self.exchange.nodes.present()
        there = np.array([m in self._present for m in range(len(self.scenario.floors))])
        if not there.all():
            state = self._simulated.see(state.weather.reaching(there))
        return dataclasses.replace(state, last_loss=self.last_loss)

    def execute(self, decision: Decision) -> Outcome:
        """Let the nodes of the floors that complete the round train, aggregate their replies, and evaluate.

        A floor that lacks memory or energy by the cost model gets no message and fails as in a simulation. A node that
        does not answer in time, or with an error or with what cannot be aggregated, is a lost floor: its time and
        energy count, its model does not. So are all floors of a round whose models the strategy does not aggregate.
        """
        if decision.weight is not None:
            problem = "weights the models of floors itself, and so does the strategy of Flower"
            raise PolicyError(f"policy {shown(self.scenario.policy.name)}: {problem}. Choose another policy")
        predicted = self._simulated.execute(decision)
        begun = time.perf_counter()
        floors = np.flatnonzero(predicted.completed).tolist()
        sent, replies = self._train(floors)
        losses = {m: self._loss(m, reply) for m, reply in replies.items()}
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
            "initial_arrays": self._initial,
            "arrays": list(self.arrays),
            "strategy": described,
        }
        weights = {name: np.asarray(array.numpy(), order="C") for name, array in self.arrays.items()}
        return PlantState(self.index, values, weights, {f"{_STRATEGY}{name}": part for name, part in tensors.items()})

    def restore(self, state: PlantState) -> None:
        """Continue from a snapshot."""
        began = state.values.get("initial_arrays")
        shapes = began if isinstance(began, dict) else {}
        for name in sorted(shapes.keys() | self._initial.keys()):
            if shapes.get(name) != self._initial.get(name):
                problem = f"must be {shapes.get(name)}, as when the run began, got {self._initial.get(name)}"
                raise ValueError(f"initial_arrays: the shape of {shown(name)} {problem}")
        tensors = {
            name.removeprefix(_STRATEGY): part for name, part in state.memory.items() if name.startswith(_STRATEGY)
        }
        self._simulated.restore(state)
        self.last_loss = numbers_from(state.values, "last_loss", self.last_loss.size, gaps=True, least=-math.inf)
        self._memory.restore(state.values.get("strategy"), tensors)
        order = state.values.get("arrays")
        if not isinstance(order, list) or sorted(map(str, order)) != sorted(state.weights):
            raise ValueError(f"arrays: must name the tensors of the model, got {shown(order)}")
        self.arrays = self.result.arrays = record_of({str(name): state.weights[str(name)] for name in order})
        self._had_usable = True

    def _train(self, floors: Sequence[int]) -> tuple[dict[int, float], dict[int, Message]]:
        """When each floor's message was made [s], and the replies whose models were aggregated, by floor."""
        if not floors:
            return {}, {}
        exchange, number = self.exchange, self.index + 1
        chosen = {self._present[m]: m for m in floors}
        with _content_with(self.strategy, len(chosen)):
            messages = list(
                self.strategy.configure_train(
                    number, self.arrays, exchange.train_config, ChosenGrid(exchange.grid, list(chosen))
                )
            )
        self._refuse_other_nodes([message.metadata.dst_node_id for message in messages], chosen)
        sent = {chosen[message.metadata.dst_node_id]: message.metadata.created_at for message in messages}
        replies, problems = self._checked_replies(messages, chosen)
        del messages
        usable = {m: reply for m, reply in replies.items() if not problems[m]}
        self._compare_samples(usable)
        with _content_with(self.strategy, len(chosen)):
            failed = [reply for reply in replies.values() if reply.has_error()]
            arrays, metrics = self.strategy.aggregate_train(number, [*usable.values(), *failed])
        if metrics is not None:
            log(INFO, "\t└──> Aggregated MetricRecord: %s", metrics)
            self.result.train_metrics_clientapp[number] = metrics
        if arrays is None:
            name = type(self.strategy).__name__
            log(WARNING, "fedfloor: %s has aggregated nothing, so the floors of this round are lost", name)
            return sent, {}
        problem = arrays_problem(arrays)
        if problem:
            log(
                WARNING, "fedfloor: the aggregated model is not used, so the floors of this round are lost: %s", problem
            )
            return sent, {}
        self.arrays = self.result.arrays = arrays
        return sent, usable

    def _compare_samples(self, replies: Mapping[int, Message]) -> None:
        """Say once of every floor if its node has another number of samples than the scenario.

        Other weights than Flower's usual one need not be numbers of samples.
        """
        if self._rules.weight != _SAMPLES:
            return
        counts = {m: count for m, count in self._rules.weights(replies).items() if m not in self._reported}
        self._reported |= counts.keys()
        remark = samples_remark(counts, self.scenario)
        if remark:
            log(WARNING, "fedfloor: %s", remark)

    def _checked_replies(
        self, messages: Sequence[Message], chosen: Mapping[int, int]
    ) -> tuple[dict[int, Message], dict[int, str]]:
        """The replies to training messages, by floor in one order however they came in, and what is wrong with each.

        A floor without a reply is only among the problems.
        """
        exchange = self.exchange
        asked = {chosen[message.metadata.dst_node_id]: message for message in messages}
        received = replies_to(messages, exchange.grid.send_and_receive(messages, timeout=exchange.timeout))
        replies = {m: with_safe_error(received[node], asked[m]) for node, m in chosen.items() if node in received}
        problems = self._rules.of_training(replies, {m: message.content for m, message in asked.items()})
        missing = [m for m in asked if m not in replies]
        problems |= dict.fromkeys(missing, f"no answer within {exchange.timeout:g} s")
        for m, problem in problems.items():
            if problem:
                log(WARNING, "fedfloor: %s is lost: %s", self.scenario.floors[m].name, problem)
        self._had_usable = self._had_usable or any(not problems[m] for m in replies)
        self._refuse_app({m: problems[m] for m, reply in replies.items() if problems[m] and reply.has_content()})
        return replies, problems

    def _refuse_app(self, wrong: Mapping[int, str]) -> None:
        """Refuse an app of which two floors have sent what cannot be used, and nobody anything else so far.

        `wrong` are the problems of this round, by floor. A floor that is alone in the plant decides by itself.
        """
        if self._had_usable or not wrong:
            return
        self._wrong |= wrong.keys()
        if len(self._wrong) >= min(2, len(self.scenario.floors)):
            advice = ", or pass check_replies=False if your strategy expects such replies" if self.must_match else ""
            problem = f"no reply so far can be used: {next(iter(wrong.values()))}"
            raise FedfloorError(f"{problem}. Correct the ClientApp{advice}")

    def _refuse_other_nodes(self, nodes: Sequence[int], chosen: Mapping[int, int]) -> None:
        if sorted(nodes) == sorted(chosen):
            return
        name = type(self.strategy).__name__
        problem = f"strategy {name}: samples nodes itself: it sends {len(nodes)} messages to {len(chosen)} chosen nodes"
        raise FedfloorError(f"{problem}. Wrap a strategy that trains all nodes of the grid it is given, such as FedAvg")

    def _loss(self, m: int, reply: Message) -> float:
        """Training loss that a node reports; nan if it reports none."""
        found = metric_in(reply.content.metric_records.values(), self.keys.train_loss)
        if found is None and self.needs_losses:
            problem = f"the reply of {self.scenario.floors[m].name} has no metric {self.keys.train_loss[0]!r}"
            advice = "Name the metric with train_loss_key, or choose another policy"
            raise PolicyError(f"{problem}, by which the policy decides. {advice}")
        return math.nan if found is None else found[1]

    def _evaluate(self) -> tuple[float | None, float | None]:
        """Accuracy and loss of an evaluation by the server if there is one, else by nodes; None where there is none.

        Both happen as in Flower, and take no simulated time.
        """
        exchange, number, nodes = self.exchange, self.index + 1, list(self._present.values())
        with _content_with(self.strategy, len(nodes)):
            messages = list(
                self.strategy.configure_evaluate(
                    number, self.arrays, exchange.evaluate_config, ChosenGrid(exchange.grid, nodes)
                )
            )
        by_nodes = self.strategy.aggregate_evaluate(number, self._checked_evaluations(messages))
        if by_nodes is not None:
            log(INFO, "\t└──> Aggregated MetricRecord: %s", by_nodes)
            self.result.evaluate_metrics_clientapp[number] = by_nodes
        by_server = self.evaluate_centrally(number)
        return self.keys.result_in(by_nodes) if exchange.evaluate_fn is None else by_server

    def _checked_evaluations(self, messages: Sequence[Message]) -> list[Message]:
        """The replies to evaluation messages that can be averaged, and those that are errors."""
        if not messages:
            return []
        exchange = self.exchange
        asked = {message.metadata.dst_node_id: message for message in messages}
        received = replies_to(messages, exchange.grid.send_and_receive(messages, timeout=exchange.timeout))
        replies = {node: with_safe_error(reply, asked[node]) for node, reply in received.items()}
        problems = evaluation_problems(replies, self._rules, self.keys)
        names = {node: self.scenario.floors[m].name for m, node in self._present.items()}
        for node, problem in problems.items():
            if problem:
                log(WARNING, "fedfloor: the evaluation by %s does not count: %s", names.get(node, node), problem)
        return [reply for node, reply in replies.items() if reply.has_error() or not problems[node]]

    def evaluate_centrally(self, number: int) -> tuple[float | None, float | None]:
        """Accuracy and loss by the server's own evaluation after so many rounds; None where there is none."""
        if self.exchange.evaluate_fn is None:
            return None, None
        metrics = self.exchange.evaluate_fn(number, self.arrays)
        log(INFO, "\t└──> MetricRecord of the server: %s", metrics)
        if metrics is not None:
            refuse_other("evaluate_fn: its result", metrics, MetricRecord, "Return MetricRecord({...}) or None")
            self.result.evaluate_metrics_serverapp[number] = metrics
        return self.keys.result_in(metrics)


@contextmanager
def _content_with(strategy: Strategy, count: int) -> Iterator[None]:
    """Lower a strategy's minimum numbers of nodes to `count`, because the policy decides."""
    limits = [
        (layer, name, getattr(layer, name))
        for layer in layers_of(strategy)
        for name in ("min_train_nodes", "min_evaluate_nodes", "min_available_nodes")
        if isinstance(getattr(layer, name, None), int)
    ]
    try:
        for layer, name, least in limits:
            setattr(layer, name, min(least, count))
        yield
    finally:
        for layer, name, least in limits:
            setattr(layer, name, least)


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
