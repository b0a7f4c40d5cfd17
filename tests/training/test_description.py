"""From a torch network to its layer list."""

import tomllib

import pytest
import torch
from torch import nn

from fedfloor.costs.layers import layer_costs
from fedfloor.errors import ModelError
from fedfloor.runs.profile import layers_toml
from fedfloor.scenario.layers import ATTACHMENTS, KINDS, LayerSpec, parameter_count, unchained
from fedfloor.scenario.model import Costs, Model
from fedfloor.training.network.description import TORCH_ATTACHMENTS, TORCH_LAYERS, cut_points, describe, infer_layers
from fedfloor.training.network.models import MODELS, build_model
from tests.training.networks import Skipped, Wrapped, depthwise, normed, odd, residual, signal, two_layers

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
    Model(name="tests.training.networks:residual", input=(3, 64)),
    Model(name="tests.training.networks:residual_images", input=(1, 28, 28)),
    Model(name="tests.training.networks:counts_batches", input=(1, 28, 28)),
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
    assert {layer.kind for layer in TORCH_LAYERS.values()} == set(KINDS) - {"block"}  # which has users' modules
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


def test_a_users_module_is_one_block_and_is_not_cut_inside() -> None:
    layers = describe(residual(), (3, 64))
    assert [layer.name for layer in layers] == ["conv1", "pool1", "block1", "block2", "pool2", "linear1"]
    assert layers[3].attached == ("layer_norm",)
    assert [layer.output for layer in layers[2:4]] == [(12, 32), (12, 32)]
    assert cut_points(residual()) == (0, 3, 4, 5, 7, 9, 10)


def test_a_layer_list_with_blocks_survives_as_toml() -> None:
    layers = describe(residual(), (3, 64))
    entries = tomllib.loads(layers_toml(layers))["layers"]
    assert tuple(LayerSpec.model_validate(entry) for entry in entries) == layers
    assert tuple(LayerSpec.model_validate(layer.model_dump()) for layer in layers) == layers


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("every_pair", r"gives \[2\] per sample in a batch of 2 but \[3\] in a batch of 3\. Make its output"),
        ("among_samples", r"needs 256, 576, 1024 FLOPs or bytes for batches of 2, 3, 4, .* Let it treat every sample"),
        ("one_result", r"does not return one result per sample\. Return one tensor whose first axis is the batch"),
        ("two_results", r"does not return one result per sample\. Return one tensor whose first axis is the batch"),
        ("in_place", r"changes its input in place, .* Use inplace=False"),
        ("reads_a_value", r"failed for samples of \[16\]: RuntimeError: .*networks\.py, line .* must read no values"),
        ("own_tensor", r"failed for samples of \[16\]: RuntimeError: .*networks\.py, line .* must be buffers"),
    ],
)
def test_a_module_that_cannot_be_one_unit_is_named(way: str, expected: str) -> None:
    with pytest.raises(ModelError, match=rf"^net: module '2' \(_Odd\) {expected}"):
        describe(odd(way), (1, 28, 28), label="net")


def test_a_module_of_torch_that_is_not_known_is_no_block_by_itself() -> None:
    chain = (nn.Flatten(), nn.Linear(9, 4))
    with pytest.raises(ModelError, match=r"module '2' is a Softmax, .* call it in a module of your own, which is one"):
        describe(nn.Sequential(*chain, nn.Softmax(1)), (1, 3, 3))
    assert describe(nn.Sequential(*chain, Wrapped(nn.Softmax(1))), (1, 3, 3))[-1].kind == "block"


def test_describing_a_block_leaves_its_statistics_and_hooks_as_they_are() -> None:
    norm = nn.BatchNorm1d(4)
    network = nn.Sequential(nn.Linear(3, 4), Skipped(norm))
    describe(network, (3,))
    assert norm.num_batches_tracked == 0
    assert not norm._forward_hooks
    assert all(parameter.grad is None for parameter in network.parameters())


def test_weights_that_two_blocks_share_are_refused() -> None:
    layer = nn.Linear(4, 4)
    with pytest.raises(ModelError, match="module '1' shares its weights with an earlier one"):
        describe(nn.Sequential(Wrapped(layer), Wrapped(layer)), (4,))
    assert describe(nn.Sequential(Wrapped(layer, layer)), (4,))[0].parameters == 20  # inside a block they may be


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
