"""The theorems on convergence against problems whose gradients and optimum are known; Theorem 2 is in test_plan.py."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from fedfloor.theory.participation import GradientStatistics
from fedfloor.theory.theorems import average_divergence, convex_gap, mean_weights, nonconvex_gap

Floats = npt.NDArray[np.float64]


def test_mean_weights_are_rates_times_batches() -> None:
    found = mean_weights(np.array([0.5, 1.0]), batch=np.array([4.0, 8.0, 2.0]), floor=np.array([0, 0, 1]))
    assert found == pytest.approx([2 / 8, 4 / 8, 2 / 8])
    assert mean_weights(np.zeros(2), batch=np.ones(2), floor=np.array([0, 1])).tolist() == [0.0, 0.0]


def test_mean_weights_only_approximate_the_mean_of_a_rounds_weights() -> None:
    # Two floors of unlike size, one of them in each round: the mean of the weights is 1/2 each.
    found = mean_weights(np.array([0.5, 0.5]), batch=np.array([30.0, 10.0]), floor=np.array([0, 1]))
    assert found == pytest.approx([0.75, 0.25])


FIGURES = GradientStatistics(
    sigma=np.array([2.0, 4.0]),
    delta=np.array([0.5, 1.5]),
    smoothness=np.array([3.0, 5.0]),
    gradient_norm=np.array([7.0, 9.0]),
)


def test_h_is_the_sum_of_lemma_4() -> None:
    found = average_divergence(
        FIGURES,
        np.array([0.75, 0.25]),
        batch=np.array([4.0, 16.0]),
        samples=np.array([50.0, 50.0]),
        learning_rate=0.1,
        iterations=3,
    )
    noise = 0.75 * 2 / 2 + 0.25 * 4 / 4
    skew = 0.25 * 7 + 0.25 * 9
    assert found == pytest.approx((1.5 + noise) * (1.5**3 - 1) / 5 + 0.1 * 3 * (skew - 1.5))


def test_one_full_step_with_the_datas_weights_is_central_descent() -> None:  # -delta, not +delta
    quiet = GradientStatistics(np.zeros(2), FIGURES.delta, FIGURES.smoothness, FIGURES.gradient_norm)
    samples = np.array([30.0, 10.0])
    found = average_divergence(quiet, samples / 40.0, batch=samples, samples=samples, learning_rate=0.1, iterations=1)
    assert found == pytest.approx(0.0, abs=1e-15)


def test_an_overflowing_h_is_infinite() -> None:
    steep = GradientStatistics(FIGURES.sigma, FIGURES.delta, np.array([1.0, 1e300]), FIGURES.gradient_norm)
    half, two = np.array([0.5, 0.5]), np.ones(2)
    assert average_divergence(steep, half, batch=two, samples=two, learning_rate=1.0, iterations=5) == math.inf
    alike = GradientStatistics(np.zeros(2), np.zeros(2), steep.smoothness, steep.gradient_norm)
    assert average_divergence(alike, half, batch=two, samples=two, learning_rate=1.0, iterations=5) == 0.0


@dataclass
class Course:
    """Rounds of local descent on full gradients, and what the theorems ask to know of them."""

    figures: GradientStatistics
    apart: float  #: largest distance of W^{t+1} from v^{K,t}
    start: Floats  #: (T+1, d) W^t
    end: Floats  #: (T, d) v^{K,t}
    squared: Floats  #: (T, N, K) squared norms of the local gradients


def descend(
    gradients: Callable[[Floats], Floats],
    smoothness: Floats,
    weights: Floats,
    share: Floats,
    first: Floats,
    *,
    rounds: int,
    steps: int,
    rate: float,
) -> Course:
    """`gradients` maps each device's weights (N, d) to its gradient (N, d)."""
    devices = weights.size
    now, starts, ends = first, [first], []
    squared = np.zeros((rounds, devices, steps))
    delta, norm, apart = np.zeros(devices), np.zeros(devices), 0.0
    for t in range(rounds):
        local, central = np.tile(now, (devices, 1)), now
        for k in range(steps + 1):
            own, here = gradients(local), gradients(np.tile(central, (devices, 1)))
            delta = np.maximum(delta, np.linalg.norm(here - share @ here, axis=1))
            norm = np.maximum(norm, np.maximum(np.linalg.norm(own, axis=1), np.linalg.norm(here, axis=1)))
            if k == steps:
                break
            squared[t, :, k] = np.sum(own**2, axis=1)
            local, central = local - rate * own, central - rate * (share @ here)
        now = weights @ local
        there = gradients(np.tile(now, (devices, 1)))
        norm = np.maximum(norm, np.linalg.norm(there, axis=1))
        apart = max(apart, float(np.linalg.norm(now - central)))
        starts.append(now)
        ends.append(central)
    known = GradientStatistics(np.zeros(devices), delta, smoothness, norm)
    return Course(known, apart, np.array(starts), np.array(ends), squared)


