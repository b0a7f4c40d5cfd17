"""How often floors should take part: the divergence bound against problems with known gradients, and its rates."""

from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest

from fedfloor.theory.participation import (
    GradientStatistics,
    compound_growth,
    corrected_delta,
    divergence_bound,
    divergence_of_updates,
    participation_rates,
    rates_of_updates,
    recent_mean,
)

Floats = npt.NDArray[np.float64]


def figures(
    sigma: list[float], delta: list[float], smoothness: list[float], norm: list[float] | None = None
) -> GradientStatistics:
    return GradientStatistics(np.array(sigma), np.array(delta), np.array(smoothness), np.array(norm or sigma))


def measured(gradients: list[Floats], samples: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """delta and sigma (N,) from some samples of every device, as an estimate measures them."""
    drawn = [rng.permutation(rows)[:samples] for rows in gradients]
    means = [rows.mean(0) for rows in drawn]
    overall = np.average(means, axis=0, weights=[len(rows) for rows in gradients])
    delta = np.array([np.linalg.norm(mean - overall) for mean in means])
    return delta, np.array([np.sqrt(np.square(rows - rows.mean(0)).sum(1).mean()) for rows in drawn])


def test_delta_of_few_samples_is_that_of_all_once_their_noise_is_taken_off() -> None:
    rng = np.random.default_rng(4)
    held = np.array([300, 40, 100, 20])  # the last device is measured on all it holds
    centres = 1.5 * rng.normal(size=(4, 30)) / np.sqrt(30)
    gradients = [centre + rng.normal(size=(count, 30)) for centre, count in zip(centres, held, strict=True)]
    whole, _ = measured(gradients, 300, rng)
    draws = [measured(gradients, 20, rng) for _ in range(4000)]
    raw = np.array([delta for delta, _ in draws])
    corrected = np.array([corrected_delta(delta, sigma, samples=20, held=held.astype(float)) for delta, sigma in draws])
    assert np.sqrt(np.square(corrected).mean(0)) == pytest.approx(whole, rel=0.02)
    assert np.all(np.square(raw).mean(0)[:3] > 1.15 * np.square(whole[:3]))  # what the correction takes off


def test_a_device_like_all_others_has_no_delta_left() -> None:
    """The case that made the rate of a floor with all classes too low: twice too large with 64 samples."""
    rng, held = np.random.default_rng(5), np.full(6, 1000.0)
    gradients = [rng.normal(size=(1000, 20)) for _ in held]
    whole, _ = measured(gradients, 1000, rng)
    draws = [measured(gradients, 64, rng) for _ in range(200)]
    corrected = np.mean([corrected_delta(delta, sigma, samples=64, held=held) for delta, sigma in draws], axis=0)
    raw = np.mean([delta for delta, _ in draws], axis=0)
    assert np.all(raw > 2.5 * whole)
    assert np.all(np.abs(corrected - whole) < 0.5 * (raw - whole))


def test_all_samples_and_a_single_one_leave_delta_as_it_is() -> None:
    delta, sigma, held = np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([5.0, 8.0])
    assert corrected_delta(delta, sigma, samples=8, held=held).tolist() == delta.tolist()
    assert corrected_delta(delta, np.zeros(2), samples=1, held=held).tolist() == delta.tolist()
    absent = corrected_delta(np.array([1.0, np.nan]), np.array([0.5, np.nan]), samples=4, held=np.array([9.0, np.nan]))
    assert np.isnan(absent).tolist() == [False, True]


def test_growth_is_the_papers() -> None:
    smoothness = np.array([0.5, 3.0, 40.0])
    expected = ((0.01 * smoothness + 1.0) ** 7 - 1.0) / smoothness
    assert compound_growth(smoothness, learning_rate=0.01, iterations=7) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("smoothness", [0.0, 5e-324, 1e-300, 1e-20, 1e-12])
def test_growth_without_curvature_is_the_length_of_the_steps(smoothness: float) -> None:
    grown = compound_growth(np.array([smoothness]), learning_rate=0.01, iterations=5)
    assert grown == pytest.approx([0.05], rel=1e-9)


@pytest.mark.parametrize("smoothness", [1e200, 1e308, np.inf])
def test_growth_beyond_all_floats_is_infinite(smoothness: float) -> None:
    assert compound_growth(np.array([smoothness]), learning_rate=0.5, iterations=9).tolist() == [np.inf]


def test_the_bound_is_the_batch_weighted_mean_of_a_floors_devices() -> None:  # Eq. (12)
    known = figures([2.0, 1.0, 3.0], [0.5, 0.0, 1.0], [4.0, 2.0, 8.0])
    batch = np.array([4.0, 12.0, 9.0])
    found = divergence_bound(known, batch=batch, floor=np.array([0, 0, 1]), floors=2, learning_rate=0.1, iterations=3)
    grown = [(1.4**3 - 1) / 4, (1.2**3 - 1) / 2, (1.8**3 - 1) / 8]  # the exponent is K, not k
    first = 4 / 16 * (2 / 2 + 0.5) * grown[0] + 12 / 16 * (1 / np.sqrt(12)) * grown[1]
    assert found == pytest.approx([first, (3 / 3 + 1) * grown[2]])


def test_a_device_without_error_never_diverges_even_where_growth_overflows() -> None:
    known = figures([0.0, 1.0], [0.0, 0.0], [1e300, 1e300])
    found = divergence_bound(known, batch=np.ones(2), floor=np.array([0, 1]), floors=2, learning_rate=1.0, iterations=9)
    assert found.tolist() == [0.0, np.inf]


def quadratic(rng: np.random.Generator, devices: int) -> tuple[Floats, Floats]:
    """Curvatures (N, 3, 3) and centres (N, 3) of F_n(w) = (w - c_n)^T A_n (w - c_n) / 2."""
    roots = rng.normal(size=(devices, 3, 3))
    return roots @ roots.transpose(0, 2, 1), rng.normal(size=(devices, 3))


@pytest.mark.parametrize("seed", range(40))
def test_local_steps_on_quadratic_losses_stay_within_the_bound(seed: int) -> None:  # Theorem 1
    rng = np.random.default_rng(seed)
    devices, floors, steps, rate = 6, 3, int(rng.integers(1, 9)), float(rng.uniform(0.01, 0.2))
    curvature, centre = quadratic(rng, devices)
    samples = rng.integers(1, 50, devices).astype(float)
    share = samples / samples.sum()

    def gradients(weights: Floats) -> Floats:
        """Of every device at its own weights, (N, 3)."""
        return (curvature @ (weights - centre)[:, :, None])[:, :, 0]

    local = np.tile(rng.normal(size=3), (devices, 1))
    central = local[0].copy()
    delta = np.zeros(devices)
    for _ in range(steps):
        here = gradients(np.tile(central, (devices, 1)))
        overall = share @ here
        delta = np.maximum(delta, np.linalg.norm(here - overall, axis=1))
        local = local - rate * gradients(local)
        central = central - rate * overall
    known = GradientStatistics(np.zeros(devices), delta, np.linalg.norm(curvature, 2, axis=(1, 2)), np.zeros(devices))
    floor = np.repeat(np.arange(floors), 2)
    phi = divergence_bound(known, batch=samples, floor=floor, floors=floors, learning_rate=rate, iterations=steps)
    for m in range(floors):
        average = np.average(local[floor == m], axis=0, weights=samples[floor == m])
        assert np.linalg.norm(average - central) <= phi[m] * (1 + 1e-12)
    if steps == 1:  # one device, one step: the bound is reached
        alone = divergence_bound(
            known, batch=samples, floor=np.arange(devices), floors=devices, learning_rate=rate, iterations=1
        )
        assert np.linalg.norm(local - central, axis=1) == pytest.approx(alone)


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_mean_over_all_batches_stays_within_the_bound(size: int, steps: int) -> None:  # Lemma 2, one batch a round
    rng, rate = np.random.default_rng(size), 0.05
    curvature, _ = quadratic(rng, 1)
    points = rng.normal(size=(6, 3))  # a sample's loss is (w - x)^T A (w - x) / 2
    deviation = (points - points.mean(axis=0)) @ curvature[0]
    sigma = np.sqrt(np.mean(np.sum(deviation**2, axis=1)))  # root mean square
    start, apart = rng.normal(size=3), []
    for chosen in combinations(range(6), size):
        on_batch, on_all = start, start
        for _ in range(steps):
            on_batch = on_batch - rate * curvature[0] @ (on_batch - points[list(chosen)].mean(axis=0))
            on_all = on_all - rate * curvature[0] @ (on_all - points.mean(axis=0))
        apart.append(float(np.linalg.norm(on_batch - on_all)))
    known = figures([float(sigma)], [0.0], [float(np.linalg.norm(curvature[0], 2))])
    phi = divergence_bound(
        known, batch=np.array([float(size)]), floor=np.array([0]), floors=1, learning_rate=rate, iterations=steps
    )
    assert np.mean(apart) <= phi[0]


def test_a_mean_norm_in_place_of_the_root_mean_square_is_no_bound() -> None:  # Assumption 1
    # One sample of many is far off: the mean norm hides how far batches stray, sigma/sqrt(D~) would be too small.
    rng = np.random.default_rng(0)
    deviation = np.concatenate([np.full(99, -1.0), [99.0]])
    batches = np.array([rng.choice(deviation, 50, replace=True).mean() for _ in range(4_000)])
    strays = np.mean(np.abs(batches))
    assert strays > np.mean(np.abs(deviation)) / np.sqrt(50)
    assert strays <= np.sqrt(np.mean(deviation**2)) / np.sqrt(50)


def test_rates_share_the_channels_by_the_inverse_of_the_bound() -> None:  # Eq. (13)
    rates = participation_rates(np.array([1.0, 2.0, 4.0, 4.0]), 1)
    assert rates == pytest.approx([1 / 2, 1 / 4, 1 / 8, 1 / 8])


def test_no_rate_exceeds_one() -> None:
    rates = participation_rates(np.array([0.1, 2.0, 2.0]), 2)
    assert rates[0] == 1.0
    assert rates[1:] == pytest.approx(2 * 0.5 / 11)


@pytest.mark.parametrize(
    ("phi", "expected"),
    [
        ([0.0, 1.0, 0.0], [0.5, 0.0, 0.5]),  # bounds of 0 share the channels
        ([1.0, np.inf, 1.0], [0.5, 0.0, 0.5]),  # no bound: no part
        ([1.0, np.nan, 1.0], [0.5, 0.0, 0.5]),
        ([np.inf, np.nan, np.inf], [1 / 3, 1 / 3, 1 / 3]),  # nothing known: all alike
        ([5e-324, 5e-324, np.inf], [0.5, 0.5, 0.0]),
        ([1e-310, 1e308, 1e-310], [0.5, 0.0, 0.5]),
    ],
)
def test_odd_bounds_give_sensible_rates(phi: list[float], expected: list[float]) -> None:
    assert participation_rates(np.array(phi), 1) == pytest.approx(expected)


def test_more_channels_than_floors_serve_everyone() -> None:
    assert participation_rates(np.array([np.inf, np.inf]), 5).tolist() == [1.0, 1.0]
    assert participation_rates(np.array([1.0, 1.0]), 5).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("seed", range(5))
def test_an_update_diverges_from_the_mean_of_the_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    models, points = rng.normal(size=(4, 7)), rng.uniform(1.0, 9.0, 4)
    distance = np.linalg.norm(models - np.average(models, axis=0, weights=points), axis=1)
    others = [np.arange(4) != m for m in range(4)]
    expected = [
        np.linalg.norm(models[m] - np.average(models[rest], axis=0, weights=points[rest]))
        for m, rest in enumerate(others)
    ]
    assert divergence_of_updates(distance, points) == pytest.approx(expected)


def test_an_update_that_is_averaged_with_no_other_says_nothing() -> None:
    assert np.isnan(divergence_of_updates(np.zeros(1), np.array([5.0]))).all()


def test_the_mean_over_rounds_starts_with_the_first_measurement_and_skips_rounds_without_one() -> None:
    nothing = np.full(3, np.nan)
    mean = recent_mean(nothing, np.array([2.0, np.nan, 4.0]))
    assert mean.tolist() == pytest.approx([2.0, np.nan, 4.0], nan_ok=True)
    mean = recent_mean(mean, np.array([7.0, 1.0, np.nan]))
    assert mean.tolist() == pytest.approx([3.0, 1.0, 4.0])
    for _ in range(60):
        mean = recent_mean(mean, np.array([5.0, 5.0, 5.0]))
    assert mean == pytest.approx([5.0, 5.0, 5.0], rel=1e-4)


def test_rates_of_updates_are_uniform_until_every_floor_has_sent_one() -> None:  # then Eq. (13)
    assert rates_of_updates(np.array([1.0, np.nan, 2.0]), 2).tolist() == pytest.approx([2 / 3] * 3)
    assert rates_of_updates(np.array([1.0, 4.0, 2.0]), 1) == pytest.approx(np.array([4, 1, 2]) / 7)
