"""Aggregation rules against their published formulas, what they keep, and what they refuse."""

import threading
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from torch import nn

from fedfloor.arrays import Vector
from fedfloor.errors import AggregationError
from fedfloor.scenario.file import Aggregation, Precision
from fedfloor.training.aggregation.aggregator import Aggregator
from fedfloor.training.aggregation.averaging import AveragedModel
from fedfloor.training.aggregation.contract import Gathered, Memory, Step, Update
from fedfloor.training.aggregation.gaps import Gaps, next_gaps
from fedfloor.training.aggregation.normalising import iteration_scales, step_weight
from fedfloor.training.aggregation.registry import make_rule, rule_summaries
from fedfloor.training.exchange import Exchange
from fedfloor.training.network.weights import Layout, average

P, M = 6, 3
RNG = np.random.default_rng(0)
BUILT_IN = sorted(rule_summaries())


def vector() -> Vector:
    return RNG.normal(size=P).astype(np.float32)


def gathered(weights: Vector, changes: dict[int, Vector]) -> Gathered:
    """A round in which floors with equal points completed with these changes."""
    share = 1.0 / len(changes)
    mean = weights + sum(share * change.astype(np.float64) for change in changes.values())

    def updates() -> Iterator[Update]:
        return (Update(floor, share, change) for floor, change in changes.items())

    return Gathered(weights, mean.astype(np.float32), np.full(M, 1.0 / M), updates)


def rule(name: str, **settings: Any) -> Any:
    return make_rule(Aggregation(rule=name, settings=settings))


def played(name: str, rounds: Sequence[dict[int, Vector]], **settings: Any) -> tuple[list[Vector], Memory]:
    """Weights after every round from 0 on, and what the rule keeps at the end."""
    memory: dict[str, Vector] = {}
    weights, history = np.zeros(P, np.float32), []
    for changes in rounds:
        step = rule(name, **settings).step(gathered(weights, changes), memory)
        weights, memory = step.weights, dict(step.memory)
        history.append(weights)
    return history, memory


ROUNDS = [{0: vector(), 2: vector()}, {1: vector()}, {0: vector(), 1: vector()}]
MEANS = [np.mean(list(changes.values()), axis=0) for changes in ROUNDS]


def test_fedavgm_adds_what_is_left_of_earlier_changes() -> None:
    history, _ = played("fedavgm", ROUNDS, momentum=0.5, learning_rate=2.0)
    velocities = [MEANS[0], 0.5 * MEANS[0] + MEANS[1], 0.25 * MEANS[0] + 0.5 * MEANS[1] + MEANS[2]]
    assert history[-1] == pytest.approx(2.0 * np.sum(velocities, axis=0), abs=1e-5)


@pytest.mark.parametrize("second_moment", ["yogi", "adam", "adagrad"])
def test_fedyogi_and_its_kin_follow_algorithm_2(second_moment: str) -> None:
    history, _ = played("fedyogi", ROUNDS, learning_rate=0.1, second_moment=second_moment)
    m, v, w = np.zeros(P), np.full(P, 1e-6), np.zeros(P)
    for mean in MEANS:
        m, square = 0.9 * m + 0.1 * mean, mean.astype(float) ** 2
        v = {
            "yogi": v - 0.01 * square * np.sign(v - square),
            "adam": 0.99 * v + 0.01 * square,
            "adagrad": v + square,
        }[second_moment]
        w = w + 0.1 * m / (np.sqrt(v) + 1e-3)
    assert history[-1] == pytest.approx(w, rel=1e-4, abs=1e-6)


def test_fedexp_takes_longer_steps_only_where_floors_disagree() -> None:
    one, other = vector(), vector()
    (alike,), _ = played("fedexp", [{0: one, 1: one}], epsilon=0.0)
    assert alike == pytest.approx(one, abs=1e-6)  # |D|^2 / (2 |D|^2) is 1/2, so the rate is 1
    (apart,), memory = played("fedexp", [{0: one, 1: other}], epsilon=0.1)
    mean = (one + other) / 2
    rate = max(1.0, float(one @ one + other @ other) / (2 * 2 * float(mean @ mean + 0.1)))
    assert apart == pytest.approx(rate * mean, abs=1e-5)
    assert memory == {}


def test_fedvarp_lets_the_last_change_stand_in_for_an_absent_floor() -> None:
    history, memory = played("fedvarp", ROUNDS)
    (a, c), b = (ROUNDS[0][0], ROUNDS[0][2]), ROUNDS[1][1]
    assert history[0] == pytest.approx(MEANS[0], abs=1e-6)  # nothing is remembered yet
    assert history[1] - history[0] == pytest.approx(b + (a + c) / 3, abs=1e-6)  # floor 1 had no last change
    third = MEANS[2] - (a + b) / 2 + (a + b + c) / 3
    assert history[2] - history[1] == pytest.approx(third, abs=1e-5)
    assert np.array_equal(memory["floor-2"], c)
    assert np.array_equal(memory["floor-1"], ROUNDS[2][1])