@pytest.mark.parametrize("likeness", [1.0, 1e-5, 1e-6])
@pytest.mark.parametrize("seed", range(8))
def test_convex_rounds_stay_within_theorem_3(seed: int, likeness: float) -> None:  # Eq. (34)
    rng = np.random.default_rng(seed)
    devices, steps, rounds, rate = 5, int(rng.integers(1, 6)), int(rng.integers(2, 12)), 0.02
    root = 2.0 * np.eye(3) + rng.normal(size=(3, 3)) / 2 + likeness * rng.normal(size=(devices, 3, 3))
    curvature = root @ root.transpose(0, 2, 1)  # (N, 3, 3)
    centre = likeness * rng.normal(size=(devices, 3))
    samples = rng.integers(10, 50, devices).astype(float)
    share = samples / samples.sum()
    weights = share * (1.0 + likeness * rng.uniform(-0.5, 0.5, devices))
    weights /= weights.sum()
    best = np.linalg.solve(
        np.tensordot(share, curvature, 1), np.sum(share[:, None] * (curvature @ centre[:, :, None])[:, :, 0], axis=0)
    )

    def gradients(at: Floats) -> Floats:
        return (curvature @ (at - centre)[:, :, None])[:, :, 0]

    def above(at: Floats) -> float:
        """F(w) - F(w*) of a quadratic F."""
        return float((at - best) @ np.tensordot(share, curvature, 1) @ (at - best) / 2)

    smoothness = np.linalg.norm(curvature, 2, axis=(1, 2))
    first = rng.normal(size=3) * 2
    course = descend(gradients, smoothness, weights, share, first, rounds=rounds, steps=steps, rate=rate)
    divergence = average_divergence(
        course.figures, weights, batch=samples, samples=samples, learning_rate=rate, iterations=steps
    )
    assert course.apart <= divergence * (1 + 1e-9) + 1e-15  # h(K) bounds every round
    bound = convex_gap(
        divergence,
        smoothness=smoothness,
        gradient_norm=course.figures.gradient_norm,
        start_distance=np.linalg.norm(course.start[:-1] - best, axis=1).astype(float),
        central_gap=np.array([*(above(v) for v in course.end), above(course.start[-1])]),
        learning_rate=rate,
        iterations=steps,
    )
    assert above(course.start[-1]) <= bound
    assert math.isfinite(bound) or likeness > 1e-6  # floors alike do get a bound


def gap_with(divergence: float = 0.2, **changes: object) -> float:
    known: dict[str, object] = {
        "smoothness": np.array([2.0, 4.0]),
        "gradient_norm": np.array([1.0, 3.0]),
        "start_distance": np.array([2.0, 1.0, 0.5]),
        "central_gap": np.array([9.0, 8.0, 6.0, 5.0]),
        "learning_rate": 0.1,
        "iterations": 4,
    }
    return convex_gap(divergence, **(known | changes))  # type: ignore[arg-type]


def test_theorem_3_counts_local_steps_and_looks_where_rounds_start() -> None:
    # omega = 1/2^2 from the farthest start, epsilon = 5 from the last model, K T = 12 local steps.
    phi = (1 - 0.1 * 4 / 2) / 4
    assert gap_with() == pytest.approx(1 / (12 * (0.1 * phi - 3 * 0.2 / (4 * 25))))
    assert gap_with(0.0) == pytest.approx(1 / (12 * 0.1 * phi))


@pytest.mark.parametrize(
    "changes",
    [
        {"divergence": 10.0},
        {"divergence": math.inf},
        {"divergence": math.nan},
        {"learning_rate": 0.5},  # beta L = 2
        {"central_gap": np.array([1.0, 0.0])},
        {"central_gap": np.array([1.0, math.nan])},
        {"start_distance": np.array([1.0, math.nan])},
        {"start_distance": np.array([1e200])},
    ],
)
def test_theorem_3_gives_no_bound_where_its_bracket_is_not_positive(changes: dict[str, object]) -> None:
    assert gap_with(**changes) == math.inf  # type: ignore[arg-type]


def test_rounds_that_change_floors_are_bounded_by_their_own_weights_only() -> None:
    # Two devices take turns: their mean weights are the data's, which for one step would mean no divergence at all.
    known = GradientStatistics(np.zeros(2), np.ones(2), np.ones(2), np.ones(2))
    two, centre = np.ones(2), np.array([[1.0], [-1.0]])
    turn = np.array([1.0, 0.0])
    course = descend(lambda at: at - centre, two, turn, two / 2, np.zeros(1), rounds=1, steps=1, rate=0.1)
    bounds = [
        average_divergence(known, weights, batch=two, samples=two, learning_rate=0.1, iterations=1)
        for weights in (turn, mean_weights(two / 2, batch=two, floor=np.array([0, 1])))
    ]
    assert course.apart == pytest.approx(0.1)
    assert bounds == pytest.approx([0.1, 0.0], abs=1e-12)


