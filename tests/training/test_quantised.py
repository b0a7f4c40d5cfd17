"""Rounded tensors: the mean is right, the error is below a step, and messages have the bits that costs count."""

import numpy as np
import pytest
from torch import nn

from fedfloor.arrays import Vector
from fedfloor.costs.precision import upload_bits
from fedfloor.scenario.model import Costs, Model
from fedfloor.training.network.description import infer_layers
from fedfloor.training.network.models import build_model
from fedfloor.training.network.quantised import boundary_stream, pack, quantised, unpack, upload_stream
from fedfloor.training.network.weights import Layout

NETWORKS = {
    f"{name}{' with batch norm' if normed else ''}{' ' + head if name == 'vgg11' else ''}": Model(
        name=name, input=shape, width=0.125, batch_norm=normed, head=head
    )
    for name, shape, norms, heads in (
        ("vgg11", (3, 32, 32), (False, True), ("linear", "4096-4096")),
        ("cnn", (1, 28, 28), (False, True), ("linear",)),
        ("mlp", (1, 28, 28), (False,), ("linear",)),
    )
    for normed in norms
    for head in heads
}


def layout_of(model: Model) -> Layout:
    network = build_model(model)
    assert isinstance(network, nn.Sequential)
    return Layout(network)


def update_of(layout: Layout) -> Vector:
    """Tensors of very different sizes, as updates have; counters go up by whole numbers."""
    rng = np.random.default_rng(0)
    update = np.empty(layout.size, np.float32)
    for k, piece in enumerate(layout.pieces):
        size = piece.place.stop - piece.place.start
        update[piece.place] = 5.0 if piece.counts else rng.normal(size=size) * 10.0 ** -(k % 9)
    return update


@pytest.mark.parametrize("bits", [16, 8])
def test_rounding_is_unbiased(bits: int) -> None:
    values = np.random.default_rng(1).normal(size=40).astype(np.float32)
    rng, count = np.random.default_rng(2), 4000
    draws = np.array([quantised(values, bits, rng).values for _ in range(count)], float)
    step = np.abs(values).max() / (2 ** (bits - 1) - 1)
    # A draw deviates by at most half a step, so the mean of 4000 draws by more than 5 / 2 sqrt(4000) hardly ever.
    assert np.abs(draws.mean(0) - values).max() < 2.5 * step / np.sqrt(count)
    assert draws.std(0).max() > 0.3 * step  # it is really rounded


@pytest.mark.parametrize("size", [1e-44, 1e-38, 1e-3, 1.0, 1e37])
@pytest.mark.parametrize("bits", [16, 8])
def test_no_number_moves_by_more_than_a_step(bits: int, size: float) -> None:
    rng, most = np.random.default_rng(3), 2 ** (bits - 1) - 1
    for _ in range(50):
        values = (size * rng.standard_cauchy(100).clip(-30, 30)).astype(np.float32)
        sent = quantised(values, bits, rng)
        assert np.abs(sent.steps.astype(int)).max() <= most
        assert np.abs(sent.values.astype(float) - values).max() <= float(sent.scale) * (1 + 1e-6)


def test_the_largest_number_of_a_tensor_arrives_as_it_is() -> None:
    sent = quantised(np.array([0.1, -0.7, 0.3], np.float32), 8, np.random.default_rng(0))
    assert sent.steps[1] == -127
    assert sent.values[1] == pytest.approx(-0.7, rel=1e-6)


def test_a_tensor_of_zeros_has_no_scale_and_stays_one() -> None:
    sent = quantised(np.zeros(5, np.float32), 8, np.random.default_rng(0))
    assert sent.scale == 0.0
    assert not sent.values.any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_tensor_that_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(OverflowError, match="not finite"):
        quantised(np.array([1.0, value], np.float32), 8, np.random.default_rng(0))


@pytest.mark.parametrize("bits", [16, 8])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_message_has_the_bits_that_costs_count(name: str, bits: int) -> None:
    layout = layout_of(NETWORKS[name])
    message = pack(update_of(layout), layout.pieces, bits, np.random.default_rng(0))
    assert 8 * len(message) == upload_bits(infer_layers(NETWORKS[name], Costs()), bits)


@pytest.mark.parametrize("bits", [16, 8])
@pytest.mark.parametrize("name", ["cnn with batch norm", "mlp"])
def test_a_message_is_read_as_the_rounded_tensors_in_their_order(name: str, bits: int) -> None:
    layout = layout_of(NETWORKS[name])
    update, one, other = update_of(layout), np.random.default_rng(4), np.random.default_rng(4)
    received = unpack(pack(update, layout.pieces, bits, one), layout.pieces, bits)
    for piece in layout.pieces:
        values = update[piece.place]
        expected = values if piece.counts else quantised(values, bits, other).values
        assert np.array_equal(received[piece.place], expected)


def test_counters_of_batch_norm_are_sent_exactly() -> None:
    layout = layout_of(NETWORKS["cnn with batch norm"])
    counters = [piece for piece in layout.pieces if piece.counts]
    assert len(counters) == 2
    received = unpack(pack(update_of(layout), layout.pieces, 8, np.random.default_rng(0)), layout.pieces, 8)
    assert [received[piece.place].tolist() for piece in counters] == [[5.0], [5.0]]


def test_every_message_has_random_numbers_of_its_own() -> None:
    streams = [boundary_stream(1, *key) for key in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))]
    streams += [boundary_stream(2, 0, 0, 0), *(upload_stream(1, *key) for key in ((0, 0), (1, 0), (0, 1)))]
    assert len({stream.random() for stream in streams}) == len(streams)
    assert boundary_stream(1, 2, 3, 4).random() == boundary_stream(1, 2, 3, 4).random()