def test_fedstale_lies_between_plain_averaging_and_fedvarp() -> None:
    mean, varp = played("mean", ROUNDS)[0][-1], played("fedvarp", ROUNDS)[0][-1]
    assert np.array_equal(played("fedstale", ROUNDS, stale=0.0)[0][-1], mean)
    assert np.array_equal(played("fedstale", ROUNDS, stale=1.0)[0][-1], varp)
    assert played("fedstale", ROUNDS, stale=0.25)[0][-1] == pytest.approx(0.75 * mean + 0.25 * varp, abs=1e-5)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_rule_changes_nothing_that_it_reads_and_keeps_at_most_a_model_per_floor(name: str) -> None:
    memory: dict[str, Vector] = {}
    weights = np.zeros(P, np.float32)
    for changes in ROUNDS:
        state = gathered(weights, changes)
        arrays: list[Any] = [state.weights, state.mean, state.points, *changes.values(), *memory.values()]
        for array in arrays:
            array.setflags(write=False)
        one, two = rule(name).step(state, memory), rule(name).step(state, memory)
        assert np.array_equal(one.weights, two.weights)
        weights, memory = one.weights, dict(one.memory)
        assert sum(values.size for values in memory.values()) <= M * P


def test_mean_gaps_follow_algorithm_2_of_fedau() -> None:
    gaps, weights = Gaps.unknown(2), []
    for completed in ([True, False], [False, False], [True, False], [True, True]):
        weights.append(gaps.mean.tolist())
        gaps = next_gaps(gaps, np.array(completed), cutoff=3)
    # floor 0: gaps of 1, 2 and 1 rounds; floor 1: cut at 3 rounds, then 1
    assert weights == [[1, 1], [1, 1], [1, 1], [1.5, 3]]
    assert gaps.mean.tolist() == [pytest.approx(4 / 3), 2]


def test_the_averaged_model_starts_with_the_first_round_and_forgets_at_the_decay() -> None:
    averaged, models = AveragedModel(0.5), [vector() for _ in range(3)]
    for model in models:
        averaged.add(model)
    assert averaged.weights == pytest.approx((0.25 * models[0] + 0.5 * models[1] + models[2]) / 1.75, abs=1e-6)


@dataclass(frozen=True)
class Sent:
    """What arrives of a floor."""

    floor: int
    points: float
    model: Vector


