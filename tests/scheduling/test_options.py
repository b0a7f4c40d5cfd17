"""Options of which nothing is monotone in the cut: every part of the solver against trying everything."""

import itertools
import math

import numpy as np
import pytest

from fedfloor.arrays import Floats, Ints
from fedfloor.scheduling.solver import paper
from fedfloor.scheduling.solver.assignment import assign
from fedfloor.scheduling.solver.coupled import enumerated_minimum, searched_minimum
from fedfloor.scheduling.solver.endless import endless_energy
from fedfloor.scheduling.solver.exact import floor_of, least_delay
from fedfloor.scheduling.solver.floor import WITHIN, Budget, Options, undominated
from fedfloor.scheduling.solver.pieces import cheapest_pieces, choice_at, energy_at, fastest_time, quickest_pieces
from fedfloor.scheduling.solver.solve import _gap
from fedfloor.scheduling.solver.uplink import Link
from tests.scheduling.oracle import _upload

CAPACITANCE = 1e-27
SCARCE = ["nothing", "memory", "frequency", "energy", "least frequency", "all"]


def random_options(rng: np.random.Generator, devices: int, cuts: int) -> Options:
    """Options as links make them: what is sent at a cut takes time and energy, and neither follows the depth."""
    work = np.cumsum(rng.uniform(0, 1e9, (devices, cuts)), axis=1)
    traffic = rng.exponential(1.0, (devices, cuts)) * rng.choice([0.1, 1.0, 5.0])
    per_unit = rng.choice([0.0, 0.2, 2.0])
    options = Options(
        a=work / rng.uniform(1e8, 1e9, (devices, 1)) + traffic * rng.uniform(0, 5),
        w=work[:, -1:] - work,
        c=traffic * per_unit,
        g=-np.sort(-rng.uniform(0, 1e9, (devices, cuts))),
        cut=np.tile(np.arange(cuts), (devices, 1)),
        many=np.full(devices, cuts),
    )
    if rng.random() < 0.3:  # no order at all, and ties
        options.w[:] = rng.uniform(0, 4e9, options.w.shape) * (rng.random(options.w.shape) > 0.15)
        options.a[rng.random(options.a.shape) < 0.2] = 5.0
        options.c[:] = np.round(options.c)
        options.g[:] = rng.uniform(0, 1e9, options.g.shape)
    return undominated(options)


def random_budget(rng: np.random.Generator, options: Options, scarce: str) -> Budget:
    held = [options.g[i, :count] for i, count in enumerate(options.many)]
    least, most = sum(float(row.min()) for row in held), sum(float(row.max()) for row in held)
    top = 10 ** rng.uniform(8, 9) if scarce in ("frequency", "all") else 1e10
    return Budget(
        CAPACITANCE,
        min_frequency=top * rng.uniform(0.2, 0.99) if scarce in ("least frequency", "all") else 0.0,
        max_frequency=top,
        memory=least + rng.uniform(-0.05, 0.5) * (most - least) if scarce in ("memory", "all") else 1e12,
        energy=rng.uniform(0.1, 4.0) if scarce in ("energy", "all") else rng.uniform(3.0, 60.0),
    )


def random_link(rng: np.random.Generator) -> Link:
    return Link(scale=10 ** rng.uniform(0, 2), least=10 ** rng.uniform(-3, 0), most_log=rng.uniform(0.5, 8))


