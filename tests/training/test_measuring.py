"""Timed steps are steps of split training, and what is measured has the right shape and changes nothing."""

import os

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedfloor.errors import ModelError
from fedfloor.scenario.model import Costs, Model
from fedfloor.training.measuring import HalfStamps, measure, parts_of, pinned, timed_step, times_of
from fedfloor.training.network.built import network_of
from fedfloor.training.network.description import infer_layers
from fedfloor.training.network.peak import allocator_peak

CNN = Model(name="cnn", input=(1, 28, 28), width=0.25)


@pytest.mark.parametrize("cut", range(7))
def test_every_layer_of_a_timed_step_has_its_gradient_and_its_times(cut: int) -> None:
    network = network_of(CNN, seed=0)
    parts, depth = parts_of(network), 6
    x, y = torch.randn(4, 1, 28, 28), torch.tensor([0, 1, 2, 3])
    step = timed_step(parts, cut, x, y)
    spans = [range(begin, end) for begin, end in ((cut, depth), (0, cut)) if begin < end]
    assert [half.span for half in step] == spans
    for half in step:
        in_order = [*half.forward, half.begin, *half.marks[::-1], half.end, *half.update]
        assert in_order == sorted(in_order)
    times = times_of(step, depth)
    assert (times.forward > 0).all()
    assert (times.backward > 0).all()
    assert times.overhead.shape == (len(spans),)


def test_the_times_of_a_step_add_up_to_its_halves() -> None:
    upper = HalfStamps(range(1, 3), [3.0, 3.5, 5.0, 6.0], 7.0, [8.5, 7.5], 10.0, [11.0, 11.25, 12.0])
    lower = HalfStamps(range(1), [0.0, 0.5, 2.0], 13.0, [14.0], 15.0, [15.5, 16.0])
    times = times_of([upper, lower], 3)
    assert times.forward.tolist() == [1.5, 1.5, 1.0]
    assert times.backward.tolist() == [1.0 + 0.5, 1.5 + 0.25, 1.0 + 0.75]
    assert times.overhead.tolist() == [3.0 + 5.0 - 2.5 - 3.5, 2.0 + 3.0 - 1.5 - 1.5]


@pytest.mark.parametrize("cut", [0, 3, 6])
def test_a_timed_step_passes_the_gradients_of_the_whole_network_and_keeps_the_weights(
    cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, twin = network_of(CNN, seed=0), network_of(CNN, seed=0)
    x, y = torch.randn(4, 1, 28, 28), torch.tensor([0, 1, 2, 3])
    seen: dict[int, torch.Tensor] = {}

    def keep(parameters: list[nn.Parameter], rate: float) -> None:
        seen.update({id(parameter): known(parameter.grad) for parameter in parameters})

    monkeypatch.setattr("fedfloor.training.measuring.sgd_step", keep)
    timed_step(parts_of(network), cut, x, y)
    functional.cross_entropy(twin(x), y).backward()  # type: ignore[no-untyped-call]
    for mine, other in zip(network.parameters(), twin.parameters(), strict=True):
        assert torch.equal(mine, other)
        assert torch.allclose(seen[id(mine)], known(other.grad), atol=1e-6)


def known(tensor: torch.Tensor | None) -> torch.Tensor:
    assert tensor is not None
    return tensor


def test_a_measurement_covers_all_batches_and_layers_and_leaves_no_trace() -> None:
    layers = infer_layers(CNN, Costs())
    threads, random = torch.get_num_threads(), torch.get_rng_state()
    steps, plans = [0], list[int]()

    def step() -> None:
        steps[0] += 1

    times = measure(CNN, layers, [2, 5], seconds=1e-6, on_plan=plans.append, on_step=step)
    assert times.forward.shape == times.backward.shape == (3, 2, 6)
    assert times.step.shape == (3, 2)
    assert times.device_bytes.shape == times.gateway_bytes.shape == (2, 6)
    for values in (times.forward, times.backward, times.step):
        assert (np.diff(values, axis=0) >= 0).all()  # quartile, median, quartile
    assert (times.forward > 0).all()
    assert times.repeats == 15
    assert [steps[0]] == plans == [2 * (3 + 6)]
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), random)


@pytest.mark.parametrize("name", ["signal", "residual"])
def test_networks_for_signals_are_measured_layer_by_layer(name: str) -> None:
    model = Model(name=f"tests.training.networks:{name}", input=(3, 64))
    times = measure(model, infer_layers(model, Costs()), [4], seconds=1e-6)
    assert times.forward.shape == (3, 1, 6)
    assert (times.device_bytes > 0).all()


def test_a_batch_that_the_network_cannot_take_is_named() -> None:
    model = Model(name=f"{__name__}:normalised", input=(4,), classes=3)
    with pytest.raises(ModelError, match="a step with a batch of 1 failed: Expected more than 1 value"):
        measure(model, infer_layers(model, Costs()), [1], seconds=1e-6)


def normalised() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system pins no threads")
def test_a_pinned_thread_has_one_core_and_gets_the_others_back() -> None:
    before = os.sched_getaffinity(0)
    with pinned():
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before


def test_the_peak_of_a_linear_layer_is_what_it_holds() -> None:
    layer, x = nn.Linear(1000, 1000, bias=False), torch.randn(10, 1000)
    weights, numbers = 4 * 1000 * 1000, 4 * 10 * 1000
    peak = allocator_peak(layer, x)
    assert 2 * weights + 2 * numbers <= peak <= 2 * weights + 5 * numbers  # weights, gradient, input and outputs
    assert allocator_peak(layer, x, error_down=True) >= peak