def aggregator(name: str, gaps: Gaps | None = None) -> tuple[Aggregator, Layout]:
    layout = Layout(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    exchange = Exchange(Precision(), layout, floors=M, seed=0)
    return Aggregator(rule(name), exchange, np.array([1.0, 2.0, 3.0]), gaps), layout


@pytest.mark.parametrize("name", BUILT_IN)
def test_statistics_of_batch_norm_are_averaged_whatever_the_rule(name: str) -> None:
    station, layout = aggregator(name)
    weights = np.ones(layout.size, np.float32)
    for _ in range(2):
        sent = [Sent(m, m + 1.0, RNG.uniform(1, 2, layout.size).astype(np.float32)) for m in (0, 2)]
        mean = average(((entry.points, entry.model) for entry in sent), layout.size)
        mean[-1] = np.rint(mean[-1])  # the number of batches is whole
        weights = station.combined(weights, sent)
        assert np.array_equal(weights[~layout.learnt], mean[~layout.learnt])
        assert name != "mean" or np.array_equal(weights, mean)


class Listing:
    """A rule that notes in which order it sees what it keeps."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = []

    def step(self, gathered: Gathered, memory: Memory) -> Step:
        self.seen.append(list(memory))
        return Step(gathered.mean, {name: np.zeros(1, np.float32) for name in ("b", "floor-10", "c", "floor-9", "a")})


def test_a_rule_sees_what_it_keeps_in_the_same_order_after_a_resume() -> None:
    """It may add numbers up in this order, and files of weights are read in any."""
    station, layout = aggregator("mean")
    station.rule = listing = Listing()
    sent = [Sent(0, 1.0, np.ones(layout.size, np.float32))]
    for _ in range(2):
        station.combined(np.ones(layout.size, np.float32), sent)
    station.restore(dict(reversed(list(station.memory.items()))), None)
    station.combined(np.ones(layout.size, np.float32), sent)
    assert listing.seen == [[], *[["a", "b", "c", "floor-10", "floor-9"]] * 2]


class Counting:
    """A rule that counts its steps on itself."""

    def __init__(self) -> None:
        self.steps = 0

    def step(self, gathered: Gathered, memory: Memory) -> Step:
        self.steps += 1
        return Step((gathered.weights + gathered.change / np.float32(self.steps)).astype(np.float32), memory)


def test_a_rule_that_keeps_state_on_itself_is_refused_in_its_second_step() -> None:
    station, layout = aggregator("mean")
    station = Aggregator(Counting(), station.exchange, station.points)
    sent = [Sent(0, 1.0, np.ones(layout.size, np.float32))]
    station.combined(np.zeros(layout.size, np.float32), sent)
    with pytest.raises(AggregationError, match=r"rule Counting: its step 2 is not that of a new object. It keeps"):
        station.combined(np.zeros(layout.size, np.float32), sent)


class Late(Counting):
    """A rule whose count changes its fourth step only."""

    def step(self, gathered: Gathered, memory: Memory) -> Step:
        self.steps += 1
        return Step((gathered.mean * np.float32(1 + (self.steps > 3))).astype(np.float32), memory)


def test_a_rule_whose_attributes_change_is_compared_in_every_step() -> None:
    station, layout = aggregator("mean")
    station = Aggregator(Late(), station.exchange, station.points)
    sent = [Sent(0, 1.0, np.ones(layout.size, np.float32))]
    for _ in range(3):
        station.combined(np.zeros(layout.size, np.float32), sent)
    with pytest.raises(AggregationError, match=r"rule Late: its step 4 is not that of a new object"):
        station.combined(np.zeros(layout.size, np.float32), sent)


class Buffering:
    """A rule that returns the same array in every round."""

    def __init__(self) -> None:
        self.weights: Vector | None = None

    def step(self, gathered: Gathered, memory: Memory) -> Step:
        if self.weights is None:
            self.weights = np.empty_like(gathered.weights)
        self.weights[:] = gathered.mean
        return Step(self.weights, {"mean": self.weights})


def test_what_a_rule_returns_does_not_change_in_the_next_round() -> None:
    layout = Layout(nn.Linear(2, 2))  # everything is learnt
    station = Aggregator(Buffering(), Exchange(Precision(), layout, floors=M, seed=0), np.ones(M))
    ones = np.ones(layout.size, np.float32)
    first = station.combined(ones, [Sent(0, 1.0, ones)])
    kept = station.memory["mean"]
    second = station.combined(first, [Sent(0, 1.0, 3.0 * ones)])
    assert (first == 1.0).all()
    assert (kept == 1.0).all()
    assert (second == 3.0).all()


class Zeroing:
    """A rule that changes what floors have sent."""

    def step(self, gathered: Gathered, memory: Memory) -> Step:
        for update in gathered.updates():
            update.change[:] = 0.0
        return Step(gathered.mean, memory)


class Locking(Buffering):
    """A rule that cannot be copied."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def test_a_rule_that_changes_updates_or_cannot_be_copied_is_refused() -> None:
    layout = Layout(nn.Linear(2, 2))
    exchange = Exchange(Precision(upload=8), layout, floors=M, seed=0)
    ones = np.ones(layout.size, np.float32)
    with pytest.raises(AggregationError, match=r"rule Zeroing: step failed: .*read-only"):
        Aggregator(Zeroing(), exchange, np.ones(M)).combined(ones, [Sent(0, 1.0, ones)])
    with pytest.raises(AggregationError, match=r"rule Locking: cannot be copied: .*lock.*Keep only numbers"):
        Aggregator(Locking(), exchange, np.ones(M))


def test_weights_by_gaps_count_the_points_of_all_floors() -> None:
    gaps = Gaps(np.array([4.0, 1.0, 2.0]), np.ones(M), np.zeros(M))
    station, layout = aggregator("mean", gaps)
    start = np.zeros(layout.size, np.float32)
    sent = [Sent(m, m + 1.0, RNG.normal(size=layout.size).astype(np.float32)) for m in (0, 2)]
    combined = station.combined(start, sent)
    one, other = sent[0].model, sent[1].model
    assert combined[layout.learnt] == pytest.approx(((4 * 1 * one + 2 * 3 * other) / 6)[layout.learnt], abs=1e-6)
    mean = (4 * one + 6 * other) / 10
    mean[-1] = np.rint(mean[-1])  # the number of batches
    assert combined[~layout.learnt] == pytest.approx(mean[~layout.learnt], abs=1e-6)


@pytest.mark.parametrize(
    ("name", "settings", "problem"),
    [
        ("fedavg", {}, "unknown. Did you mean 'fedavgm'"),
        ("fedavgm", {"momentun": 0.5}, "unknown setting 'momentun'. Did you mean 'momentum'"),
        ("mean", {"momentum": 0.5}, "unknown setting 'momentum'. It has no settings"),
        ("fedavgm", {"momentum": 1.0}, "momentum must be a number from 0 to 0.9999, got 1.0"),
        ("fedstale", {"stale": "much"}, "stale must be a number from 0 to 1, got 'much'"),
        ("fedyogi", {"second_moment": "sgd"}, "second_moment must be yogi, adam or adagrad, got 'sgd'"),
        ("json:dumps", {}, "is a function, not a class"),
        ("fractions:Fraction", {}, "has no method step()"),
    ],
)
def test_a_wrong_rule_is_refused(name: str, settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(AggregationError, match=r"^aggregation\.(rule|settings of) ") as caught:
        rule(name, **settings)
    assert problem in str(caught.value)


@dataclass(frozen=True)
class Broken:
    """A rule that does something wrong."""

    how: str = "raises"

    def step(self, gathered: Gathered, memory: Memory) -> Step:
        if self.how == "raises":
            raise RuntimeError("no idea")
        if self.how == "size":
            return Step(gathered.weights[:-1], memory)
        if self.how == "kind":
            return Step(gathered.weights, {"count": np.zeros(1)})  # type: ignore[dict-item]
        if self.how == "name":
            return Step(gathered.mean, {3: np.zeros(1, np.float32)})  # type: ignore[dict-item]
        if self.how == "nan":
            return Step(gathered.mean, {"count": np.full(1, np.nan, np.float32)})
        if self.how == "infinite":
            return Step(np.append(gathered.mean[1:], np.float32(np.inf)), {})
        return gathered.mean  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ("raises", "step failed: RuntimeError: no idea"),
        ("size", "weights must be"),
        ("kind", "count must be a float32 array"),
        ("name", "the names in its memory must be printable ASCII text, got 3"),
        ("nan", "count of its memory must be finite"),
        ("infinite", "weights must be finite, as the mean of the models is, got inf. See docs/faster.md"),
        ("returns", "step must return a Step"),
    ],
)
def test_a_mistake_in_an_own_rule_is_named(how: str, problem: str) -> None:
    station, layout = aggregator("mean")
    station.rule = rule("tests.training.test_aggregation:Broken", how=how)
    weights = np.zeros(layout.size, np.float32)
    with pytest.raises(AggregationError, match="aggregation rule Broken: ") as caught:
        station.combined(weights, [Sent(0, 1.0, weights)])
    assert problem in str(caught.value)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_changes_count_as_if_all_floors_had_done_equally_many_iterations(momentum: float) -> None:  # FedNova
    rate, gradient, iterations, points = 0.1, 2.0, np.array([3, 7]), np.array([1.0, 3.0])

    def change(steps: int) -> float:
        """Of heavy-ball descent along a gradient that never changes."""
        velocity = weight = 0.0
        for _ in range(steps):
            velocity = momentum * velocity + gradient
            weight -= rate * velocity
        return weight

    changes = np.array([change(steps) for steps in iterations.tolist()])
    assert -rate * gradient * step_weight(iterations, momentum) == pytest.approx(changes)
    scaled = iteration_scales(iterations, points, momentum) * changes
    assert scaled[0] == pytest.approx(scaled[1])  # the same gradient has the same say
    assert points @ scaled == pytest.approx(points @ changes)  # and the mean is as long as before


