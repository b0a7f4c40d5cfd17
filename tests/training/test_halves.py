"""The two halves of a network, which exchange arrays only, against the network in one piece and against `Work`."""

import copy
import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedfloor.arrays import Ints, Labels, Vector
from fedfloor.scenario.model import Model
from fedfloor.training.data.samples import Samples, batch_of
from fedfloor.training.halves import Bottom, DeviceRound, Sent, Top
from fedfloor.training.network.built import BuiltNetwork, Inputs
from fedfloor.training.network.quantised import Quantised, quantised
from fedfloor.training.network.split import joined_step, sgd_step
from fedfloor.training.schedule import RateSchedule
from fedfloor.training.work import Job, Work

NETWORKS = {
    "vgg11 with batch norm": Model(name="vgg11", input=(3, 32, 32), width=0.05, batch_norm=True),
    "vgg11 with dropout": Model(name="vgg11", input=(3, 32, 32), width=0.02, head="4096-4096"),
    "cnn": Model(name="cnn", input=(1, 28, 28), width=0.5),
    "cnn with batch norm": Model(name="cnn", input=(1, 28, 28), width=0.5, batch_norm=True),
    "mlp": Model(name="mlp", input=(1, 28, 28), width=0.25),
    "two layers with dropout": Model(name="tests.training.networks:two_layers", input=(1, 28, 28)),
    "signal": Model(name="tests.training.networks:signal", input=(3, 64)),
    "normed": Model(name="tests.training.networks:normed", input=(3, 64)),
    "normed images": Model(name="tests.training.networks:normed_images", input=(1, 28, 28)),
    "residual": Model(name="tests.training.networks:residual", input=(3, 64)),
    "residual images": Model(name="tests.training.networks:residual_images", input=(1, 28, 28)),
    "counts batches": Model(name="tests.training.networks:counts_batches", input=(1, 28, 28)),
    "half of it frozen": Model(name="tests.training.networks:half_frozen", input=(1, 28, 28)),
}
ITERATIONS, RATE, BATCH = 3, 0.02, 6
INPUTS = Inputs(np.array([120.0]), np.array([70.0]))


def settings(cut: int, **changed: Any) -> DeviceRound:
    return DeviceRound(**{"seed": 3, "index": 4, "device": 1, "cut": cut, "learning_rate": RATE, **changed})


def pictures(model: Model, kind: type = np.uint8) -> tuple[np.ndarray, Ints]:
    rng = np.random.default_rng(1)
    return rng.integers(0, 256, (BATCH, *model.input)).astype(kind), rng.integers(0, 10, BATCH)


def through_the_wire(sent: Sent | None) -> Sent | None:
    """What arrives on another machine: numbers made anew from bytes, which nobody may change."""
    if sent is None:
        return None
    if isinstance(sent, Quantised):
        scale = np.frombuffer(sent.scale.tobytes(), np.float32)[0]
        return Quantised(scale, np.frombuffer(sent.steps.tobytes(), sent.steps.dtype).reshape(sent.steps.shape))
    return np.frombuffer(sent.tobytes(), sent.dtype).reshape(sent.shape)


def trained_apart(
    model: Model,
    own: DeviceRound,
    batches: list[tuple[np.ndarray | None, Labels | None]],
    inputs: Inputs = INPUTS,
    start: Vector | None = None,
) -> tuple[float, Vector]:
    """Mean loss and weights of two halves of two networks, as on two machines."""
    device, gateway = BuiltNetwork(model, 3), BuiltNetwork(model, 99)  # what they begin with is overwritten
    weights = first_weights(model) if start is None else start
    weights.setflags(write=False)
    below, total = device.below(own.cut), 0.0
    bottom = Bottom(device, own, inputs, weights[:below])
    top = Top(gateway, own, inputs, weights[below:]) if own.cut < device.depth else None
    for samples, labels in batches:
        if top is None:
            total += bottom.step(samples, labels)
            continue
        loss, gradient = top.step(through_the_wire(bottom.forward(samples)), labels)
        arrived = through_the_wire(gradient)
        if arrived is not None:
            bottom.backward(arrived)
        total += loss
    above = np.zeros(0, np.float32) if top is None else top.weights()
    return total / len(batches), np.concatenate([bottom.weights(), above])


def first_weights(model: Model) -> Vector:
    network = BuiltNetwork(model, 3)
    vector = np.empty(network.layout.size, np.float32)
    network.layout.save(vector)
    return vector


def kept_batch(model: Model, kind: type = np.uint8) -> list[tuple[np.ndarray | None, Labels | None]]:
    """One batch for all iterations, which is sent only once."""
    return [pictures(model, kind), *[(None, None)] * (ITERATIONS - 1)]


