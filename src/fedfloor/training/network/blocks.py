"""Counting of a block, a user's module that is not cut inside: its FLOPs, its bytes, and the modules that it calls.

Everything is counted on tensors without data, for a few batches: what does not grow with the batch is no cost of a
sample.
"""

__all__ = ["BlockError", "Call", "MeasuredBlock", "measure_block"]

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.func import functional_call
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count

from fedfloor.scenario.layers import Shape

_BATCHES = (2, 3, 4)  #: two give what a sample costs, the third shows whether the costs are on a line


class BlockError(ValueError):
    """A block that cannot be one unit of a network; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a module inside a block."""

    module: nn.Module
    input: Shape  #: without the first axis
    output: Shape  #: without the first axis
    times: int  #: length of the first axis per sample


@dataclass(frozen=True, slots=True)
class MeasuredBlock:
    """What a block computes and keeps for one sample."""

    forward_flop: int  #: products of the forward pass
    error_flop: int  #: products that the backward pass needs only to pass an error below the block
    gradient_flop: int  #: all other products of the backward pass
    kept_bytes: int  #: [byte] saved for the backward pass, with the output and without the input
    error_size: int  #: numbers of the largest error inside: that of its output or of a module that it calls
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class _Pass:
    """Totals of one batch."""

    output: Shape
    forward_flop: int
    backward_flop: int  #: with an error for the input
    gradient_flop: int  #: without
    kept_bytes: int
    calls: tuple[Call, ...]


def measure_block(module: nn.Module, shape: Sequence[int]) -> MeasuredBlock:
    """Count what a block costs for a sample of a shape; raises a BlockError if it cannot be one unit."""
    passes = [_pass(module, shape, batch) for batch in _BATCHES]
    for one, other, batches in zip(passes, passes[1:], pairwise(_BATCHES), strict=False):
        if one.output != other.output:
            problem = f"gives {list(one.output)} per sample in a batch of {batches[0]}"
            problem += f" but {list(other.output)} in a batch of {batches[1]}"
            raise BlockError(f"{problem}. Make its output independent of the size of the batch")
    forward, backward, gradient, kept = (
        _per_sample([getattr(entry, name) for entry in passes])
        for name in ("forward_flop", "backward_flop", "gradient_flop", "kept_bytes")
    )
    sizes = [call.times * torch.Size(call.output).numel() for call in passes[0].calls]
    return MeasuredBlock(
        forward_flop=forward,
        error_flop=backward - gradient,
        gradient_flop=gradient,
        kept_bytes=kept,
        error_size=max(torch.Size(passes[0].output).numel(), *sizes, 0),
        calls=passes[0].calls,
    )


def _per_sample(totals: Sequence[int]) -> int:
    """What one more sample in the batch costs."""
    one, other = (after - before for before, after in pairwise(totals))
    if one != other:
        batches = ", ".join(map(str, _BATCHES))
        problem = f"needs {', '.join(map(str, totals))} FLOPs or bytes for batches of {batches}, which lie on no line"
        raise BlockError(f"{problem}. Let it treat every sample alone")
    return one


def _pass(module: nn.Module, shape: Sequence[int], batch: int) -> _Pass:
    """Pass a batch forward and backward, with and without an error for the input."""
    forward, backward, output = _flops(module, shape, batch, passes_down=True)
    _, gradient, _ = _flops(module, shape, batch, passes_down=False)
    return _Pass(output, forward, backward, gradient, _kept_bytes(module, shape, batch), _calls(module, shape, batch))