@pytest.mark.parametrize(
    ("name", "models"), [("mean", 0), ("fedavgm", 1), ("fedyogi", 2), ("fedvarp", 3), ("fedstale", 3)]
)
def test_a_rule_keeps_no_more_models_than_the_page_says(name: str, models: int) -> None:
    size, memory = 200_000, dict[str, Vector]()
    weights = np.zeros(size, np.float32)
    chosen = rule(name)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for floor in (0, 1, 2, 0):  # M = 3 floors, each changes every weight
            step = chosen.step(gathered(weights, {floor: np.full(size, 0.1, np.float32)}), memory)
            memory = dict(step.memory)
            del step
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept == pytest.approx(models * weights.nbytes, abs=20_000)


@pytest.mark.parametrize(
    ("name", "models"), [("mean", 6), ("fedavgm", 7), ("fedyogi", 15), ("fedexp", 6), ("fedvarp", 6), ("fedstale", 6)]
)
def test_a_step_needs_no_more_models_than_the_page_says(name: str, models: int) -> None:
    size, memory = 200_000, dict[str, Vector]()
    weights = np.zeros(size, np.float32)
    chosen = rule(name)
    for _ in range(2):  # from the second on with a memory
        changes = {floor: np.full(size, 0.1, np.float32) for floor in range(3)}
        tracemalloc.start()
        try:
            memory = dict(chosen.step(gathered(weights, changes), memory).memory)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert most <= models * weights.nbytes + 20_000


def test_the_averaged_model_keeps_one_model() -> None:
    averaged, size = AveragedModel(0.9), 200_000
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(4):
            averaged.add(np.ones(size, np.float32))
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept == pytest.approx(4 * size, abs=20_000)