class _Masked(nn.Module):
    """Dropout with masks that were recorded elsewhere."""

    def __init__(self, masks: list[torch.Tensor]) -> None:
        super().__init__()
        self.masks = masks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.masks.pop(0)


def whole_network(model: Model, masks: list[list[torch.Tensor]]) -> Vector:
    """Weights of the whole network, trained by plain torch on the same batch and with the same dropout."""
    built = BuiltNetwork(model, 3)
    network = copy.deepcopy(built.network).train()
    drops = [name for name, module in network.named_modules() if isinstance(module, nn.Dropout)]
    for k, recorded in zip(drops, masks, strict=True):
        *path, last = k.split(".")
        setattr(network.get_submodule(".".join(path)), last, _Masked(list(recorded)))
    samples, labels = pictures(model)
    x = INPUTS.scaled(samples, built)
    for _ in range(ITERATIONS):
        joined_step(network, x, torch.from_numpy(labels))
        sgd_step(list(network.parameters()), RATE)
    return np.concatenate([tensor.numpy().ravel() for tensor in network.state_dict().values()]).astype(np.float32)


@pytest.fixture
def masks(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[list[torch.Tensor]]]:
    """What every dropout let pass in every step, in the order of the layers."""
    recorded: list[torch.Tensor] = []
    drop = torch.nn.functional.dropout

    def record(x: torch.Tensor, p: float, training: bool, inplace: bool) -> torch.Tensor:
        mask = drop(torch.ones_like(x), p, training, inplace)
        if mask.device.type != "meta":  # those of a pass that infers shapes
            recorded.append(mask)
        return x * mask

    monkeypatch.setattr("torch.nn.modules.dropout.F.dropout", record)
    return lambda layers: [recorded[k::layers] for k in range(layers)]


@pytest.mark.parametrize("name", NETWORKS)
def test_halves_train_as_the_whole_network_at_every_cut(
    name: str, masks: Callable[[int], list[list[torch.Tensor]]]
) -> None:
    model = NETWORKS[name]
    network = BuiltNetwork(model, 3)
    layers = sum(isinstance(module, nn.Dropout) for module in network.network.modules())
    start, expected = first_weights(model), None
    for cut in range(network.depth + 1):
        _, found = trained_apart(model, settings(cut), kept_batch(model))
        if expected is None or layers:  # another cut has other streams of dropout
            expected = whole_network(model, [each[-ITERATIONS:] for each in masks(layers)])
        for piece in network.layout.pieces:
            difference = np.linalg.norm(found[piece.place] - expected[piece.place])
            assert difference <= 1e-6 * np.linalg.norm(expected[piece.place]), (cut, piece)
        assert not np.array_equal(found, start)
    if layers:
        assert len(masks(layers)[0]) == ITERATIONS * (network.depth + 1)


def device_and_work(model: Model, *, kind: type, **changed: Any) -> tuple[Work, Samples]:
    rng = np.random.default_rng(0)
    channels = model.input[0]
    images: np.ndarray = rng.integers(0, 256, (40, *model.input)).astype(kind)
    labels = rng.integers(0, 10, 40)
    first, held = np.array([0, 15, 40]), np.arange(40)
    data = Samples(images, labels, first, held, images, labels, np.full(channels, 120.0), np.full(channels, 70.0))
    job = Job(model, seed=3, schedule=RateSchedule(RATE), iterations=ITERATIONS, batch=np.array([5, BATCH]), **changed)
    return Work(job, data), data


