"""Models between base station and gateways: what arrives, and what rounding leaves for the next round."""

import numpy as np
import pytest

from fedfloor.arrays import Vector
from fedfloor.scenario.file import Precision
from fedfloor.scenario.model import Model
from fedfloor.training.exchange import Exchange
from fedfloor.training.network.models import build_model
from fedfloor.training.network.weights import Layout, average

LAYOUT = Layout(build_model(Model(name="cnn", input=(1, 28, 28), width=0.25, batch_norm=True)))
COUNTER = next(piece.place for piece in LAYOUT.pieces if piece.counts)


def exchange(**bits: int) -> Exchange:
    return Exchange(Precision.model_validate(bits), LAYOUT, floors=3, seed=5)


def vectors(count: int, size: float = 1.0) -> list[Vector]:
    """Random weights; counters are whole."""
    rng = np.random.default_rng(0)
    models = [(size * rng.normal(size=LAYOUT.size)).astype(np.float32) for _ in range(count)]
    for model in models:
        for piece in LAYOUT.pieces:
            if piece.counts:
                model[piece.place] = 100_000.0
    return models


def test_with_32_bits_models_arrive_as_they_are_and_are_averaged() -> None:
    weights, one, other = vectors(3)
    models = exchange()
    assert models.downloaded(weights) is weights
    received = [(2.0, models.uploaded(one, weights, index=0, floor=0)), (3.0, other)]
    assert received[0][1] is one
    assert np.array_equal(models.combined(weights, received), average(iter(received), weights.size))
    assert models.error is None


@pytest.mark.parametrize("bits", [{}, {"upload": 8}], ids=str)
def test_counters_stay_whole_if_floors_have_seen_different_numbers_of_batches(bits: dict[str, int]) -> None:
    """A checkpoint keeps whole numbers, so a run that kept fractions would go on otherwise after a resume."""
    models, (weights,) = exchange(**bits), vectors(1)
    for index in range(3):
        received = []
        for floor, batches in ((0, 5.0), (2, 7.0)):
            model = weights.copy()
            model[COUNTER] += batches
            received.append((floor + 1.0, models.uploaded(model, weights, index=index, floor=floor)))
        weights = models.combined(weights, received)
    assert weights[COUNTER].tolist() == [100_018.0]  # 6.5 a round is 6, because 100006.5 is rounded to even
    assert models.error is None or not models.error[:, COUNTER].any()
    assert np.array_equal(LAYOUT.vector(LAYOUT.named(weights)), weights)


@pytest.mark.parametrize("bits", [16, 8])
def test_what_a_floor_sends_and_what_it_keeps_add_up_to_what_it_learnt(bits: int) -> None:
    weights, one, other = vectors(3)
    models, learnt, sent = exchange(upload=bits), np.zeros(LAYOUT.size), np.zeros(LAYOUT.size)
    for index, model in enumerate((one, other, one)):
        learnt += model.astype(float) - weights
        sent += models.uploaded(model, weights, index=index, floor=1)
    assert models.error is not None
    assert np.abs(sent + models.error[1] - learnt).max() < 1e-5
    assert not models.error[[0, 2]].any()  # they sent nothing
    steps = [np.abs(learnt[piece.place]).max() for piece in LAYOUT.pieces]
    for piece, most in zip(LAYOUT.pieces, steps, strict=True):
        assert np.abs(models.error[1, piece.place]).max() <= 1.2 * most / (2 ** (bits - 1) - 1)


def test_small_updates_get_through_in_time() -> None:
    """A number far below the step of its tensor is sent now and then; without the errors kept it could be lost."""
    weights = np.zeros(LAYOUT.size, np.float32)
    model = weights.copy()
    model[0], model[1] = 1.0, 0.001  # of the first kernel, whose step is 1/127
    models = exchange(upload=8)
    total = np.zeros(LAYOUT.size)
    for index in range(200):
        total += models.uploaded(model, weights, index=index, floor=0)
    assert total[0] == pytest.approx(200.0)
    assert total[1] == pytest.approx(0.2, abs=1.0 / 127)


def test_a_16_bit_download_is_a_cast_that_keeps_counters() -> None:
    (weights,) = vectors(1)
    received = exchange(download=16).downloaded(weights)
    assert np.array_equal(received[:10], weights[:10].astype(np.float16).astype(np.float32))
    assert not np.array_equal(received[:10], weights[:10])
    assert received[COUNTER].tolist() == [100_000.0]


def test_a_weight_that_16_bits_cannot_hold_is_refused() -> None:
    (weights,) = vectors(1)
    weights[7] = -7e4
    with pytest.raises(OverflowError, match=r"a weight of -7e\+04 is too large for 16 bits"):
        exchange(download=16).downloaded(weights)


@pytest.mark.parametrize("bits", [{"download": 16}, {"download": 16, "upload": 8}, {"upload": 16}], ids=str)
def test_changes_below_the_precision_of_a_download_are_not_lost(bits: dict[str, int]) -> None:
    """The base station adds updates to its own full weights, so steps too small for float16 still add up."""
    models, weights = exchange(**bits), np.ones(LAYOUT.size, np.float32)
    for index in range(10):
        downloaded = models.downloaded(weights)
        model = downloaded + np.float32(1e-5)
        weights = models.combined(weights, [(4.0, models.uploaded(model, downloaded, index=index, floor=0))])
    learnt = np.concatenate([weights[piece.place] for piece in LAYOUT.pieces if not piece.counts])
    assert learnt == pytest.approx(1.0 + 1e-4, abs=2e-6)


def test_an_update_that_is_not_finite_is_refused() -> None:
    weights = np.full(LAYOUT.size, -3e38, np.float32)
    with pytest.raises(OverflowError, match="is not finite"):
        exchange(upload=8).uploaded(-weights, weights, index=0, floor=0)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, r"upload_error, the rounding errors of the floors, is missing, but precision\.upload = 8 needs it"),
        (np.zeros((2, LAYOUT.size), np.float32), r"upload_error must be float32 \(3, \d+\), got float32 \(2, \d+\)"),
        (np.zeros((3, LAYOUT.size)), r"must be float32 .* got float64"),
        (np.full((3, LAYOUT.size), np.nan, np.float32), "upload_error must be finite"),
    ],
    ids=["missing", "shape", "type", "nan"],
)
def test_errors_that_do_not_fit_are_refused(error: Vector | None, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        exchange(upload=8).restore(error)
    exchange(upload=32).restore(error)  # without rounding they are not looked at
