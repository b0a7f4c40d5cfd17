"""Layer costs against torch itself: FLOP for FLOP, and the allocator's peak."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
import torch
from benchmarks.memory import split_at
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from fedfloor.costs.layers import boundary_values, layer_costs, model_bits
from fedfloor.runs.profile import profile_layers
from fedfloor.scenario.layers import LayerSpec, parameter_count
from fedfloor.scenario.model import Costs, Model
from fedfloor.training.network.description import describe, infer_layers
from fedfloor.training.network.models import build_model
from fedfloor.training.network.peak import allocator_peak
from fedfloor.training.network.split import halves
from tests.training.networks import Residual, Skipped, Wrapped

#: predicted over measured; oneDNN needs less workspace on CPUs with AVX-512 than on others
MEMORY_RATIO = (0.85, 1.25)
VGG = {head: Model(name="vgg11", input=(3, 32, 32), head=head) for head in ("linear", "4096-4096")}


def layers_of(model: Model) -> tuple[LayerSpec, ...]:
    return infer_layers(model, Costs())


def counted(network: nn.Sequential, shape: tuple[int, ...], batch: int) -> list[tuple[int, int]]:
    """FLOPs of the products of every module that has some, as torch counts them, forward and backward."""
    x, y = torch.randn(batch, *shape), torch.zeros(batch, dtype=torch.long)
    with FlopCounterMode(display=False) as forward:
        network(x)
    with FlopCounterMode(display=False) as both:
        nn.functional.cross_entropy(network(x), y).backward()  # type: ignore[no-untyped-call]
    flops = []
    for name, _ in network.named_children():
        there, there_and_back = (
            sum(counter.get_flop_counts().get(f"Sequential.{name}", {}).values()) for counter in (forward, both)
        )
        if there:
            flops.append((there, there_and_back - there))
    return flops


def own(name: str, *shape: int) -> Model:
    return Model(name=f"tests.training.networks:{name}", input=shape)


@pytest.mark.parametrize(
    ("model", "products"),
    [
        (VGG["linear"], 9),
        (VGG["4096-4096"], 11),
        (own("signal", 3, 64), 3),
        (own("long_signal", 6, 512), 3),
        (own("residual", 3, 64), 4),
    ],
    ids=["linear", "4096-4096", "signal", "long_signal", "residual"],
)
def test_exact_products_equal_torch_on_every_layer(model: Model, products: int) -> None:
    batch = 3
    torch.manual_seed(0)
    network = build_model(model)
    assert isinstance(network, nn.Sequential)
    layers = layers_of(model)
    costs = layer_costs(layers, "exact")
    trained = [index for index, layer in enumerate(layers) if layer.learns]
    ours = [
        (batch * costs.forward_flop[index], batch * (costs.error_flop[index] + costs.gradient_flop[index]))
        for index in trained
    ]
    assert ours == counted(network, model.input, batch)
    assert len(ours) == products


@pytest.mark.parametrize("batch", [1, 50, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("head", VGG)
def test_exact_memory_is_near_the_allocators_peak(head: str, batch: int) -> None:
    costs = layer_costs(layers_of(VGG[head]), "exact")
    ours = costs.fixed_bytes.sum() + batch * costs.sample_bytes.sum()
    seen = allocator_peak(build_model(VGG[head]), torch.randn(batch, 3, 32, 32))
    assert MEMORY_RATIO[0] <= ours / seen <= MEMORY_RATIO[1]


@pytest.mark.parametrize("batch", [1, 50])
def test_exact_memory_of_a_network_for_signals_is_near_the_allocators_peak(batch: int) -> None:
    model = own("long_signal", 6, 512)
    costs = layer_costs(layers_of(model), "exact")
    ours = costs.fixed_bytes.sum() + batch * costs.sample_bytes.sum()
    seen = allocator_peak(build_model(model), torch.randn(batch, *model.input))
    assert MEMORY_RATIO[0] <= ours / seen <= MEMORY_RATIO[1]


def saved_bytes(network: nn.Module, x: torch.Tensor) -> int:
    """Bytes that autograd keeps until the backward pass, with the batch and the output."""
    kept = {}
    weights = {tensor.data_ptr() for tensor in (*network.parameters(), *network.buffers())}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = network(x)
    keep(x)
    keep(output)
    return sum(storage.nbytes() for storage in kept.values())


@pytest.mark.parametrize(
    ("norm", "groups"), [(nn.GroupNorm(3, 12), 3), (nn.LayerNorm([12, 40]), 1), (nn.LayerNorm(40), 12)]
)
def test_exact_keeps_what_autograd_saves_of_a_norm_except_its_means(norm: nn.Module, groups: int) -> None:
    batch, network = 5, nn.Sequential(nn.Conv1d(4, 12, 3, padding=1), norm, nn.ReLU())
    kept = layer_costs(describe(network, (4, 40)), "exact").output_bytes.sum()
    assert saved_bytes(network, torch.randn(batch, 4, 40)) == batch * (kept + 4 * 2 * groups)  # mean and deviation


def test_exact_keeps_what_autograd_saves_of_blocks() -> None:
    batch, blocks = 5, (Residual(8, 12), Skipped(nn.Conv1d(12, 12, 3, padding=1), nn.GELU(), nn.MaxPool1d(3, 1, 1)))
    network = nn.Sequential(*blocks)
    kept = layer_costs(describe(network, (8, 32)), "exact").output_bytes.sum()
    means = 2 * 2 * 4 * 12  # of the two batch norms, with their deviations: they do not depend on the batch
    assert saved_bytes(network, torch.randn(batch, 8, 32)) == batch * kept + means


@pytest.mark.parametrize("cost_model", ["exact", "paper"])
@pytest.mark.parametrize("first", [True, False])
def test_a_block_costs_as_much_as_the_layers_in_it(cost_model: str, first: bool) -> None:
    below = [] if first else [nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()]
    inside = [nn.Conv2d(4, 8, 3, groups=2), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
    inside += [nn.Flatten(), nn.Linear(8 * 16, 20), nn.ReLU()]
    chain, blocks = nn.Sequential(*below, *inside), nn.Sequential(*below, Wrapped(*inside))
    one, other = (layer_costs(describe(network, (4, 10, 10)), cost_model) for network in (chain, blocks))
    for field in dataclasses.fields(one):
        if field.name not in ("error_flop", "gradient_flop") or cost_model == "paper":  # errors inside are gradients
            assert getattr(one, field.name).sum() == getattr(other, field.name).sum(), field.name
    assert one.flop.sum() == other.flop.sum()


@pytest.mark.parametrize("batch", [1, 50])
@pytest.mark.parametrize("kind", ["plain skip", "projected skip"])
def test_exact_memory_of_blocks_is_near_the_allocators_peak(kind: str, batch: int) -> None:
    chain = (nn.Conv1d(64, 64, 5, padding=2), nn.GroupNorm(4, 64), nn.ReLU(), nn.Conv1d(64, 64, 5, padding=2))
    block, channels = (Skipped(*chain), 64) if kind == "plain skip" else (Residual(64, 128), 128)
    below = (nn.Conv1d(6, 64, 9, padding=4), nn.ReLU(), nn.MaxPool1d(4))
    network = nn.Sequential(*below, block, nn.ReLU(), nn.AvgPool1d(2), nn.Flatten(), nn.Linear(64 * channels, 10))
    costs = layer_costs(describe(network, (6, 512)), "exact")
    ours = costs.fixed_bytes.sum() + batch * costs.sample_bytes.sum()
    assert MEMORY_RATIO[0] <= ours / allocator_peak(network, torch.randn(batch, 6, 512)) <= MEMORY_RATIO[1]


@pytest.mark.parametrize("cut", [2, 4])
def test_exact_memory_of_shallow_halves_is_within_a_quarter(cut: int) -> None:
    network = build_model(VGG["linear"])
    assert isinstance(network, nn.Sequential)
    layers, batch = layers_of(VGG["linear"]), 20
    costs = layer_costs(layers, "exact")
    held = costs.fixed_bytes + batch * costs.sample_bytes
    bottom, top = split_at(network, cut)
    assert held[:cut].sum() == pytest.approx(allocator_peak(bottom, torch.randn(batch, 3, 32, 32)), rel=0.25)
    seen = allocator_peak(top, torch.randn(batch, *layers[cut].input), error_down=True)
    assert held[cut:].sum() == pytest.approx(seen, rel=0.25)


def test_paper_totals_of_vgg11() -> None:  # Table II
    layers = layers_of(VGG["linear"])
    costs = layer_costs(layers, "paper")
    assert costs.forward_flop.sum() / 1e6 == pytest.approx(305.66, abs=0.005)
    assert costs.error_flop.sum() / 1e6 == pytest.approx(0.165, abs=0.0005)
    assert costs.gradient_flop.sum() / 1e6 == pytest.approx(305.53, abs=0.005)
    assert parameter_count(layers) / 1e6 == pytest.approx(9.23, abs=0.005)
    assert model_bits(layers) == 32 * parameter_count(layers)


def test_paper_counts_a_convolution_as_the_table_does() -> None:
    layer = LayerSpec(name="c", kind="convolution", input=(2, 5, 7), output=(4, 5, 7), kernel=(3, 1))
    costs = layer_costs([layer], "paper")
    assert costs.forward_flop[0] == 2 * 2 * 3 * 1 * 4 * 5 * 7
    assert costs.error_flop[0] == 2 * (2 * 1 + 1 * 7 - 2) * (2 * 3 + 3 * 5 - 2)
    assert costs.fixed_bytes[0] == 2 * 4 * (2 * 3 * 1 * 4)
    assert costs.sample_bytes[0] == 4 * (4 * 5 * 7) + 4 * (2 * 5 * 7)


@pytest.mark.parametrize("cost_model", ["exact", "paper"])
def test_a_signal_costs_as_much_as_an_image_of_height_1(cost_model: str) -> None:
    signal = layers_of(own("signal", 3, 64))
    image = [
        layer.model_copy(
            update={
                "kernel": None if layer.kernel is None else (1, *layer.kernel),
                "input": (layer.input[0], 1, *layer.input[1:]),
                "output": (layer.output[0], 1, *layer.output[1:]),
            }
        )
        if layer.kernel is not None
        else layer
        for layer in signal
    ]
    one, other = layer_costs(signal, cost_model), layer_costs(image, cost_model)
    for field in dataclasses.fields(one):
        assert np.array_equal(getattr(one, field.name), getattr(other, field.name)), field.name


def test_paper_counts_a_convolution_of_signals_as_the_table_does_in_one_dimension() -> None:
    layer = LayerSpec(name="c", kind="convolution", input=(2, 7), output=(4, 7), kernel=(3,))
    costs = layer_costs([layer], "paper")
    assert costs.forward_flop[0] == costs.gradient_flop[0] == 2 * 2 * 3 * 4 * 7
    assert costs.error_flop[0] == 2 * (2 * 3 + 3 * 7 - 2)


def test_paper_counts_a_linear_layer_as_the_table_does_in_bytes() -> None:
    costs = layer_costs([LayerSpec(name="l", kind="linear", input=(6,), output=(5,))], "paper")
    assert (costs.forward_flop[0], costs.error_flop[0], costs.gradient_flop[0]) == (60, 60, 30)
    assert costs.fixed_bytes[0] == 4 * 2 * 30  # the table forgets S_f = 4 here
    assert costs.sample_bytes[0] == 4 * (5 + 6)


def test_only_the_first_trained_layer_passes_no_error_down() -> None:
    costs = layer_costs(layers_of(VGG["linear"]), "exact")
    assert costs.error_flop[0] == 0
    assert np.array_equal(costs.error_flop[1:], costs.forward_flop[1:])


def test_a_narrowing_network_is_charged_its_largest_error_once() -> None:
    sizes = (100, 60, 20, 5)
    layers = [
        LayerSpec(name=f"l{i}", kind="linear", input=(a,), output=(b,)) for i, (a, b) in enumerate(pairwise(sizes))
    ]
    costs = layer_costs(layers, "exact")
    assert [costs.error_bytes[cut:].sum() for cut in range(3)] == [4 * 60, 4 * 20, 4 * 5]


@pytest.mark.parametrize(
    "model",
    [
        Model(name="vgg11", input=(3, 32, 32), width=0.1, batch_norm=True),
        Model(name="cnn", input=(1, 28, 28)),
        Model(name="mlp", input=(1, 28, 28)),
        Model(name="tests.training.networks:depthwise", input=(4, 9, 9)),
        Model(name="tests.training.networks:by_rows", input=(1, 28, 28)),
        Model(name="tests.training.networks:signal", input=(3, 64)),
    ],
    ids=lambda model: model.name,
)
def test_boundary_values_are_the_size_of_the_tensor_that_crosses_the_cut(model: Model) -> None:
    batch, layers = 3, layers_of(model)
    network = build_model(model)
    assert isinstance(network, nn.Sequential)
    x = torch.randn(batch, *model.input)
    for cut in range(len(layers)):
        sent = halves(network, cut)[0](x)
        assert batch * boundary_values(layers)[cut] == sent.numel(), cut
    assert len(halves(network, len(layers))[1]) == 0  # nothing is left for the gateway, so nothing is sent
    assert boundary_values(layers)[len(layers)] == 0


def test_a_profile_knows_the_boundary_bytes_of_its_network() -> None:
    layers = layers_of(VGG["linear"])
    found = profile_layers("vgg11", layers, batch=3, costs="exact")
    assert np.array_equal(found.boundary_bytes, 4 * boundary_values(layers))
    assert found.boundary_bytes.shape == found.split.bottom_flop.shape


@pytest.mark.parametrize("cost_model", ["exact", "paper"])
def test_wider_networks_never_cost_less(cost_model: str) -> None:
    wide, narrow = (
        layer_costs(infer_layers(Model(name="vgg11", input=(3, 32, 32), width=width), Costs()), cost_model)
        for width in (1.0, 0.25)
    )
    assert np.all(wide.flop >= narrow.flop)
    assert np.all(wide.fixed_bytes >= narrow.fixed_bytes)
