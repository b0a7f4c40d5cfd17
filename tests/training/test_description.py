"""From a torch network to its layer list."""

import pytest
import torch
from torch import nn

from fedfloor.costs.layers import layer_costs
from fedfloor.errors import ModelError
from fedfloor.scenario.layers import ATTACHMENTS, KINDS, LayerSpec, parameter_count, unchained
from fedfloor.scenario.model import Costs, Model
from fedfloor.training.network.description import TORCH_ATTACHMENTS, TORCH_LAYERS, describe, infer_layers
from fedfloor.training.network.models import MODELS, build_model
from tests.training.networks import depthwise, normed, signal, two_layers

NETWORKS = [
    Model(name="vgg11", input=(3, 32, 32)),
    Model(name="vgg11", input=(3, 32, 32), head="4096-4096", batch_norm=True, width=0.25),
    Model(name="cnn", input=(1, 28, 28), batch_norm=True),
    Model(name="mlp", input=(1, 28, 28)),
    Model(name="tests.training.networks:two_layers", input=(1, 28, 28)),
    Model(name="tests.training.networks:depthwise", input=(4, 9, 9)),
    Model(name="tests.training.networks:reuses_its_activation", input=(1, 28, 28)),
    Model(name="tests.training.networks:signal", input=(3, 64)),
    Model(name="tests.training.networks:normed", input=(3, 64)),
    Model(name="tests.training.networks:normed_images", input=(1, 28, 28)),
]


@pytest.mark.parametrize("model", NETWORKS, ids=lambda model: f"{model.name}-{model.width}")
def test_parameters_are_those_of_the_network(model: Model) -> None:
    network = build_model(model)
    assert parameter_count(infer_layers(model, Costs())) == sum(p.numel() for p in network.parameters())


@pytest.mark.parametrize("model", NETWORKS, ids=lambda model: f"{model.name}-{model.width}")
def test_shapes_chain_up_to_the_output_of_the_network(model: Model) -> None:
    layers = infer_layers(model, Costs())
    assert unchained(layers) is None
    with torch.no_grad():
        assert tuple(build_model(model).eval()(torch.zeros(2, *model.input)).shape[1:]) == layers[-1].output


def test_every_layer_kind_has_a_torch_module_and_every_torch_module_a_kind() -> None:
    assert {layer.kind for layer in TORCH_LAYERS.values()} == set(KINDS)
    assert set(TORCH_ATTACHMENTS.values()) - {None} == set(ATTACHMENTS)


def test_layers_are_named_after_the_short_name_of_their_kind() -> None:
    names = [layer.name for layer in describe(depthwise(), (4, 9, 9))]
    assert names == ["conv1", "pool1", "linear1"]


def test_vgg11_has_14_layers_and_its_cut_2_lies_after_the_first_pooling() -> None:
    layers = infer_layers(NETWORKS[0], Costs())
    assert [layer.kind for layer in layers].count("convolution") == 8
    assert [layer.kind for layer in layers].count("max_pooling") == 5
    assert (len(layers), layers[1].name) == (14, "pool1")
    assert len(infer_layers(NETWORKS[1], Costs())) == 16


def test_what_follows_a_layer_belongs_to_it() -> None:
    layers = describe(two_layers(), (1, 28, 28))
    assert [layer.attached for layer in layers] == [("activation_in", "dropout"), ()]
    grouped = describe(depthwise(), (4, 9, 9))
    assert grouped[0].attached == ("batch_norm", "activation")
    assert (grouped[0].groups, grouped[0].bias, grouped[0].weights) == (2, False, 8 * 2 * 9)
    assert (grouped[1].kind, grouped[1].kernel) == ("average_pooling", (7, 7))


def test_layers_of_signals_have_kernels_of_one_size() -> None:
    layers = describe(signal(), (3, 64))
    assert [layer.name for layer in layers] == ["conv1", "pool1", "conv2", "pool2", "pool3", "linear1"]
    assert [layer.kernel for layer in layers] == [(5,), (2,), (3,), (2,), (2,), None]
    assert [layer.output for layer in layers] == [(8, 64), (8, 32), (12, 15), (12, 7), (12, 4), (10,)]
    assert layers[0].attached == ("batch_norm", "activation")


def test_group_and_layer_norms_belong_to_a_layer_with_the_sizes_of_their_tensors() -> None:
    layers = describe(normed(), (3, 64))
    assert [layer.attached for layer in layers] == [
        ("group_norm", "activation"),
        (),
        ("layer_norm", "activation_in"),
        ("flatten",),
        ("layer_norm", "activation_in", "group_norm"),
        (),
    ]
    assert [layer.norm_sizes for layer in layers] == [(8, 8), (), (192, 192), (), (16,), ()]


def test_a_layer_without_later_settings_has_no_later_keys() -> None:
    keys = {"name", "kind", "input", "output", "kernel", "groups", "bias", "attached"}
    assert all(layer.model_dump().keys() == keys for layer in infer_layers(NETWORKS[0], Costs()))
    normed_layers = describe(normed(), (3, 64))
    assert "norm_sizes" in normed_layers[0].model_dump(exclude={"name"})
    assert [LayerSpec.model_validate_json(layer.model_dump_json()) for layer in normed_layers] == list(normed_layers)


@pytest.mark.parametrize("pooling", [nn.MaxPool1d(2), nn.AvgPool1d(2), nn.AdaptiveAvgPool1d(4)])
def test_signals_without_channels_are_refused(pooling: nn.Module) -> None:
    expected = r"module '0' .* cannot be described: .* must be \[channels, length\] .*, got \[8\] and \[4\]"
    with pytest.raises(ModelError, match=expected):
        describe(nn.Sequential(pooling, nn.Linear(4, 2)), (8,))


def test_no_operation_is_carried_out() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(784, 200_000, device="meta"))
    (layer,) = describe(network, (1, 28, 28))
    assert layer.parameters == 785 * 200_000


def test_describing_leaves_a_network_as_it_is() -> None:
    network = build_model(NETWORKS[3])
    describe(network, (1, 28, 28))
    assert all(parameter.device.type == "cpu" for parameter in network.parameters())


def test_an_activation_before_the_first_layer_is_refused() -> None:
    with pytest.raises(ModelError, match="stands before the first layer"):
        describe(nn.Sequential(nn.ReLU(), nn.Linear(3, 2)), (3,))


def test_a_network_without_layers_is_refused() -> None:
    with pytest.raises(ModelError, match=r"has no layer of a known kind\. Add one of: convolution, "):
        describe(nn.Sequential(nn.Flatten()), (3,))


@pytest.mark.parametrize("name", MODELS)
def test_built_in_networks_scale_with_their_width(name: str) -> None:
    shape = (3, 32, 32) if name == "vgg11" else (1, 28, 28)
    narrow, wide = (infer_layers(Model(name=name, input=shape, width=width), Costs()) for width in (0.5, 1.0))
    assert [layer.name for layer in narrow] == [layer.name for layer in wide]
    assert layer_costs(narrow, "exact").flop.sum() < layer_costs(wide, "exact").flop.sum()
