"""The knapsack against trying everything."""

import math

import numpy as np
import pytest

from fedfloor.arrays import Floats, Ints
from fedfloor.scheduling.solver.floor import WITHIN
from fedfloor.scheduling.solver.knapsack import cheapest_choice


def tried(cost: Floats, space: Floats, rate: Floats, many: Ints) -> float:
    """Least cost of all choices that fit both limits; inf if none does."""
    rows, picks = np.arange(many.size), np.indices(many.tolist()).reshape(many.size, -1).T
    fits = (space[rows, picks].sum(axis=1) <= WITHIN) & (rate[rows, picks].sum(axis=1) <= WITHIN)
    return float(cost[rows, picks].sum(axis=1)[fits].min(initial=math.inf))


@pytest.mark.parametrize("seed", range(60))
def test_knapsack_equals_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    devices, width = 5, 4
    many = rng.integers(1, width + 1, devices)
    cost = rng.exponential(1.0, (devices, width))
    cost[rng.random(cost.shape) < 0.1] = math.inf
    space = rng.uniform(0, 1.5 / devices, cost.shape)
    rate = rng.uniform(0, rng.choice([0.0, 1.0, 1.5]) / devices, cost.shape)
    if seed % 3 == 0:  # deeper cuts cost more and need less, as on a floor
        cost, space, rate = np.sort(cost), -np.sort(-space), -np.sort(-rate)
    if seed % 5 == 0:  # alike devices, where equal partial choices abound
        cost[:], space[:], rate[:], many[:] = cost[0], space[0], rate[0], many[0]
    best = tried(cost, space, rate, many)
    choice = np.full(devices, -1)
    proven, attained = cheapest_choice(cost, space, rate, many, math.inf, choice)
    assert attained == pytest.approx(best, rel=1e-9)
    assert proven == pytest.approx(best, rel=1e-9)
    if best < math.inf:
        rows = np.arange(devices)
        assert cost[rows, choice].sum() == pytest.approx(best, rel=1e-9)
        assert space[rows, choice].sum() <= WITHIN
        assert rate[rows, choice].sum() <= WITHIN
        choice[:] = -1
        proven, attained = cheapest_choice(cost, space, rate, many, 0.9 * best, choice)
        assert attained == math.inf
        assert proven == pytest.approx(0.9 * best, rel=1e-9)
        assert (choice == -1).all()


def test_knapsack_equals_enumeration_where_space_and_rate_compete() -> None:
    """Both limits bind, and often no prices single out the best choice: then the proof must not come from prices."""
    feasible = 0
    for seed in range(6000):
        rng = np.random.default_rng([4, seed])
        devices = int(rng.integers(2, 6))
        shape = devices, int(rng.integers(2, 7 if devices < 5 else 5))
        many = rng.integers(1, shape[1] + 1, devices)
        cost, space, rate = (10 ** rng.uniform(least, most, shape) for least, most in ((-3, 1), (-2, 0), (-3, 0)))
        if rng.random() < 0.5:
            space, rate = np.sort(space), -np.sort(-rate)
        cost[rng.random(shape) < 0.1] = math.inf
        for needs in (space, rate):
            rows = [row[:count] for row, count in zip(needs, many, strict=True)]
            least, most = (sum(float(end(row)) for row in rows) for end in (np.min, np.max))
            needs[:] /= least + rng.choice([0.1, 0.3, 1.0]) * rng.random() * (most - least)
        best = tried(cost, space, rate, many)
        proven, attained = cheapest_choice(cost, space, rate, many, math.inf, np.zeros(devices, np.int64))
        assert attained == pytest.approx(best, rel=1e-9), seed
        assert proven == pytest.approx(best, rel=1e-8), seed
        feasible += best < math.inf
    assert 1500 < feasible < 4500


def test_a_choice_at_the_very_limit_counts_as_one_that_fits() -> None:
    many = np.full(2, 2)
    cost, rate = np.array([[1.0, 1e9], [1.0, 1e9]]), np.zeros((2, 2))
    for over, best in ((0.9e-9, 2.0), (1.1e-9, 1e9 + 1.0)):
        space = np.array([[0.5, 0.5 - 1e-8], [0.5 + over, 0.5]])
        proven, attained = cheapest_choice(cost, space, rate, many, math.inf, np.zeros(2, np.int64))
        assert attained == pytest.approx(best, rel=1e-9)
        assert proven == pytest.approx(best, rel=1e-9)
