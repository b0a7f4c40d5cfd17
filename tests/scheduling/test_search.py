"""The search over many combinations of cuts against trying all of them, on thousands of random floors."""

import math

import numpy as np
import pytest

from fedfloor.scheduling.solver.coupled import TOLERANCE, enumerated_minimum, searched_minimum
from fedfloor.scheduling.solver.exact import ENUMERATED, floor_of, least_delay
from fedfloor.scheduling.solver.floor import WITHIN, Budget, Options, least_space, undominated
from fedfloor.scheduling.solver.pieces import fastest_time, quickest_pieces
from fedfloor.scheduling.solver.uplink import Link, shortest_upload

FLOORS = 3000
BLOCK = 500

Needs = list[tuple[float, float, float, float]]  # a, w, c and g of every option of a device

# Floors whose delay the search once called optimal though it was not: no price on memory and frequency makes the best
# cuts the cheapest ones, and ever higher prices were taken for a proof that no cuts fit.
PINNED: list[tuple[list[Needs], Budget, Link, float]] = [
    (
        [
            [(2.61, 1.89e9, 0.00283, 1.29e8), (18.6, 1.61e9, 0.0201, 7.14e7), (28.4, 1.06e9, 0.0282, 3.99e7),
             (41.4, 8.2e8, 0.0419, 1.92e7), (43.9, 0.0, 0.0398, 0.0)],
            [(0.0685, 3.84e8, 0.00108, 4.69e7), (4.77, 3.27e8, 0.033, 3.09e7), (9.62, 2.16e8, 0.0649, 2e7),
             (13.4, 1.67e8, 0.0911, 1.44e7), (18.8, 5.74e7, 0.127, 8.59e6), (19.7, 0.0, 0.132, 0.0)],
            [(2.05, 1.12e9, 0.00236, 8.7e7), (16.2, 9.51e8, 0.0439, 5.07e7), (26.8, 6.3e8, 0.0702, 2.97e7),
             (38.6, 4.86e8, 0.102, 1.67e7), (45.9, 0.0, 0.117, 0.0)],
            [(1.23, 2.23e9, 0.00432, 1.48e8), (10.5, 1.9e9, 0.059, 8.09e7), (16.8, 1.26e9, 0.0796, 4.45e7),
             (24.2, 9.71e8, 0.119, 2.03e7), (26.9, 0.0, 0.105, 0.0)],
        ],
        Budget(capacitance=1e-27, min_frequency=0.0, max_frequency=1.34e8, memory=1.75e8, energy=5.99),
        Link(scale=31.3, least=0.0966, most_log=4.19),
        42.212022488,
    ),
    (
        [
            [(0.173, 0.0, 0.37, 2.91e8), (15.2, 0.0, 0.123, 3.94e8), (0.0153, 0.0, 0.0642, 6.77e8),
             (0.288, 0.0, 2.12, 2.22e8), (0.0161, 0.0, 3.71, 3.4e8), (9.75, 0.0, 0.00134, 7.32e8)],
            [(38.2, 8.42e9, 0.379, 3.35e8), (0.084, 7.68e7, 0.00138, 7.21e8), (0.0183, 4.57e9, 0.0474, 4.88e8),
             (73.8, 1.86e9, 1.79, 3.31e8), (0.229, 1.09e7, 0.0273, 7.13e8)],
            [(7.97, 9.07e8, 0.00605, 6.74e8), (18.2, 1.14e9, 0.0115, 6.36e8), (7.87, 9.79e9, 6.74, 1.84e8),
             (26.1, 1.17e7, 2.52, 6.93e8), (0.435, 1.76e7, 0.00692, 8.92e8)],
            [(0.313, 2.76e9, 0.00151, 2.15e8), (0.112, 6.37e9, 0.0595, 4.78e7), (1.47, 1.94e8, 4.11, 2.93e8),
             (0.332, 1e8, 0.0023, 9.51e8), (0.403, 6.98e8, 0.0963, 9.5e8), (11.6, 2.83e7, 0.00161, 6.03e6)],
        ],
        Budget(capacitance=1e-27, min_frequency=0.0, max_frequency=8.12e8, memory=1.24e9, energy=11.4),
        Link(scale=1.05, least=0.00757, most_log=2.83),
        23.109557828,
    ),
    (
        [
            [(0.0563, 0.0, 0.102, 6.17e8), (6.04, 0.0, 0.0214, 1.1e8), (1.64, 0.0, 8.96, 4.39e7),
             (0.487, 0.0, 0.555, 4.2e8)],
            [(0.45, 2.19e7, 0.00763, 6.06e8), (0.0145, 4.3e7, 1.24, 6.37e8), (7.03, 9.53e7, 2.08, 4.16e7),
             (0.411, 2.17e9, 2.38, 6.32e8), (0.611, 7.48e9, 0.00516, 6.34e8)],
            [(89.5, 1.36e8, 0.0328, 4.24e8), (6.99, 1.46e8, 0.00262, 1.77e8), (0.904, 6.9e7, 0.0162, 6.87e8)],
            [(0.72, 3.43e8, 0.1, 7.95e8), (4.86, 2.24e8, 0.00125, 7.84e8), (6.13, 1.88e9, 0.0014, 7.66e8),
             (40.3, 3.62e9, 0.0105, 3.87e7), (0.668, 7.24e8, 0.169, 4.74e8)],
        ],
        Budget(capacitance=1e-27, min_frequency=9.02e8, max_frequency=3.1e9, memory=1.18e9, energy=8.04),
        Link(scale=29.5, least=0.0163, most_log=4.76),
        13.287532086,
    ),
]  # fmt: skip


