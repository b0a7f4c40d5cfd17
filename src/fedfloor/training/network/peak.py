"""The memory that a step of training needs at its peak, as torch's allocator sees it."""

__all__ = ["allocator_peak"]

import itertools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch._C._autograd import _disable_profiler_legacy, _enable_profiler_legacy
from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig

from fedfloor.training.network.split import sgd_step


def allocator_peak(network: nn.Module, x: Tensor, *, error_down: bool = False) -> int:
    """Bytes that live at once in one step of plain SGD, batch and parameters included.

    `error_down`: the network is a top half, so that the error of its input is computed too.
    """
    x = x.detach().requires_grad_(error_down)
    parameters = list(network.parameters())

    def step() -> None:
        loss = _trial_loss(network(x))
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        sgd_step(parameters, 0.0)

    step()  # what is set up once is not part of a step
    x.grad = None
    before = sum(tensor.numel() * tensor.element_size() for tensor in (x, *parameters))
    return before + max(itertools.accumulate(_allocations(step), initial=0))


def _allocations(step: Callable[[], None]) -> list[int]:
    """Bytes that a step allocates, negative where they are freed, in the order of time."""
    # torch's first profiler: the present one writes lines to the terminal that cannot be switched off.
    settings = ProfilerConfig(ProfilerState.CPU, False, True, False, False, False, _ExperimentalConfig())
    _enable_profiler_legacy(settings)
    try:
        step()
    finally:
        events = [event for thread in _disable_profiler_legacy() for event in thread]
    return [event.cpu_memory_usage() for event in events if str(event.kind()) == "memory_alloc"]


def _trial_loss(output: Tensor) -> Tensor:
    """Cross entropy of a whole network or top half; for a bottom half a number that gives its output an error."""
    if output.dim() == 2:
        return nn.functional.cross_entropy(output, torch.zeros(len(output), dtype=torch.long))
    return output.sum()
