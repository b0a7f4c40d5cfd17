"""Systematic sampling keeps probabilities, and the number of floors that it draws hardly varies."""

import numpy as np
import pytest

from fedfloor.scheduling.sampling import sampled, within_channels


def test_every_floor_is_drawn_as_often_as_its_probability_says() -> None:
    rng, chance = np.random.default_rng(0), np.array([0.1, 1.0, 0.45, 0.3, 0.0, 0.6])  # 2.45 in all
    draws = [sampled(chance, 3, rng) for _ in range(4000)]
    assert np.bincount(np.concatenate(draws), minlength=6) / 4000 == pytest.approx(chance, abs=0.03)
    assert {floors.size for floors in draws} == {2, 3}
    assert all(np.array_equal(floors, np.unique(floors)) for floors in draws)


def test_probabilities_that_exceed_the_channels_are_scaled_down_to_them() -> None:
    rng, chance = np.random.default_rng(0), np.array([0.9, 0.6, 1.0, 0.5])
    assert within_channels(chance, 2) == pytest.approx(chance * 2 / 3)
    assert np.array_equal(within_channels(chance, 3), chance)
    assert np.array_equal(within_channels(np.zeros(4), 3), np.zeros(4))
    assert all(sampled(within_channels(chance, 2), 2, rng).size == 2 for _ in range(100))