class Choices:
    """All choices of one option per device that fit the memory, as arrays (C, n)."""

    def __init__(self, options: Options, budget: Budget) -> None:
        picks = np.array(list(itertools.product(*(range(count) for count in options.many))))
        rows = np.arange(options.many.size)
        picks = picks[options.g[rows, picks].sum(axis=1) <= budget.memory * WITHIN]
        self.a, self.w = options.a[rows, picks], options.w[rows, picks]
        self.fixed = options.c[rows, picks].sum(axis=1)

    def computing(self, time: Floats, budget: Budget) -> Floats:
        """Least energy of computing by a time for each choice (C,); inf where it is too early or too fast."""
        spare = time[:, None] - self.a
        early = np.any(np.where(self.w > 0, spare <= 0, spare < -1e-12 * self.a), axis=1)
        frequency = np.where(self.w > 0, self.w / np.where(spare > 0, spare, 1.0), 0.0)
        short = (frequency.sum(axis=1) < budget.min_frequency) & np.all(self.w > 0, axis=1) & ~early
        if short.any():  # water level by bisection
            f, w = frequency[short], self.w[short]
            low, high = np.zeros(len(f)), budget.min_frequency * w.max(axis=1)
            for _ in range(90):
                level = (low + high) / 2
                under = np.maximum(f, level[:, None] / w).sum(axis=1) < budget.min_frequency
                low, high = np.where(under, level, low), np.where(under, high, level)
            frequency[short] = np.maximum(f, high[:, None] / w)
        fast = frequency.sum(axis=1) > budget.max_frequency * (1 + 1e-12)
        return np.where(early | fast, np.inf, budget.capacitance * (self.w * frequency**2).sum(axis=1))

    def least_delay(self, budget: Budget, link: Link) -> float:
        """Least delay over all choices, golden section in T for each."""
        if not self.fixed.size:
            return math.inf
        noise = link.least / link.scale

        def value(time: Floats) -> Floats:
            left = budget.energy - self.fixed - self.computing(time, budget)
            return time + _upload(left, link.scale, noise, noise * math.expm1(link.most_log))

        low = self.a.max(axis=1)
        high = low + self.w.sum(axis=1) / budget.max_frequency
        for _ in range(80):  # the earliest T within the maximum frequency
            middle = (low + high) / 2
            late = np.isfinite(self.computing(middle, budget))
            low, high = np.where(late, low, middle), np.where(late, middle, high)
        grid = high[:, None] + np.concatenate([[0.0], np.geomspace(1e-7, 1e7, 250)])
        values = np.stack([value(column) for column in grid.T], axis=1)
        at, rows = values.argmin(axis=1), np.arange(len(grid))
        low, high = grid[rows, np.maximum(at - 1, 0)], grid[rows, np.minimum(at + 1, grid.shape[1] - 1)]
        best, golden = values[rows, at], (math.sqrt(5) - 1) / 2
        for _ in range(70):
            left, right = high - golden * (high - low), low + golden * (high - low)
            on_left, on_right = value(left), value(right)
            best = np.minimum(best, np.minimum(on_left, on_right))
            low, high = np.where(on_left < on_right, low, left), np.where(on_left < on_right, right, high)
        return float(best.min())


def exact_delay(options: Options, budget: Budget, link: Link) -> tuple[float, float, float, Ints]:
    """The solver's delay, T, bound and choice; inf where the memory is too small, which `least_delays` finds first."""
    choice, a, w = np.zeros(options.many.size, np.int64), np.empty(options.many.size), np.empty(options.many.size)
    if not Choices(options, budget).fixed.size:
        return math.inf, 0.0, math.inf, choice
    return *least_delay(floor_of(options, budget), link, choice, a, w), choice


@pytest.mark.parametrize(
    "scarce",
    [pytest.param(scarce, marks=pytest.mark.slow) if scarce == "least frequency" else scarce for scarce in SCARCE],
)
def test_exact_equals_trying_all_choices(scarce: str) -> None:
    infeasible = 0
    for seed in range(40):
        rng = np.random.default_rng([seed, SCARCE.index(scarce)])
        options = random_options(rng, *[(1, 12), (2, 8), (3, 6), (4, 4)][seed % 4])
        budget, link = random_budget(rng, options, scarce), random_link(rng)
        value, time, bound, choice = exact_delay(options, budget, link)
        choices = Choices(options, budget)
        best = choices.least_delay(budget, link)
        assert value == pytest.approx(best, rel=1e-6), seed
        assert bound <= best * (1 + 1e-9), seed
        infeasible += best == math.inf
        if best < math.inf:  # the choice that comes with it attains the delay
            rows = np.arange(choice.size)
            choices.a, choices.w = options.a[rows, choice][None], options.w[rows, choice][None]
            left = budget.energy - options.c[rows, choice].sum() - choices.computing(np.array([time]), budget)
            noise = link.least / link.scale
            upload = _upload(left, link.scale, noise, noise * math.expm1(link.most_log))
            assert time + upload[0] == pytest.approx(value, rel=1e-6), seed
            assert options.g[rows, choice].sum() <= budget.memory * WITHIN
    assert infeasible < 30


