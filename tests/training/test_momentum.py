"""Heavy-ball momentum inside a round: joined, apart and stacked training against torch's own optimiser."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from fedfloor.arrays import Vector
from fedfloor.scenario.model import Model
from fedfloor.training.data.samples import Samples, batch_of
from fedfloor.training.network.built import BuiltNetwork, Inputs
from fedfloor.training.schedule import RateSchedule
from fedfloor.training.work import Job, Work

CNN = Model(name="cnn", input=(1, 28, 28), width=0.25)
NORMED = Model(name="cnn", input=(1, 28, 28), width=0.25, batch_norm=True)
DENSE = Model(name="mlp", input=(1, 28, 28), width=0.125)
FROZEN = Model(name="tests.training.networks:half_frozen", input=(1, 28, 28))
RATE, MU, ITERATIONS, BATCH = 0.05, 0.9, 4, 6
#: a rate that is a quarter of the first one in round 7
SCHEDULE = RateSchedule(4 * RATE, "step", 7, 0.25)


def data() -> Samples:
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (40, 1, 28, 28), np.uint8), rng.integers(0, 10, 40)
    scale = np.array([120.0]), np.array([70.0])
    return Samples(images, labels, np.array([0, 15, 40]), np.arange(40), images[:0], labels[:0], *scale)


def work_of(model: Model, **changed: Any) -> Work:
    settings = {"redraw": True, "apart": False, "momentum": MU, **changed}
    return Work(Job(model, 3, SCHEDULE, ITERATIONS, np.array([BATCH, BATCH]), **settings), data())


def trained(work: Work, cut: int = 1) -> Vector:
    """Weights of both devices after round 7, (2, P)."""
    out = np.empty((2, work.layout.size), np.float32)
    work.train(7, np.arange(2), np.array([cut, cut]), work.first_weights(), out)
    return out


def by_torch(model: Model, n: int) -> Vector:
    """Weights of a device after round 7, trained with `torch.optim.SGD`."""
    network, samples = BuiltNetwork(model, 3), data()
    optimiser = torch.optim.SGD((part for part in network.parameters if part.requires_grad), lr=RATE, momentum=MU)
    network.network.train()
    for iteration in range(ITERATIONS):
        numbers = batch_of(samples.of_device(n), BATCH, 3, 7, n, iteration)
        x = Inputs(samples.mean, samples.deviation).scaled(samples.images[numbers], network)
        optimiser.zero_grad()
        loss = functional.cross_entropy(network.network(x), torch.from_numpy(samples.labels[numbers]))
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    vector = np.empty(network.layout.size, np.float32)
    network.layout.save(vector)
    return vector


def close(one: Vector, other: Vector) -> bool:
    return bool(np.linalg.norm(one - other) <= 1e-5 * np.linalg.norm(other))


@pytest.mark.parametrize("model", [CNN, NORMED, FROZEN], ids=["cnn", "batch norm", "half frozen"])
def test_joined_and_apart_training_agree_with_torch_at_every_cut(model: Model) -> None:
    reference = by_torch(model, 1)
    assert close(trained(work_of(model))[1], reference)
    for cut in range(BuiltNetwork(model, 3).depth + 1):
        assert close(trained(work_of(model, apart=True), cut)[1], reference), cut


def test_stacked_training_agrees_with_torch() -> None:
    work = work_of(DENSE)
    assert work.stacks > 1
    out = trained(work)
    for n in (0, 1):
        assert close(out[n], by_torch(DENSE, n))


def test_the_velocity_is_dropped_at_the_end_of_a_round() -> None:
    work = work_of(CNN)
    assert np.array_equal(trained(work), trained(work))


def test_momentum_makes_a_difference() -> None:
    assert not close(trained(work_of(CNN)), trained(work_of(CNN, momentum=0.0)))


def test_schedules_are_functions_of_the_round() -> None:
    assert [RateSchedule(0.1).rate(index) for index in (0, 9)] == [0.1, 0.1]
    steps = RateSchedule(0.8, "step", 10, 0.5)
    assert [steps.rate(index) for index in (0, 9, 10, 29, 30)] == [0.8, 0.8, 0.4, 0.2, 0.1]
    cosine = RateSchedule(1.0, "cosine", 100, 0.2)
    assert [cosine.rate(index) for index in (0, 50, 100, 1000)] == pytest.approx([1.0, 0.6, 0.2, 0.2])