def wavy(centre: Floats, height: float) -> Callable[[Floats], Floats]:
    """Gradients of F_n(w) = |w - c_n|^2/2 + height sum cos(w), not convex for height > 1; L_n = 1 + height."""
    return lambda at: (at - centre) - height * np.sin(at)


def wavy_loss(at: Floats, centre: Floats, height: float, share: Floats) -> float:
    return float(share @ (np.sum((at - centre) ** 2, axis=1) / 2) + height * np.sum(np.cos(at)))


@pytest.mark.parametrize("spread", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("seed", range(8))
def test_nonconvex_rounds_stay_within_theorem_4(seed: int, spread: float) -> None:  # Eq. (35)
    rng = np.random.default_rng(seed)
    devices, height, steps, rounds = 4, 2.5, int(rng.integers(1, 6)), 30
    rate = float(rng.uniform(0.005, 0.1))
    centre = spread * rng.normal(size=(devices, 2))
    share, weights = rng.dirichlet(np.ones(devices)), rng.dirichlet(np.ones(devices))
    gradients, smoothness = wavy(centre, height), np.full(devices, 1 + height)
    first = rng.normal(size=2) * 3
    course = descend(gradients, smoothness, weights, share, first, rounds=rounds, steps=steps, rate=rate)
    losses = [wavy_loss(course.start[t], centre, height, share) for t in (0, -1)]
    bound = nonconvex_gap(
        course.squared,
        weights,
        smoothness=smoothness,
        delta=course.figures.delta,
        first_loss=losses[0],
        last_loss=losses[1],
        learning_rate=rate,
    )
    overall = [share @ gradients(np.tile(at, (devices, 1))) for at in course.start[:-1]]
    assert np.mean([np.sum(g**2) for g in overall]) <= bound


def looped(squared: Floats, weights: Floats, smoothness: Floats, delta: Floats, rate: float) -> float:
    """Eq. (35) term by term with losses 1 and 0: the split into 2 delta^2 + 2 L^2 |w - w_n|^2, or print for delta 0."""
    rounds, devices, steps = squared.shape
    factor = 2.0 if delta.any() else 1.0
    total = 2 / (steps * rate * rounds)
    for t, n, k in np.ndindex(rounds, devices, steps):
        before = k * squared[t, n, :k].sum()
        total += smoothness.max() * rate * devices / rounds * weights[n] ** 2 * squared[t, n, k]
        drift = factor * (delta[n] ** 2 + smoothness[n] ** 2 * rate**2 * before)  # beta^2 once
        total += devices / (steps * rounds) * weights[n] ** 2 * drift
    return float(total)


def test_theorem_4_is_the_corrected_print_and_below_its_split_with_delta() -> None:
    rng = np.random.default_rng(3)
    squared, weights = rng.uniform(0, 4, (3, 2, 4)), np.array([0.3, 0.7])
    smoothness, delta, rate = np.array([2.0, 5.0]), np.array([0.4, 0.8]), 0.05

    def found(apart: Floats) -> float:
        known = {"smoothness": smoothness, "first_loss": 1.0, "last_loss": 0.0, "learning_rate": rate}
        return nonconvex_gap(squared, weights, delta=apart, **known)  # type: ignore[arg-type]

    assert found(np.zeros(2)) == pytest.approx(looped(squared, weights, smoothness, np.zeros(2), rate))
    assert found(np.zeros(2)) < found(delta) <= looped(squared, weights, smoothness, delta, rate)


def test_theorem_4_without_delta_is_no_bound() -> None:
    # The weights favour device 0, so the rounds settle where the overall gradient is not 0.
    centre, share, weights = np.array([[1.0], [-1.0]]), np.array([0.5, 0.5]), np.array([0.9, 0.1])
    rate, rounds, smoothness = 1e-3, 200, np.ones(2)
    course = descend(wavy(centre, 0.0), smoothness, weights, share, np.array([0.8]), rounds=rounds, steps=2, rate=rate)
    losses = [wavy_loss(course.start[t], centre, 0.0, share) for t in (0, -1)]
    measured = float(np.mean(course.start[:-1] ** 2))  # the overall gradient at w is w

    def bound(delta: Floats) -> float:
        return nonconvex_gap(
            course.squared,
            weights,
            smoothness=smoothness,
            delta=delta,
            first_loss=losses[0],
            last_loss=losses[1],
            learning_rate=rate,
        )

    assert bound(np.zeros(2)) < measured <= bound(course.figures.delta)


@pytest.mark.parametrize("value", [math.inf, math.nan, 1e308])
def test_diverged_gradients_have_no_bound(value: float) -> None:
    squared = np.full((2, 1, 3), value)
    one = np.ones(1)
    found = nonconvex_gap(squared, one, smoothness=9 * one, delta=one, first_loss=1.0, last_loss=0.0, learning_rate=1.0)
    assert found == math.inf
