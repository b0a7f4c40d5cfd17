"""Networks that a scenario can name, each a chain of layers that can be cut anywhere."""

__all__ = ["MODELS", "build_model", "cnn", "mlp", "vgg11"]

from collections.abc import Callable
from types import MappingProxyType

from torch import nn

from fedfloor.errors import ModelError, advice_for, shown
from fedfloor.references import find_reference, where_raised
from fedfloor.scenario.model import Model


def vgg11(settings: Model, width: float) -> nn.Sequential:
    """VGG-11 for 32x32 images: 8 convolutions, 5 poolings, a linear or a 4096-4096 head."""
    modules: list[nn.Module] = []
    channels, height, side = settings.input
    for stage in ((64,), (128,), (256, 256), (512, 512), (512, 512)):
        for size in stage:
            modules += _convolution(channels, _scaled(size, width), settings.batch_norm)
            channels = _scaled(size, width)
        modules.append(nn.MaxPool2d(2))
        height, side = max(height // 2, 1), max(side // 2, 1)
    features = channels * height * side
    modules.append(nn.Flatten())
    if settings.head == "4096-4096":
        hidden = _scaled(4096, width)
        for size in (features, hidden):
            modules += [nn.Linear(size, hidden), nn.ReLU(), nn.Dropout()]
        features = hidden
    modules.append(nn.Linear(features, settings.classes))
    return nn.Sequential(*modules)


def cnn(settings: Model, width: float) -> nn.Sequential:
    """Small network for 28x28 images: 2 convolutions with pooling, 2 linear layers."""
    channels, height, side = settings.input
    modules: list[nn.Module] = []
    for size in (16, 32):
        modules += _convolution(channels, _scaled(size, width), settings.batch_norm)
        modules.append(nn.MaxPool2d(2))
        channels, height, side = _scaled(size, width), height // 2, side // 2
    hidden = _scaled(64, width)
    modules += [nn.Flatten(), nn.Linear(channels * height * side, hidden), nn.ReLU()]
    modules.append(nn.Linear(hidden, settings.classes))
    return nn.Sequential(*modules)


def mlp(settings: Model, width: float) -> nn.Sequential:
    """Two linear layers with 128 hidden units."""
    size = 1
    for length in settings.input:
        size *= length
    hidden = _scaled(128, width)
    return nn.Sequential(nn.Flatten(), nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, settings.classes))


MODELS: MappingProxyType[str, Callable[[Model, float], nn.Sequential]] = MappingProxyType(
    {"vgg11": vgg11, "cnn": cnn, "mlp": mlp}
)


def build_model(settings: Model, *, width: float | None = None) -> nn.Module:
    """Build the network that a scenario names, at its own width or another one."""
    name = settings.name
    if name in ("vgg11", "cnn") and len(settings.input) != 3:
        shape = shown(list(settings.input))
        raise ModelError(f"model '{name}': the input must be [channels, height, width], got {shape}")
    if name in MODELS:
        return MODELS[name](settings, settings.width if width is None else width)
    if ":" not in name:
        advice = advice_for(name, MODELS)
        raise ModelError(f"model {shown(name)}: unknown. {advice} Name your own as package.module:callable")
    function = find_reference(name, f"model {shown(name)}", ModelError)
    if not callable(function):
        problem = f"is a {type(function).__name__}, not a callable"
        raise ModelError(f"model {shown(name)}: {problem}. Name a function or class")
    try:
        network = function()
    except (Exception, SystemExit) as error:  # the user's function may raise anything
        raise ModelError(f"model {shown(name)}: calling it without arguments failed: {where_raised(error)}") from error
    if not isinstance(network, nn.Module):
        problem = f"must return a torch.nn.Module, got {type(network).__name__}"
        raise ModelError(f"model {shown(name)}: {problem}. Return a torch.nn.Sequential")
    return network


def _convolution(inputs: int, outputs: int, batch_norm: bool) -> list[nn.Module]:
    norm = [nn.BatchNorm2d(outputs)] if batch_norm else []
    return [nn.Conv2d(inputs, outputs, 3, padding=1), *norm, nn.ReLU()]


def _scaled(size: int, width: float) -> int:
    return max(1, round(size * width))
