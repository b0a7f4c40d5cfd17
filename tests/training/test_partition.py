"""Who holds what."""

import numpy as np
import pytest

from fedfloor.training.data.partition import Wish, by_classes, by_shards, dirichlet, iid

LABELS = np.random.default_rng(5).integers(0, 10, 6000)
WISHES = [Wish(100 + 20 * n, 1 + n % 5) for n in range(12)]


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


PARTITIONS = {
    "classes": lambda: by_classes(LABELS, WISHES, classes=10, fraction=1.0, rng=rng()),
    "half classes": lambda: by_classes(LABELS, WISHES, classes=10, fraction=0.5, rng=rng()),
    "dirichlet": lambda: dirichlet(LABELS, WISHES, classes=10, concentration=0.3, rng=rng()),
    "shards": lambda: by_shards(LABELS, WISHES, shards=2, rng=rng()),
    "iid": lambda: iid(LABELS, WISHES, classes=10, rng=rng()),
}


@pytest.mark.parametrize("name", PARTITIONS)
def test_nobody_shares_a_sample_and_everybody_gets_what_they_wish(name: str) -> None:
    held = PARTITIONS[name]()
    everything = np.concatenate(held)
    assert np.unique(everything).size == everything.size
    for numbers, wish in zip(held, WISHES, strict=True):
        assert wish.samples - 1 <= numbers.size <= wish.samples  # an odd number of samples does not cut into two shards
    again = PARTITIONS[name]()
    assert all(np.array_equal(one, other) for one, other in zip(held, again, strict=True))


def test_devices_hold_their_number_of_classes() -> None:
    for numbers, wish in zip(PARTITIONS["classes"](), WISHES, strict=True):
        counts = np.bincount(LABELS[numbers], minlength=10)
        assert np.count_nonzero(counts) == wish.classes
        assert counts[counts > 0].max() - counts[counts > 0].min() <= 1  # alike


def test_devices_hold_the_classes_that_they_name() -> None:
    wishes = [Wish(90, among=(7, 8, 2)), Wish(100, 2), Wish(50, among=(4,))]
    held = by_classes(LABELS, wishes, classes=10, fraction=1.0, rng=rng())
    counts = [np.bincount(LABELS[numbers], minlength=10) for numbers in held]
    assert counts[0].tolist() == [0, 0, 30, 0, 0, 0, 0, 30, 30, 0]
    assert counts[2].tolist() == [0, 0, 0, 0, 50, 0, 0, 0, 0, 0]
    drawn = by_classes(LABELS, [Wish(90, 3), Wish(100, 2), Wish(50, 1)], classes=10, fraction=1.0, rng=rng())
    assert np.flatnonzero(counts[1]).tolist() == np.unique(LABELS[drawn[1]]).tolist()  # the others draw as before


def test_the_rest_of_a_biased_device_is_a_blind_draw() -> None:
    (numbers,) = by_classes(LABELS, [Wish(2000, 1)], classes=10, fraction=0.1, rng=rng())
    counts = np.sort(np.bincount(LABELS[numbers], minlength=10))
    assert counts[-1] > 300  # 200 of its own, and a tenth of the others
    assert counts[0] > 140


def test_a_class_that_runs_out_leaves_devices_with_fewer() -> None:
    held = by_classes(LABELS, [Wish(5000, 1), Wish(100, None)], classes=10, fraction=1.0, rng=rng())
    label = LABELS[held[0][0]]
    assert held[0].size + np.count_nonzero(LABELS[held[1]] == label) == np.bincount(LABELS)[label]
    assert held[1].size == 100
    crowd = by_classes(LABELS, [Wish(3000, 1)] * 30, classes=10, fraction=1.0, rng=rng())
    assert min(numbers.size for numbers in crowd) > 50  # shared, not first come first served


def test_small_concentrations_leave_few_classes() -> None:
    def mean_classes(concentration: float) -> float:
        held = dirichlet(LABELS, WISHES, classes=10, concentration=concentration, rng=rng())
        shares = [np.bincount(LABELS[numbers], minlength=10) / numbers.size for numbers in held]
        return float(np.mean([np.exp(-np.sum(share[share > 0] * np.log(share[share > 0]))) for share in shares]))

    assert mean_classes(0.05) < 2.5
    assert mean_classes(100.0) > 7


def test_shards_hold_few_classes() -> None:
    for numbers in PARTITIONS["shards"]():
        assert np.unique(LABELS[numbers]).size <= 4


def test_too_many_wishes_are_scaled_down() -> None:
    wishes = [Wish(1000)] * 10
    assert sum(numbers.size for numbers in by_shards(LABELS, wishes, shards=2, rng=rng())) == pytest.approx(
        6000, abs=20
    )
    assert sum(numbers.size for numbers in iid(LABELS, wishes, classes=10, rng=rng())) == 6000


def test_shards_of_tiny_wishes_are_not_shared() -> None:
    held = by_shards(LABELS, [Wish(1)] * 4000, shards=2, rng=rng())
    everything = np.concatenate(held)
    assert np.unique(everything).size == everything.size == 4000
