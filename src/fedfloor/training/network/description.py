"""A torch network -> its layer list, by shape inference on tensors without data."""

__all__ = ["chain", "cut_points", "describe", "infer_layers"]

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence

import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch.func import functional_call

from fedfloor.errors import ModelError
from fedfloor.references import is_users, where_raised
from fedfloor.scenario.layers import Attachment, LayerKind, LayerSpec
from fedfloor.scenario.model import Costs, Model
from fedfloor.training.network.models import build_model

_KINDS: dict[type[nn.Module], LayerKind] = {
    nn.Conv2d: "convolution",
    nn.Linear: "linear",
    nn.MaxPool2d: "max_pooling",
    nn.AvgPool2d: "average_pooling",
    nn.AdaptiveAvgPool2d: "average_pooling",
}
_ATTACHMENTS: dict[type[nn.Module], Attachment | None] = {
    nn.ReLU: "activation",
    nn.Sigmoid: "activation",
    nn.Tanh: "activation",
    nn.LeakyReLU: "activation_in",
    nn.GELU: "activation_in",
    nn.SiLU: "activation_in",
    nn.BatchNorm2d: "batch_norm",
    nn.BatchNorm1d: "batch_norm",
    nn.Dropout: "dropout",
    nn.Dropout2d: "dropout",
    nn.Flatten: "flatten",
    nn.Identity: None,
}
_BATCH = 2  #: samples in the pass that infers shapes; two of them reveal a module that mixes samples
_SHORT = {"convolution": "conv", "linear": "linear", "max_pooling": "pool", "average_pooling": "pool"}


def infer_layers(model: Model, costs: Costs) -> tuple[LayerSpec, ...]:
    """Layer list of the network whose costs a scenario counts."""
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")  # torch warns of empty layers, which are reported below
        network = build_model(model, width=costs.width)
    try:
        return describe(network, model.input, label=model.name)
    except ValidationError as error:
        reason = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise ModelError(f"{model.name}: a layer cannot be described: {reason}") from None


def describe(network: nn.Module, input_shape: Sequence[int], *, label: str = "model") -> tuple[LayerSpec, ...]:
    """Layer list of a network: one entry per convolution, pooling or linear layer, with the modules that follow it.

    Shapes come from a pass over tensors without data, so nothing is computed.
    """
    current = torch.empty(_BATCH, *input_shape, device="meta")
    layers: list[LayerSpec] = []
    owners: set[int] = set()
    counts: Counter[str] = Counter()
    for path, module in chain(network, label):
        kind, shape = _KINDS.get(type(module)), tuple(current.shape[1:])
        if kind is None and type(module) not in _ATTACHMENTS:
            names = sorted(entry.__name__ for entry in (*_KINDS, *_ATTACHMENTS))
            problem = f"module '{path}' is a {type(module).__name__}, whose costs are not known"
            raise ModelError(f"{label}: {problem}. Known: {', '.join(names)}")
        current = _through(module, current, path, label)
        for parameter in module.parameters():
            if id(parameter) in owners:
                problem = f"module '{path}' shares its weights with an earlier one, and a cut could separate them"
                raise ModelError(f"{label}: {problem}. Give it weights of its own")
            owners.add(id(parameter))
        if kind is not None:
            counts[_SHORT[kind]] += 1
            layers.append(
                _layer(f"{_SHORT[kind]}{counts[_SHORT[kind]]}", kind, module, shape, tuple(current.shape[1:]))
            )
            continue
        attachment = _ATTACHMENTS[type(module)]
        if layers and attachment is not None:
            layers[-1] = layers[-1].model_copy(update={"attached": (*layers[-1].attached, attachment)})
        elif attachment not in (None, "flatten"):
            # Costs belong to layers, and before the first one there is none; only a flatten costs nothing.
            problem = f"module '{path}' ({type(module).__name__}) stands before the first layer"
            raise ModelError(f"{label}: {problem}. Remove it, or put it behind a layer")
    if not layers:
        raise ModelError(f"{label}: has no convolution, pooling or linear layer. Add one")
    return tuple(layers)


def chain(network: nn.Module, label: str = "model", prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Paths and modules of a network in the order in which data passes them; only chains can be cut."""
    if not isinstance(network, nn.Sequential):
        if prefix and not list(network.children()):
            yield prefix, network
            return
        where = f"module '{prefix}'" if prefix else "the network"
        problem = f"{where} is a {type(network).__name__}, not a torch.nn.Sequential"
        raise ModelError(f"{label}: {problem}. Only a chain of layers can be cut; build it from Sequentials")
    if type(network).forward is not nn.Sequential.forward:
        problem = f"{type(network).__name__} has a forward of its own"
        raise ModelError(f"{label}: {problem}. Use a plain torch.nn.Sequential, because only a chain can be cut")
    for name, child in network._modules.items():  # noqa: SLF001  # named_children leaves out a module's second use
        assert child is not None
        yield from chain(child, label, f"{prefix}.{name}" if prefix else name)


def cut_points(network: nn.Module) -> tuple[int, ...]:
    """Number of modules of the chain on the device, for every cut 0..L."""
    kinds = [type(module) in _KINDS for _, module in chain(network)]
    starts = [at for at, is_layer in enumerate(kinds) if is_layer]
    return (0, *starts[1:], len(kinds))


def _through(module: nn.Module, value: Tensor, path: str, label: str) -> Tensor:
    """Output of a module for a tensor without data."""
    try:
        result = functional_call(module, _without_data(module), (value,))
    except Exception as error:
        if is_users(error):  # raised by a hook or a replaced forward
            raise ModelError(
                f"{label}: module '{path}' ({module}) failed: {where_raised(error)}. Fix the module"
            ) from error
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        problem = f"shapes do not chain: module '{path}' ({module}) cannot take {list(value.shape[1:])}"
        raise ModelError(f"{label}: {problem}: {reason}. Correct its sizes") from None
    if not isinstance(result, Tensor) or result.dim() < 2 or result.shape[0] != _BATCH:
        problem = f"module '{path}' ({module}) does not return one result per sample"
        raise ModelError(f"{label}: {problem}. Correct its settings")
    return result


def _without_data(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers of a module without their data; the module itself is unchanged."""
    state = (*module.named_parameters(), *module.named_buffers())
    return {name: tensor.detach().to("meta") for name, tensor in state}


def _layer(
    name: str, kind: LayerKind, module: nn.Module, inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> LayerSpec:
    kernel = groups = None
    if isinstance(module, nn.Conv2d):
        kernel, groups = (module.kernel_size[0], module.kernel_size[1]), module.groups
    elif isinstance(module, nn.MaxPool2d | nn.AvgPool2d):
        size = module.kernel_size
        kernel = (size, size) if isinstance(size, int) else (size[0], size[1])
    elif isinstance(module, nn.AdaptiveAvgPool2d):
        kernel = (-(-inputs[1] // outputs[1]), -(-inputs[2] // outputs[2]))
    bias = getattr(module, "bias", None) is not None if kind in ("convolution", "linear") else True
    return LayerSpec(name=name, kind=kind, input=inputs, output=outputs, kernel=kernel, groups=groups or 1, bias=bias)
