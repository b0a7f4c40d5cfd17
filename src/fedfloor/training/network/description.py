"""A torch network -> its layer list, by shape inference on tensors without data."""

__all__ = [
    "TORCH_ATTACHMENTS",
    "TORCH_LAYERS",
    "LayerSettings",
    "TorchLayer",
    "chain",
    "crossing_shapes",
    "cut_points",
    "describe",
    "infer_layers",
]

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
from fedfloor.scenario.layers import ATTACHMENTS, KINDS, LayerSpec, Shape
from fedfloor.scenario.model import Costs, Model
from fedfloor.training.network.models import build_model


class LayerSettings(TypedDict, total=False):
    """What a layer needs to know of its torch module beside the shapes; the defaults are those of `LayerSpec`."""

    kernel: tuple[int, ...]
    groups: int
    bias: bool


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
_BATCH = 2  #: samples of the pass that infers shapes; two, so that a module that mixes samples is noticed


def infer_layers(model: Model, costs: Costs) -> tuple[LayerSpec, ...]:
    """Layer list of the network that a scenario's costs describe."""
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")  # torch warns about empty layers; `describe` names them
        network = build_model(model, width=costs.width)
    return describe(network, model.input, label=model.name)


def describe(network: nn.Module, input_shape: Sequence[int], *, label: str = "model") -> tuple[LayerSpec, ...]:
    """Layer list of a network: one entry per module of `TORCH_LAYERS`, together with the attachments that follow it.

    Shapes come from a pass over tensors that have no data, so no operation is carried out.
    """
    value = torch.empty(_BATCH, *input_shape, device="meta")
    layers: list[LayerSpec] = []
    owners: set[int] = set()
    numbers: Counter[str] = Counter()
    for path, module in chain(network, label):
        torch_layer, inputs = TORCH_LAYERS.get(type(module)), tuple(value.shape[1:])
        if torch_layer is None and type(module) not in TORCH_ATTACHMENTS:
            names = sorted(entry.__name__ for entry in (*TORCH_LAYERS, *TORCH_ATTACHMENTS))
            problem = f"module '{path}' is a {type(module).__name__}, whose costs are not known"
            raise ModelError(f"{label}: {problem}. Known: {', '.join(names)}")
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
                problem = f"module '{path}' ({module}) cannot be described: {reason}"
                raise ModelError(f"{label}: {problem}. Correct its sizes") from None
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
    if not isinstance(network, nn.Sequential):
        if prefix and not list(network.children()):
            yield prefix, network
            return
        where = f"module '{prefix}'" if prefix else "the network"
        problem = f"{where} is a {type(network).__name__}, not a torch.nn.Sequential"
        raise ModelError(f"{label}: {problem}. Only a chain of layers can be cut: nest Sequentials")
    if type(network).forward is not nn.Sequential.forward:
        raise ModelError(f"{label}: {type(network).__name__} has a forward of its own. Only a plain chain can be cut")
    for name, child in network._modules.items():  # noqa: SLF001  # named_children leaves out a module's second use
        assert child is not None
        yield from chain(child, label, f"{prefix}.{name}" if prefix else name)


def cut_points(network: nn.Module) -> tuple[int, ...]:
    """Number of modules of the chain on the device, for every cut 0..L."""
    modules = [type(module) for _, module in chain(network)]
    starts = [index for index, module in enumerate(modules) if module in TORCH_LAYERS]
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
        result = functional_call(module, _without_data(module), (value,))
    except Exception as error:
        if is_users(error):  # a hook, or a forward that replaces the module's own
            problem = f"module '{path}' ({module}) failed: {where_raised(error)}"
            raise ModelError(f"{label}: {problem}. Fix the module") from error
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        problem = f"shapes do not chain: module '{path}' ({module}) cannot take {list(value.shape[1:])}"
        raise ModelError(f"{label}: {problem}: {reason}. Correct its sizes") from None
    if not isinstance(result, Tensor) or result.dim() < 2 or result.shape[0] != _BATCH:
        problem = f"module '{path}' ({module}) does not return one result per sample"
        raise ModelError(f"{label}: {problem}. Correct its settings")
    return result


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