def _flops(module: nn.Module, shape: Sequence[int], batch: int, *, passes_down: bool) -> tuple[int, int, Shape]:
    """FLOPs of the products forward and backward, and the shape of the output without the batch."""
    state, leaf = _without_data(module), torch.empty(batch, *shape, device="meta", requires_grad=passes_down)
    x = leaf.clone()  # in a network, the input is the output of a layer
    version = x._version  # noqa: SLF001  # torch has no public way to ask for it
    with _counter() as forward:
        output = _output(module, state, x)
    if x._version != version:  # noqa: SLF001
        raise BlockError("changes its input in place, which the layer below still needs. Use inplace=False")
    leaves = [tensor for tensor in (leaf, *state.values()) if tensor.requires_grad]
    with _counter() as backward:
        if output.requires_grad:
            torch.autograd.grad(output, leaves, torch.empty_like(output), allow_unused=True)
    return forward.get_total_flops(), backward.get_total_flops(), tuple(output.shape[1:])


def _kept_bytes(module: nn.Module, shape: Sequence[int], batch: int) -> int:
    """Bytes that are kept for the backward pass: the output and what autograd saves, but neither input nor weights."""
    state, leaf = _without_data(module), torch.empty(batch, *shape, device="meta", requires_grad=True)
    x = leaf.clone()
    kept: dict[int, torch.UntypedStorage] = {}  # by identity: tensors without data have no address

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = storage  # noqa: SLF001  # torch itself tells storages apart by it
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        output = _output(module, state, x)
    keep(output)
    others = {tensor.untyped_storage()._cdata for tensor in (x, *state.values())}  # noqa: SLF001
    return sum(storage.nbytes() for identity, storage in kept.items() if identity not in others)


def _calls(module: nn.Module, shape: Sequence[int], batch: int) -> tuple[Call, ...]:
    """Calls of the modules inside that turn one tensor into another, in their order."""
    calls: list[Call] = []

    def note(called: nn.Module, arguments: tuple[Any, ...], output: object) -> None:
        tensors = [*arguments[:1], output]
        if all(isinstance(tensor, Tensor) and tensor.dim() > 0 for tensor in tensors):
            before, after = (tuple(tensor.shape) for tensor in tensors)
            times, rest = divmod(before[0], batch)
            calls.append(Call(called, before[1:], after[1:], 0 if rest or before[0] != after[0] else times))

    hooks = [inner.register_forward_hook(note) for inner in module.modules() if inner is not module]
    try:
        _output(module, _without_data(module), torch.empty(batch, *shape, device="meta"))
    finally:
        for hook in hooks:
            hook.remove()
    return tuple(calls)


def _output(module: nn.Module, state: dict[str, Tensor], x: Tensor) -> Tensor:
    """Output of a block for tensors without data; tensors that it makes have none either."""
    with torch.device("meta"):
        output = functional_call(module, state, (x,))
    if not isinstance(output, Tensor) or output.dim() < 2 or output.shape[0] != x.shape[0]:
        given = list(output.shape) if isinstance(output, Tensor) else f"a {type(output).__name__}"
        problem = f"does not return one result per sample: {given} for an input of {list(x.shape)}"
        raise BlockError(f"{problem}. Return one tensor whose first axis is the batch")
    return output


def _without_data(module: nn.Module) -> dict[str, Tensor]:
    """Parameters, which are all trained, and buffers of a module as shapes only; the module keeps its own."""
    state = {name: tensor.detach().to("meta") for name, tensor in (*module.named_parameters(), *module.named_buffers())}
    for name, parameter in module.named_parameters():
        state[name].requires_grad_(parameter.is_floating_point())
    return state


def _counter() -> FlopCounterMode:
    mapping = {torch.ops.aten.convolution_backward: _convolution_backward_flop}
    return FlopCounterMode(display=False, custom_mapping=mapping)


def _convolution_backward_flop(
    error: Sequence[int],
    inputs: Sequence[int],
    weight: Sequence[int],
    _bias: object,
    _stride: object,
    _padding: object,
    _dilation: object,
    transposed: bool,
    _output_padding: object,
    _groups: object,
    mask: Sequence[bool],
    **_: object,
) -> int:
    """FLOPs of torch's operation: error and gradient each cost the forward products.

    torch's own formula counts the products of a gradient once per group.
    """
    return conv_flop_count(list(inputs), list(weight), list(error), transposed) * sum(mask[:2])