@pytest.mark.parametrize(
    ("name", "boundary", "redraw", "kind"),
    [
        ("cnn with batch norm", 32, True, np.uint8),
        ("cnn with batch norm", 8, False, np.uint8),
        ("cnn", 16, True, np.float32),
        ("cnn", 32, False, np.float32),
        ("mlp", 8, False, np.float32),
        ("signal", 32, True, np.float32),
        ("signal", 8, False, np.float32),
        ("residual", 8, True, np.float32),
        ("residual images", 32, False, np.uint8),
        ("two layers with dropout", 32, True, np.uint8),
        ("two layers with dropout", 8, False, np.float32),
        pytest.param("vgg11 with dropout", 32, True, np.uint8, marks=pytest.mark.slow),
        pytest.param("vgg11 with dropout", 8, False, np.uint8, marks=pytest.mark.slow),
        ("half of it frozen", 32, False, np.uint8),
    ],
)
def test_two_machines_give_the_bits_of_one_process(name: str, boundary: int, redraw: bool, kind: type) -> None:
    model, n, index = NETWORKS[name], 1, 4
    work, data = device_and_work(model, kind=kind, boundary=boundary, redraw=redraw, apart=True)
    start, out = work.first_weights(), np.empty((1, work.layout.size), np.float32)
    depth = BuiltNetwork(model, 3).depth
    for cut in {0, 1, depth // 2, depth - 1, depth}:
        batches: list[tuple[np.ndarray | None, Labels | None]] = []
        for iteration in range(ITERATIONS):
            numbers = batch_of(data.of_device(n), BATCH, 3, index, n, iteration)
            is_new = iteration == 0 or redraw
            batches.append((data.images[numbers], data.labels[numbers]) if is_new else (None, None))
        torch.manual_seed(cut)  # the halves have streams of their own
        own = settings(cut, boundary=boundary)
        loss, found = trained_apart(model, own, batches, Inputs(data.mean, data.deviation), start.copy())
        assert work.train(index, np.array([n]), np.array([cut]), start, out)[0, 0] == loss
        assert np.array_equal(found, out[0]), cut


@pytest.mark.parametrize(("bits", "closeness"), [(16, 1e-2), (8, 0.3)])
@pytest.mark.parametrize("name", ["cnn", "mlp", "cnn with batch norm", "signal"])
def test_few_bits_at_the_cut_stay_close_to_the_whole_network(name: str, bits: int, closeness: float) -> None:
    model = NETWORKS[name]
    whole = whole_network(model, [])
    for cut in range(1, BuiltNetwork(model, 3).depth):
        _, found = trained_apart(model, settings(cut, boundary=bits), kept_batch(model))
        assert 1e-7 < np.linalg.norm(found - whole) / np.linalg.norm(whole) < closeness


def test_rounded_messages_hold_scale_and_steps_of_the_streams_that_there_are() -> None:
    model, cut = NETWORKS["cnn"], 2
    network, own = BuiltNetwork(model, 3), settings(2, boundary=8)
    start = first_weights(model)
    samples, labels = pictures(model)
    exact = Bottom(network, settings(cut), INPUTS, start[: network.below(cut)]).forward(samples)
    sent = Bottom(network, own, INPUTS, start[: network.below(cut)]).forward(samples)
    assert isinstance(sent, Quantised)
    assert isinstance(exact, np.ndarray)
    assert sent.steps.dtype == np.int8
    rng = np.random.default_rng(np.random.SeedSequence(3, spawn_key=(3, 4, 1, 0)))
    expected = quantised(np.moveaxis(exact, -1, 1).astype(np.float32), 8, rng)  # only rounded ones have channels first
    assert sent.scale == expected.scale
    assert np.array_equal(sent.steps, expected.steps)
    down = Top(network, settings(cut), INPUTS, start[network.below(cut) :])
    down._settings = dataclasses.replace(own, boundary=32)
    gradient = down.step(np.moveaxis(sent.values, 1, -1), labels).gradient
    assert isinstance(gradient, np.ndarray)
    gradient = np.moveaxis(gradient, -1, 1)
    rounded = Top(network, own, INPUTS, start[network.below(cut) :]).step(sent, labels).gradient
    assert isinstance(rounded, Quantised)
    assert np.array_equal(rounded.steps, quantised(gradient.astype(np.float32), 8, rng).steps)  # first up, then down


def test_pictures_cross_cut_0_as_they_are_and_only_once() -> None:
    model = NETWORKS["cnn"]
    network = BuiltNetwork(model, 3)
    bottom = Bottom(network, settings(0, boundary=8), INPUTS, np.zeros(0, np.float32))
    samples, labels = pictures(model)
    sent = bottom.forward(samples)
    assert isinstance(sent, np.ndarray)
    assert sent.dtype == np.uint8
    assert bottom.forward() is None
    assert bottom.weights().size == 0
    top = Top(network, settings(0, boundary=8), INPUTS, first_weights(model))
    again = Top(BuiltNetwork(model, 3), settings(0, boundary=8), INPUTS, first_weights(model))
    assert top.step(sent, labels).gradient is None
    assert again.step(sent, labels).gradient is None
    assert top.step().loss == again.step(sent, labels).loss  # a batch that is kept is the same as one sent again


def test_a_device_that_trains_nothing_gets_no_gradient() -> None:
    model = NETWORKS["half of it frozen"]
    network = BuiltNetwork(model, 3)
    start = first_weights(model)
    bottom = Bottom(network, settings(1), INPUTS, start[: network.below(1)])
    top = Top(network, settings(1), INPUTS, start[network.below(1) :])
    samples, labels = pictures(model)
    assert top.step(bottom.forward(samples), labels).gradient is None


def test_only_activations_and_their_gradients_cross_the_cut() -> None:
    model = NETWORKS["cnn"]
    network = BuiltNetwork(model, 3)
    start = first_weights(model)
    top = Top(network, settings(2), INPUTS, start[network.below(2) :])
    activations = Bottom(network, settings(2), INPUTS, start[: network.below(2)]).forward(pictures(model)[0])
    assert isinstance(activations, np.ndarray)
    assert activations.shape == (BATCH, *network.sent_shape(2)) == (BATCH, 14, 14, 8)  # as they lie in memory
    assert activations.flags.c_contiguous
    gradient = top.step(activations, pictures(model)[1]).gradient
    assert isinstance(gradient, np.ndarray)
    assert gradient.shape == activations.shape
    assert gradient.flags.c_contiguous


def test_numbers_that_are_not_finite_show_in_the_loss_even_if_rounded() -> None:
    model, cut = NETWORKS["cnn"], 2
    network, own = BuiltNetwork(model, 3), settings(2, boundary=8)
    start = first_weights(model)
    start[0] = 3e38
    sent = Bottom(network, own, INPUTS, start[: network.below(cut)]).forward(pictures(model)[0])
    loss, gradient = Top(network, own, INPUTS, start[network.below(cut) :]).step(sent, pictures(model)[1])
    assert np.isnan(loss)
    assert isinstance(gradient, Quantised)
    assert np.isnan(gradient.values).all()


def test_threads_that_train_devices_at_once_do_not_share_their_dropout() -> None:
    model, cut = NETWORKS["two layers with dropout"], 1
    alone = [trained_apart(model, settings(cut, device=n), kept_batch(model))[1] for n in range(3)]
    found: dict[int, Vector] = {}

    def train(n: int) -> None:
        found[n] = trained_apart(model, settings(cut, device=n), kept_batch(model))[1]

    threads = [threading.Thread(target=train, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not np.array_equal(alone[0], alone[1])
    assert all(np.array_equal(alone[n], found[n]) for n in range(3))


@pytest.mark.parametrize(
    ("received", "labels", "problem"),
    [
        (
            np.zeros((BATCH, 8, 14, 13), np.float32),
            np.zeros(BATCH, int),
            r"activations must be float32 \(6, 14, 14, 8\)",
        ),
        (np.zeros((BATCH + 1, 14, 14, 8), np.float32), np.zeros(BATCH, int), r"got float32 \(7, 14, 14, 8\)"),
        (np.zeros((BATCH, 14, 14, 8)), np.zeros(BATCH, int), "got float64"),
        (np.zeros((BATCH, 14, 14, 8), np.uint8), np.zeros(BATCH, int), "got uint8"),
        (Quantised(np.float32(1), np.zeros((BATCH, 14, 14, 8), np.int8)), np.zeros(BATCH, int), "got int8"),
        (None, np.zeros(BATCH, int), "activations are missing"),
        (np.zeros((BATCH, 14, 14, 8), np.float32), None, r"activations must be float32 \(0, 14"),
        (np.zeros((0, 14, 14, 8), np.float32), np.zeros(0, int), "batch is empty"),
        (np.zeros((BATCH, 14, 14, 8), np.float32), np.full(BATCH, 10), "labels must be 0 to 9, got 10 to 10"),
        (np.zeros((BATCH, 14, 14, 8), np.float32), np.full(BATCH, -1), "labels must be 0 to 9, got -1 to -1"),
        (np.zeros((BATCH, 14, 14, 8), np.float32), np.zeros(BATCH), "whole numbers, got float64"),
        (np.zeros((BATCH, 14, 14, 8), np.float32), np.zeros((BATCH, 1), int), r"whole numbers, got int64 \(6, 1\)"),
    ],
)
def test_what_does_not_fit_a_top_is_refused(received: Sent | None, labels: Ints | None, problem: str) -> None:
    network, start = BuiltNetwork(NETWORKS["cnn"], 3), first_weights(NETWORKS["cnn"])
    top = Top(network, settings(2), INPUTS, start[network.below(2) :])
    with pytest.raises(ValueError, match=problem):
        top.step(received, labels)


def test_what_does_not_fit_a_bottom_is_refused() -> None:
    network, start = BuiltNetwork(NETWORKS["cnn"], 3), first_weights(NETWORKS["cnn"])
    with pytest.raises(
        ValueError, match=r"weights of the bottom at cut 2 must be float32 \(80,\), got float32 \(79,\)"
    ):
        Bottom(network, settings(2), INPUTS, start[:79])
    bottom = Bottom(network, settings(2), INPUTS, start[: network.below(2)])
    with pytest.raises(ValueError, match="first iteration has no samples"):
        bottom.forward()
    with pytest.raises(ValueError, match="no batch waits"):
        bottom.backward(np.zeros((BATCH, 14, 14, 8), np.float32))
    bottom.forward(pictures(NETWORKS["cnn"])[0])
    with pytest.raises(ValueError, match=r"gradient must be float32 \(6, 14, 14, 8\), got float32 \(6, 8\)"):
        bottom.backward(np.zeros((BATCH, 8), np.float32))
