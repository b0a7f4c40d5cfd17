"""A torch network -> its layer list, by shape inference on tensors without data.

A module of a user that is not a chain itself becomes a block: one layer, which is not cut inside.
"""

__all__ = [
    "TORCH_ATTACHMENTS",
    "TORCH_LAYERS",
    "LayerSettings",
    "TorchLayer",
    "chain",
    "crossing_shapes",
    "cut_points",
    "describe",
    "has_batch_norm",
    "infer_layers",
]

import contextlib
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypedDict

import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch.func import functional_call

from fedfloor.errors import ModelError
from fedfloor.references import is_users, where_raised
from fedfloor.scenario.layers import ATTACHMENTS, KINDS, BlockCounts, LayerSpec, PaperCounts, Shape
from fedfloor.scenario.model import Costs, Model
from fedfloor.training.network.blocks import BlockError, Call, measure_block
from fedfloor.training.network.models import build_model


class LayerSettings(TypedDict, total=False):
    """What a layer needs to know of its torch module beside the shapes; the defaults are those of `LayerSpec`."""

    kernel: tuple[int, ...]
    groups: int
    bias: bool
    block: BlockCounts


@dataclass(frozen=True, slots=True)
class TorchLayer:
    """How a torch module becomes a layer."""

    kind: str  #: row of `scenario.layers.KINDS`
    settings: Callable[..., LayerSettings]  #: from the module and the shapes of one sample before and after it


def _convolution(module: nn.Conv1d | nn.Conv2d, *_: Shape) -> LayerSettings:
    return {"kernel": module.kernel_size, "groups": module.groups, "bias": module.bias is not None}


def _linear(module: nn.Linear, *_: Shape) -> LayerSettings:
    return {"bias": module.bias is not None}


def _pooling(module: nn.MaxPool1d | nn.MaxPool2d | nn.AvgPool1d | nn.AvgPool2d, *_: Shape) -> LayerSettings:
    size, axes = module.kernel_size, 1 if isinstance(module, nn.MaxPool1d | nn.AvgPool1d) else 2
    return {"kernel": (size,) * axes if isinstance(size, int) else tuple(size)}


