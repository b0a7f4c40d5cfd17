"""Where networks are cut, and their weights as vectors."""

import numpy as np
import pytest
import torch
from torch import nn

from fedfloor.scenario.model import Model
from fedfloor.training.network.description import cut_points
from fedfloor.training.network.models import build_model
from fedfloor.training.network.split import halves, joined_step, sgd_step
from fedfloor.training.network.weights import Layout, average, initial_weights

NETWORKS = {
    "vgg11": Model(name="vgg11", input=(3, 32, 32), width=0.1),
    "vgg11 with batch norm": Model(name="vgg11", input=(3, 32, 32), width=0.1, batch_norm=True),
    "vgg11 with dropout": Model(name="vgg11", input=(3, 32, 32), width=0.05, head="4096-4096"),
    "cnn": Model(name="cnn", input=(1, 28, 28)),
    "cnn with batch norm": Model(name="cnn", input=(1, 28, 28), batch_norm=True),
    "mlp": Model(name="mlp", input=(1, 28, 28)),
}


def network_and_batch(model: Model) -> tuple[nn.Sequential, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    network = build_model(model)
    assert isinstance(network, nn.Sequential)
    initial_weights(network, seed=0)
    return network, torch.randn(8, *model.input), torch.randint(0, 10, (8,))


def test_cuts_count_the_layers_that_costs_count() -> None:
    network, _, _ = network_and_batch(NETWORKS["vgg11"])
    points = cut_points(network)
    assert len(points) == 14 + 1
    assert points[0] == 0
    assert points[-1] == sum(1 for _ in network)
    assert len(list(halves(network, 2)[0].parameters())) == 2  # one convolution and its pooling
    assert list(halves(network, 14)[1].parameters()) == []


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_survive_as_a_vector(name: str) -> None:
    network, x, y = network_and_batch(NETWORKS[name])
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    joined_step(network, x, y)
    sgd_step(list(network.parameters()), 0.1)
    layout = Layout(network)
    vector = np.empty(layout.size, np.float32)
    layout.save(vector)
    other, _, _ = network_and_batch(NETWORKS[name])
    Layout(other).load(vector)
    for key, value in network.state_dict().items():
        assert torch.equal(other.state_dict()[key], value)
    assert np.array_equal(layout.vector(layout.named(vector)), vector)


def test_averaging_weighs_by_points_and_two_tiers_equal_one() -> None:
    rng = np.random.default_rng(0)
    models = rng.normal(size=(5, 1000)).astype(np.float32)
    points = np.array([3.0, 1.0, 7.0, 2.0, 5.0])
    floors = [(0, 1, 2), (3, 4)]
    tier = [
        (float(points[list(floor)].sum()), average(((points[n], models[n]) for n in floor), 1000)) for floor in floors
    ]
    expected = (points[:, None] * models.astype(float)).sum(0) / points.sum()
    assert np.allclose(average(iter(tier), 1000), expected, atol=1e-6)
