"""Bits on the air, by hand and against the tensors of real networks."""

import pytest

import fedfloor
from fedfloor.costs.layers import layer_costs, model_bits
from fedfloor.costs.plant import network_workload, traffic_of
from fedfloor.costs.precision import download_bits, upload_bits
from fedfloor.scenario.file import Precision
from fedfloor.scenario.layers import LayerSpec
from fedfloor.scenario.model import Costs, Model
from fedfloor.training.network.description import infer_layers
from fedfloor.training.network.models import build_model

NETWORKS = [
    Model(name="vgg11", input=(3, 32, 32), width=0.1),
    Model(name="vgg11", input=(3, 32, 32), width=0.1, batch_norm=True, head="4096-4096"),
    Model(name="cnn", input=(1, 28, 28)),
    Model(name="cnn", input=(1, 28, 28), batch_norm=True),
    Model(name="mlp", input=(1, 28, 28)),
    Model(name="tests.training.networks:depthwise", input=(4, 9, 9)),
    Model(name="tests.training.networks:signal", input=(3, 64)),
    Model(name="tests.training.networks:normed", input=(3, 64)),
    Model(name="tests.training.networks:residual", input=(3, 64)),
]
CHAIN = [
    LayerSpec(name="c", kind="convolution", input=(2, 6, 6), output=(4, 6, 6), kernel=(3, 3), attached=("batch_norm",)),
    LayerSpec(name="p", kind="max_pooling", input=(4, 6, 6), output=(4, 3, 3), kernel=(2, 2), attached=("flatten",)),
    LayerSpec(name="l", kind="linear", input=(36,), output=(5,), bias=False),
]


def test_the_bits_of_a_small_chain_are_those_counted_by_hand() -> None:
    sizes = (2 * 9 * 4, 4, 4, 4, 4, 4, 36 * 5)  # kernel, bias, batch norm's weight, bias, mean and variance; matrix
    for bits in (16, 8):
        assert upload_bits(CHAIN, bits) == sum(bits * size + 32 for size in sizes) + 32  # and batch norm's counter
    assert download_bits(CHAIN, 16) == 16 * sum(sizes) + 32


def test_with_32_bits_both_directions_carry_the_papers_model() -> None:
    assert upload_bits(CHAIN, 32) == download_bits(CHAIN, 32) == model_bits(CHAIN)


@pytest.mark.parametrize("model", NETWORKS, ids=lambda model: f"{model.name}-{model.batch_norm}")
def test_layers_have_the_tensors_of_their_network(model: Model) -> None:
    state = build_model(model).state_dict().values()
    layers = infer_layers(model, Costs())
    sizes = [size for layer in layers for size in layer.tensors]
    assert sizes == [tensor.numel() for tensor in state if tensor.is_floating_point()]
    assert sum(layer.counters for layer in layers) == sum(not tensor.is_floating_point() for tensor in state)


def test_a_workload_has_the_bits_of_its_precision() -> None:
    costs = layer_costs(CHAIN, "exact")
    work = network_workload(CHAIN, costs, local_iterations=1, min_cut=0, precision=Precision(upload=8, download=16))
    assert work.upload_bits == upload_bits(CHAIN, 8)
    assert work.download_bits == download_bits(CHAIN, 16)
    assert work.model_bits == model_bits(CHAIN)


@pytest.mark.parametrize(("bits", "scale"), [(32, 0), (16, 32), (8, 32)])
def test_a_tensor_with_fewer_bits_carries_its_scale(bits: int, scale: int) -> None:
    traffic = traffic_of(fedfloor.load("quick", overrides=[f"precision.boundary={bits}"]))
    assert (traffic.value_bits, traffic.tensor_bits) == (bits, scale)


@pytest.mark.parametrize("bits", [32, 16, 8])
def test_pictures_are_sent_with_8_bits_and_other_samples_like_a_tensor(bits: int) -> None:
    scenario = fedfloor.load("quick", overrides=[f"precision.boundary={bits}"])
    own = scenario.model_copy(update={"data": scenario.data.model_copy(update={"name": "mine:data"})})
    pictures, others = traffic_of(scenario), traffic_of(own)
    assert (pictures.sample_bits, pictures.batch_bits) == (8, 0)
    assert (others.sample_bits, others.batch_bits) == (others.value_bits, others.tensor_bits)


def test_weights_that_were_downloaded_with_16_bits_travel_on_with_16() -> None:
    traffic = traffic_of(fedfloor.load("quick", overrides=["precision.download=16"]))
    assert (traffic.weight_bits_down, traffic.weight_bits_up) == (16, 32)