def test_exact_is_never_behind_the_papers_algorithm_with_links() -> None:
    better = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        options = random_options(rng, 3, 6)
        budget, link = random_budget(rng, options, SCARCE[seed % len(SCARCE)]), random_link(rng)
        choice, frequency = np.zeros(3, np.int64), np.zeros(3)
        theirs, _ = paper._descend(options, budget, link, choice, frequency)
        ours = exact_delay(options, budget, link)[0]
        assert ours <= theirs * (1 + 1e-8), seed
        better += ours < theirs * (1 - 1e-6)
        if theirs < math.inf:
            rows = np.arange(3)
            spent = CAPACITANCE * (options.w[rows, choice] * frequency**2).sum() + options.c[rows, choice].sum()
            assert spent + link.least <= budget.energy * WITHIN
    assert better > 100


@pytest.mark.parametrize("scarce", ["memory", "frequency", "energy", "all"])
def test_the_search_brackets_what_enumeration_finds_with_links(scarce: str) -> None:
    feasible = 0
    for seed in range(15):
        rng = np.random.default_rng([seed, 7])
        options = random_options(rng, 5, 7)
        budget, link = random_budget(rng, options, scarce)._replace(min_frequency=0.0), random_link(rng)
        if not Choices(options, budget).fixed.size:
            continue
        earliest = fastest_time(options, quickest_pieces(options), budget.max_frequency)
        choice, a, w = np.zeros(5, np.int64), np.empty(5), np.empty(5)
        tried = enumerated_minimum(options, budget, link, 0.0, choice, a, w).value
        no_less = earliest + link.scale / link.most_log
        value, _, proven = searched_minimum(earliest, options, budget, link, no_less, choice, a, w)
        if tried == math.inf:
            assert value == proven == math.inf, seed
            continue
        assert proven <= tried * (1 + 1e-12), seed
        assert value >= tried * (1 - 1e-12), seed
        assert value - proven <= 1e-6 * value, seed
        feasible += 1
    assert feasible > 3


def test_the_search_never_calls_a_floor_infeasible_that_is_not() -> None:
    undecided = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, 8])
        options = random_options(rng, 4, 5)
        budget, link = random_budget(rng, options, "all"), random_link(rng)
        if not Choices(options, budget).fixed.size:
            continue
        choice, a, w = np.zeros(4, np.int64), np.empty(4), np.empty(4)
        tried = enumerated_minimum(options, budget, link, 0.0, choice, a, w).value
        value, _, proven = searched_minimum(0.0, options, budget, link, 1.0, choice, a, w)
        assert proven <= tried, seed
        assert value >= tried * (1 - 1e-12), seed
        undecided += value == math.inf > proven
    assert undecided < 5


def test_endless_training_costs_what_the_cheapest_choice_costs() -> None:
    for seed in range(200):
        rng = np.random.default_rng(seed)
        options = random_options(rng, 4, 5)
        budget = random_budget(rng, options, ["memory", "least frequency", "all"][seed % 3])
        choices = Choices(options, budget)
        choice = np.zeros(4, np.int64)
        bound, energy = endless_energy(options, budget, choice)
        if not choices.fixed.size:
            assert bound == energy == math.inf
            continue
        with np.errstate(divide="ignore"):
            computing = CAPACITANCE * budget.min_frequency**2 / (1 / choices.w).sum(axis=1)
        best = float((choices.fixed + computing).min())
        assert bound <= best * (1 + 1e-9)
        assert energy >= best * (1 - 1e-9)
        rows = np.arange(4)
        assert options.g[rows, choice].sum() <= budget.memory * WITHIN
        if budget.min_frequency == 0.0:
            assert energy == pytest.approx(bound) == pytest.approx(best)
            assert options.c[rows, choice].sum() == pytest.approx(best)


