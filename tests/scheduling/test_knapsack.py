"""The knapsack against trying everything."""

import itertools
import math

import numpy as np
import pytest

from fedfloor.scheduling.solver.floor import WITHIN
from fedfloor.scheduling.solver.knapsack import cheapest_choice


def tried(cost: np.ndarray, space: np.ndarray, rate: np.ndarray, many: np.ndarray) -> float:
    best = math.inf
    rows = np.arange(many.size)
    for picks in itertools.product(*(range(count) for count in many)):
        if space[rows, picks].sum() <= WITHIN and rate[rows, picks].sum() <= WITHIN:
            best = min(best, float(cost[rows, picks].sum()))
    return best


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
