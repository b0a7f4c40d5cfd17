"""Loading of a model that `fedfloor evaluate --export` wrote."""

__all__ = ["ScaledModel", "load_exported", "scaled_model"]

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from fedfloor.arrays import Floats
from fedfloor.characters import safe_line
from fedfloor.errors import ModelError
from fedfloor.scenario.model import Model
from fedfloor.training.network.models import build_model

_LARGEST = torch.finfo(torch.float32).max  #: mean or deviation


class ScaledModel(nn.Module):
    """A network for unscaled samples, which it scales as in training."""

    mean: Tensor  #: (C, 1, ...)
    deviation: Tensor  #: (C, 1, ...)

    def __init__(self, network: nn.Module, mean: Tensor, deviation: Tensor, facts: Model) -> None:
        super().__init__()
        self.network, self.facts = network, facts
        shape = (-1, *[1] * (len(facts.input) - 1))
        self.register_buffer("mean", mean.reshape(shape))
        self.register_buffer("deviation", deviation.reshape(shape))

    def forward(self, x: Tensor) -> Tensor:
        """Scores (n, classes) of samples (n, *input): pixels from 0 to 255, or a user's data without scaling."""
        scores: Tensor = self.network((x.float() - self.mean) / self.deviation)
        return scores


def load_exported(path: Path, *, own: bool = False) -> ScaledModel:
    """Load the network of an exported file with its weights, on the CPU and in evaluation mode.

    `own` allows the file to name a user's code, which is imported and called to build the network.
    """
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise ModelError(
            f"{path}: does not exist. Name a run folder, or a file of `fedfloor evaluate RUN --export FILE`"
        ) from None
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path}: cannot be read: {error}. It must be a safetensors file") from None
    if "model" not in metadata or "mean" not in metadata:
        problem = "does not describe its network"
        raise ModelError(f"{path}: {problem}. Write it with `fedfloor evaluate RUN --export FILE`")
    if ":" in metadata["model"] and not own:
        problem = f"names code that builds its network, {metadata['model']}"
        raise ModelError(f"{path}: {problem}. If you trust the file, call load_model(path, own=True)")
    try:
        entries = {key: json.loads(metadata[key]) for key in ("width", "batch_norm", "head", "classes", "input")}
        settings = Model(name=metadata["model"], **entries)
        mean, deviation = (_scale(metadata, key, settings.input[0]) for key in ("mean", "deviation"))
        if not (deviation > 0.0).all():
            raise ValueError(f"deviation must be > 0, got {metadata['deviation']}")
        return _with_weights(settings, weights, mean, deviation)
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise ModelError(f"{path}: does not fit its network: {problem}. Export it again") from None
    except KeyError as error:
        raise ModelError(f"{path}: does not fit its network: it has no {error}. Export it again") from None
    except (TypeError, ValueError, RuntimeError) as error:
        problem = safe_line(error, 300).rstrip(".")
        raise ModelError(f"{path}: does not fit its network: {problem}. Export it again") from None


def scaled_model(
    settings: Model, weights: Mapping[str, npt.NDArray[np.generic]], mean: Floats, deviation: Floats
) -> ScaledModel:
    """A network with weights, which it shares with nobody, on the CPU and in evaluation mode; means per channel."""
    tensors = {name: torch.from_numpy(np.array(value)) for name, value in weights.items()}
    scale = [torch.tensor(values, dtype=torch.float32) for values in (mean, deviation)]
    return _with_weights(settings, tensors, *scale)


def _with_weights(settings: Model, weights: Mapping[str, Tensor], mean: Tensor, deviation: Tensor) -> ScaledModel:
    with torch.device("cpu" if ":" in settings.name else "meta"):  # no memory for weights that are not there
        network = build_model(settings)
    _refuse_other_weights(network, weights)
    network.load_state_dict(weights, assign=True)
    return ScaledModel(network, mean, deviation, settings).eval()


def _scale(metadata: Mapping[str, str], key: str, channels: int) -> Tensor:
    """Means or deviations of the inputs, (channels,)."""
    values = json.loads(metadata[key])
    is_list = isinstance(values, list) and all(type(value) in (int, float) for value in values)
    if not is_list or len(values) != channels or not all(abs(value) <= _LARGEST for value in values):
        raise ValueError(f"{key} must be {channels} finite numbers, one per channel, got {metadata[key][:100]}")
    return torch.tensor(values, dtype=torch.float32)


def _refuse_other_weights(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Refuse weights of another type, which would be converted, and weights that are not finite."""
    for name, value in network.state_dict().items():
        if name in weights and weights[name].dtype != value.dtype:
            raise ValueError(f"{name} must be {value.dtype}, got {weights[name].dtype}")
        if name in weights and not weights[name].isfinite().all():
            raise ValueError(f"{name} has a value that is not finite")