def _adaptive_pooling(_: nn.AdaptiveAvgPool1d | nn.AdaptiveAvgPool2d, inputs: Shape, outputs: Shape) -> LayerSettings:
    sizes = tuple(-(-before // after) for before, after in zip(inputs[1:], outputs[1:], strict=True))
    return {"kernel": sizes or (1,)}  # samples without channels are refused for their shape


def _block(module: nn.Module, inputs: Shape, _: Shape) -> LayerSettings:
    """Counts of a block: its products and bytes by torch, what is small and what Table II lists by its modules."""
    measured, state = measure_block(module, inputs), list(module.state_dict().values())
    other = {"other_forward_flop": 0, "other_backward_flop": 0}
    paper = dict.fromkeys(PaperCounts.model_fields, 0)
    seen: set[nn.Module] = set()
    for call in measured.calls:
        layer = _layer_inside(call)
        attachment = TORCH_ATTACHMENTS.get(type(call.module))
        if layer is not None:
            row = layer.row
            other["other_forward_flop"] += call.times * row.other_forward_flop(layer)
            other["other_backward_flop"] += call.times * row.other_backward_flop(layer)
            paper["forward_flop"] += call.times * row.paper_forward_flop(layer)
            paper["error_flop"] += call.times * row.paper_error_flop(layer)
            paper["gradient_flop"] += call.times * row.paper_gradient_flop(layer)
            paper["inputs"] += call.times * layer.input_size
            paper["outputs"] += call.times * layer.output_size
            paper["weights"] += 0 if call.module in seen else layer.weights
        elif attachment is not None:
            size = call.times * math.prod(call.output)
            other["other_forward_flop"] += size * ATTACHMENTS[attachment].forward_flop
            other["other_backward_flop"] += size * ATTACHMENTS[attachment].backward_flop
        seen.add(call.module)
    counts = BlockCounts(
        forward_flop=measured.forward_flop,
        error_flop=measured.error_flop,
        gradient_flop=measured.gradient_flop,
        **other,
        kept_bytes=measured.kept_bytes,
        error_size=measured.error_size,
        parameters=sum(parameter.numel() for parameter in module.parameters()),
        tensors=tuple(tensor.numel() for tensor in state if tensor.is_floating_point() and tensor.numel()),
        counters=sum(tensor.numel() for tensor in state if not tensor.is_floating_point()),
        paper=PaperCounts(**paper),
    )
    return {"block": counts}


def _layer_inside(call: Call) -> LayerSpec | None:
    """The layer that a module inside a block is; None if it is none of the known ones."""
    torch_layer = TORCH_LAYERS.get(type(call.module))
    if torch_layer is None:
        return None
    return _layer(torch_layer, call.module, call.input, call.output, Counter())


#: torch modules that are a layer of their own, so that a cut can lie behind them
TORCH_LAYERS: Mapping[type[nn.Module], TorchLayer] = MappingProxyType(
    {
        nn.Conv1d: TorchLayer("convolution", _convolution),
        nn.Conv2d: TorchLayer("convolution", _convolution),
        nn.Linear: TorchLayer("linear", _linear),
        nn.MaxPool1d: TorchLayer("max_pooling", _pooling),
        nn.MaxPool2d: TorchLayer("max_pooling", _pooling),
        nn.AvgPool1d: TorchLayer("average_pooling", _pooling),
        nn.AvgPool2d: TorchLayer("average_pooling", _pooling),
        nn.AdaptiveAvgPool1d: TorchLayer("average_pooling", _adaptive_pooling),
        nn.AdaptiveAvgPool2d: TorchLayer("average_pooling", _adaptive_pooling),
    }
)
#: torch modules that belong to the layer before them, by row of `scenario.layers.ATTACHMENTS`; None costs nothing
TORCH_ATTACHMENTS: Mapping[type[nn.Module], str | None] = MappingProxyType(
    {
        nn.ReLU: "activation",
        nn.Sigmoid: "activation",
        nn.Tanh: "activation",
        nn.LeakyReLU: "activation_in",
        nn.GELU: "activation_in",
        nn.SiLU: "activation_in",
        nn.BatchNorm2d: "batch_norm",
        nn.BatchNorm1d: "batch_norm",
        nn.GroupNorm: "group_norm",
        nn.LayerNorm: "layer_norm",
        nn.Dropout: "dropout",
        nn.Dropout1d: "dropout",
        nn.Dropout2d: "dropout",
        nn.Flatten: "flatten",
        nn.Identity: None,
    }
)
_BLOCK = TorchLayer("block", _block)
_BATCH = 2  #: samples of the pass that infers shapes; two, so that a module that mixes samples is noticed


def infer_layers(model: Model, costs: Costs) -> tuple[LayerSpec, ...]:
    """Layer list of the network that a scenario's costs describe."""
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")  # torch warns about empty layers; `describe` names them
        network = build_model(model, width=costs.width)
    return describe(network, model.input, label=model.name)


def describe(network: nn.Module, input_shape: Sequence[int], *, label: str = "model") -> tuple[LayerSpec, ...]:
    """Layer list of a network: one entry per layer or block, together with the attachments that follow it.

    Shapes come from a pass over tensors that have no data, so no operation is carried out.
    """
    value = torch.empty(_BATCH, *input_shape, device="meta")
    layers: list[LayerSpec] = []
    owners: set[int] = set()
    numbers: Counter[str] = Counter()
    for path, module in chain(network, label):
        torch_layer, inputs = TORCH_LAYERS.get(type(module)), tuple(value.shape[1:])
        if _is_block(module):
            torch_layer = _BLOCK
            _refuse_torchs_own(module, path, label)
        value = _through(module, value, path, label)
        for parameter in module.parameters():
            if id(parameter) in owners:
                problem = f"module '{path}' shares its weights with an earlier one"
                raise ModelError(f"{label}: {problem}. Give each its own: a cut may separate the two")
            owners.add(id(parameter))
        if torch_layer is not None:
            try:
                layers.append(_layer(torch_layer, module, inputs, tuple(value.shape[1:]), numbers))
            except ValidationError as error:
                reason = str(error.errors()[0]["msg"]).removeprefix("Value error, ").rstrip(".")
                problem = f"module '{path}' ({_text(module)}) cannot be described: {reason}"
                raise ModelError(f"{label}: {problem}. Correct its sizes") from None
            except BlockError as error:
                raise ModelError(f"{label}: module '{path}' ({_text(module)}) {error}") from None
            continue
        attachment = TORCH_ATTACHMENTS[type(module)]
        if layers and attachment is not None:
            layers[-1] = _with_attachment(layers[-1], attachment, module)
        elif attachment is not None and not ATTACHMENTS[attachment].flattens:
            # Before the first layer only a flatten makes sense: there is no layer that the item could belong to.
            problem = f"module '{path}' ({type(module).__name__}) stands before the first layer"
            raise ModelError(f"{label}: {problem}. Move it behind a layer")
    if not layers:
        raise ModelError(f"{label}: has no layer of a known kind. Add one of: {', '.join(KINDS)}")
    return tuple(layers)


def chain(network: nn.Module, label: str = "model", prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Modules of a network in the order data passes them; only chains can be cut."""
    if prefix and not _is_chain(network):
        yield prefix, network
        return
    if not isinstance(network, nn.Sequential):
        problem = f"the network is a {type(network).__name__}, not a torch.nn.Sequential"
        advice = "Return a Sequential of layers; a module of your own in it is one block"
        raise ModelError(f"{label}: {problem}. Only a chain of layers can be cut. {advice}")
    if not _is_chain(network):
        raise ModelError(f"{label}: {type(network).__name__} has a forward of its own. Only a plain chain can be cut")
    for name, child in network._modules.items():  # noqa: SLF001  # named_children leaves out a module's second use
        assert child is not None
        yield from chain(child, label, f"{prefix}.{name}" if prefix else name)


def has_batch_norm(network: nn.Module) -> bool:
    """Whether a network, or a block in it, normalises over the batch, which takes two samples."""
    kinds = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d
    return any(isinstance(module, kinds) for module in network.modules())


def _is_chain(module: nn.Module) -> bool:
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def _is_block(module: nn.Module) -> bool:
    """Whether a module of the chain is neither a known layer nor attached to one."""
    return type(module) not in TORCH_LAYERS and type(module) not in TORCH_ATTACHMENTS


def _refuse_torchs_own(module: nn.Module, path: str, label: str) -> None:
    """Refuse a module of torch that is not known: taking it for a block is up to the user."""
    if type(module).__module__.split(".")[0] == "torch":
        names = sorted(entry.__name__ for entry in (*TORCH_LAYERS, *TORCH_ATTACHMENTS))
        problem = f"module '{path}' is a {type(module).__name__}, whose costs are not known"
        advice = "Use one of these, or call it in a module of your own, which is one block"
        raise ModelError(f"{label}: {problem}. Known: {', '.join(names)}. {advice}")


def cut_points(network: nn.Module) -> tuple[int, ...]:
    """Number of modules of the chain on the device, for every cut 0..L."""
    modules = [module for _, module in chain(network)]
    starts = [index for index, module in enumerate(modules) if type(module) in TORCH_LAYERS or _is_block(module)]
    return (0, *starts[1:], len(modules))


def crossing_shapes(network: nn.Module, input_shape: Sequence[int], *, label: str = "model") -> tuple[Shape, ...]:
    """Shape of what crosses the cut for one sample, for every cut 0..L: first that of a sample, last the scores'."""
    value = torch.empty(_BATCH, *input_shape, device="meta")
    shapes = [tuple(value.shape[1:])]
    for path, module in chain(network, label):
        value = _through(module, value, path, label)
        shapes.append(tuple(value.shape[1:]))
    return tuple(shapes[at] for at in cut_points(network))


def _through(module: nn.Module, value: Tensor, path: str, label: str) -> Tensor:
    """Output of a module for a tensor without data."""
    try:
        with torch.device("meta") if _is_block(module) else contextlib.nullcontext():
            result = functional_call(module, _without_data(module), (value,))
    except Exception as error:
        if _is_block(module):
            reason = " ".join(where_raised(error).split())
            problem = f"module '{path}' ({_text(module)}) failed for samples of {list(value.shape[1:])}: {reason}"
            advice = "It is described with tensors on the device 'meta': it must read no values, and its own tensors"
            raise ModelError(f"{label}: {problem}. Fix the module. {advice} must be buffers") from error
        if is_users(error):  # a hook, or a forward that replaces the module's own
            problem = f"module '{path}' ({_text(module)}) failed: {where_raised(error)}"
            raise ModelError(f"{label}: {problem}. Fix the module") from error
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        problem = f"shapes do not chain: module '{path}' ({_text(module)}) cannot take {list(value.shape[1:])}"
        raise ModelError(f"{label}: {problem}: {reason}. Correct its sizes") from None
    if not isinstance(result, Tensor) or result.dim() < 2 or result.shape[0] != _BATCH:
        problem = f"module '{path}' ({_text(module)}) does not return one result per sample"
        advice = "Return one tensor whose first axis is the batch" if _is_block(module) else "Correct its settings"
        raise ModelError(f"{label}: {problem}. {advice}")
    return result


def _text(module: nn.Module) -> str:
    """A module in one line: a layer with its settings, a block by its class only."""
    return type(module).__name__ if _is_block(module) else str(module)


def _without_data(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers of a module as shapes only; the module keeps its own."""
    state = (*module.named_parameters(), *module.named_buffers())
    return {name: tensor.detach().to("meta") for name, tensor in state}


def _with_attachment(layer: LayerSpec, name: str, module: nn.Module) -> LayerSpec:
    """The layer with one more module that belongs to it."""
    sizes = [parameter.numel() for parameter in module.parameters()] if ATTACHMENTS[name].sized else []
    added = {"attached": (*layer.attached, name), "norm_sizes": (*layer.norm_sizes, *sizes)}
    return layer.model_copy(update=added)


def _layer(
    torch_layer: TorchLayer, module: nn.Module, inputs: Shape, outputs: Shape, numbers: Counter[str]
) -> LayerSpec:
    """The layer that a module is, named after its kind and counted in `numbers`."""
    short_name = KINDS[torch_layer.kind].short_name
    numbers[short_name] += 1
    return LayerSpec(
        name=f"{short_name}{numbers[short_name]}",
        kind=torch_layer.kind,
        input=inputs,
        output=outputs,
        **torch_layer.settings(module, inputs, outputs),
    )