def test_pieces_hold_the_cheapest_option_at_every_time() -> None:
    returns = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        options = random_options(rng, 2, 12)
        pieces = cheapest_pieces(options, CAPACITANCE)
        for i, count in enumerate(options.many):
            start, option = pieces.start[i, : pieces.many[i]], pieces.option[i, : pieces.many[i]]
            assert start[0] == options.a[i, :count].min()
            assert np.all(np.diff(start) >= 0)
            assert pieces.many[i] <= 2 * count - 1
            returns += len(set(option.tolist())) < option.size
            for time in np.concatenate([start[0] + np.geomspace(1e-6, 1e6, 60), start[1:] * 1.001, start[1:] * 0.999]):
                spare = time - options.a[i, :count]
                with np.errstate(divide="ignore", invalid="ignore"):
                    cost = CAPACITANCE * options.w[i, :count] ** 3 / spare**2 + options.c[i, :count]
                cost[(spare <= 0) & ((options.w[i, :count] > 0) | (spare < 0))] = math.inf
                if cost.min() < math.inf:
                    assert cost[choice_at(i, time, pieces, False)] <= cost.min() * (1 + 1e-9), (seed, i, time)
    assert returns > 0  # an option comes back after another one has been cheaper


def test_the_least_energy_never_rises_with_time() -> None:
    for seed in range(50):
        rng = np.random.default_rng(seed)
        options = random_options(rng, 3, 8)
        pieces = cheapest_pieces(options, CAPACITANCE)
        times = np.sort(pieces.start[:, 0].max() + rng.exponential(10.0, 80))
        energy = np.array([energy_at(time, options, pieces, CAPACITANCE, False) for time in times])
        assert np.all(np.diff(energy[:, 0]) <= 1e-12 * energy[:-1, 0])
        assert np.all(energy[:, 1] <= 0)


def test_only_dominated_options_are_removed() -> None:
    for seed in range(100):
        rng = np.random.default_rng(seed)
        shape = (2, 8)
        a, w, c, g = (rng.integers(0, 4, shape).astype(float) for _ in range(4))
        needs = np.stack([a, w, c, g], axis=-1)
        kept = undominated(Options(a, w, c, g, np.tile(np.arange(8), (2, 1)), np.full(2, 8)))
        for i in range(2):
            expected = [
                k
                for k in range(8)
                if not any(
                    np.all(needs[i, other] <= needs[i, k]) and (np.any(needs[i, other] < needs[i, k]) or other > k)
                    for other in range(8)
                    if other != k
                )
            ]
            assert kept.cut[i, : kept.many[i]].tolist() == expected
            left = np.stack([kept.a[i], kept.w[i], kept.c[i], kept.g[i]], axis=-1)[: kept.many[i]]
            assert np.array_equal(left, needs[i, expected])


def test_a_floor_that_the_search_gave_up_counts_in_the_gap() -> None:
    queue = np.array([1.0, 2.0])
    delay = np.array([[5.0], [math.inf]])
    assert _gap(assign(delay, queue, 1.0), delay, delay, queue, 1.0) == 0.0
    undecided = np.array([[5.0], [3.0]])  # perhaps the second floor can be served, and faster: 3 - 2 against 5 - 1
    assert _gap(assign(delay, queue, 1.0), delay, undecided, queue, 1.0) == pytest.approx(3 / 5)
    nobody = np.full((2, 1), math.inf)
    assert _gap(assign(nobody, queue, 1.0), nobody, undecided, queue, 1.0) is None