def options_of(devices: list[Needs]) -> Options:
    """Options in the solver's arrays; what lies behind the last option of a device is never read."""
    width = max(map(len, devices))
    table = np.array([needs + [needs[-1]] * (width - len(needs)) for needs in devices])  # (n, K, 4)
    a, w, c, g = (np.ascontiguousarray(table[:, :, k]) for k in range(4))
    return Options(a, w, c, g, np.tile(np.arange(width), (len(devices), 1)), np.array([len(row) for row in devices]))


def random_floor(rng: np.random.Generator) -> tuple[Options, Budget, Link]:
    """A floor without any order in its options, which span powers of ten; memory and frequency are often tight."""
    shape = int(rng.integers(2, 5)), int(rng.integers(3, 7))
    a, w, g = 10 ** rng.uniform(-2, 2, shape), 10 ** rng.uniform(7, 10, shape), rng.uniform(1e6, 1e9, shape)
    c = 10 ** rng.uniform(-3, 1, shape) * (rng.random() < 0.7)
    if rng.random() < 0.3:
        w[:, -1] = 0.0
    if rng.random() < 0.1:
        w[0] = 0.0
    if rng.random() < 0.2:  # deeper cuts take longer and leave less, as without links
        a, w = np.sort(a), -np.sort(-w)
    options = undominated(Options(a, w, c, g, np.tile(np.arange(shape[1]), (shape[0], 1)), np.full(*shape)))
    top = 10 ** rng.uniform(8, 10)
    memory = g.mean() * shape[0] * rng.choice([0.3, 0.6, 1.0, 3.0])
    budget = Budget(1e-27, top * rng.random() * (rng.random() < 0.4), top, memory, 10 ** rng.uniform(-1, 2))
    scale = 10 ** rng.uniform(0, 3)
    return options, budget, Link(scale, scale * 10 ** rng.uniform(-4, -1), rng.uniform(0.5, 8))


def tried_and_searched(options: Options, budget: Budget, link: Link) -> tuple[float, float, float]:
    """Least delay over all combinations, the one of the search, and its proven bound."""
    count = options.many.size
    choice, a, w = np.zeros(count, np.int64), np.empty(count), np.empty(count)
    earliest = fastest_time(options, quickest_pieces(options), budget.max_frequency)
    value, _, proven = searched_minimum(earliest, options, budget, link, earliest + shortest_upload(link), choice, a, w)
    return enumerated_minimum(options, budget, link, 0.0, choice, a, w).value, value, proven


@pytest.mark.parametrize(("devices", "budget", "link", "delay"), PINNED)
def test_cuts_that_no_price_singles_out_are_found(
    devices: list[Needs], budget: Budget, link: Link, delay: float
) -> None:
    options = options_of(devices)
    assert math.prod(options.many) > ENUMERATED
    choice, a, w = np.zeros(len(devices), np.int64), np.empty(len(devices)), np.empty(len(devices))
    value, _, bound = least_delay(floor_of(options, budget), link, choice, a, w)
    assert value == pytest.approx(delay, rel=1e-9)
    assert delay * (1 - 2 * TOLERANCE) <= bound <= delay * (1 + 1e-9)
    assert enumerated_minimum(options, budget, link, 0.0, choice, a, w).value == pytest.approx(delay, rel=1e-9)


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(BLOCK, FLOORS, BLOCK))]
)
def test_the_search_equals_enumeration_on_random_floors(first: int) -> None:
    served = raised = open_gaps = 0
    for seed in range(first, first + BLOCK):
        options, budget, link = random_floor(np.random.default_rng([seed, 9]))
        if least_space(options) > budget.memory * WITHIN:
            continue
        tried, value, proven = tried_and_searched(options, budget, link)
        assert proven <= tried * (1 + 1e-9), seed
        assert value >= tried * (1 - 1e-9), seed
        closed = value == proven or value - proven <= 2 * TOLERANCE * value
        if budget.min_frequency == 0.0:
            assert closed, seed
            served += tried < math.inf
        else:
            raised += tried < math.inf
            open_gaps += not closed
    assert served > 0.2 * BLOCK
    assert raised > 0.1 * BLOCK
    assert open_gaps < 0.1 * raised
