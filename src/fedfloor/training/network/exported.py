"""Loading of a model that `fedfloor evaluate --export` wrote."""

__all__ = ["ScaledModel", "load_exported"]

import json
from pathlib import Path

import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from fedfloor.errors import ModelError
from fedfloor.scenario.model import Model
from fedfloor.training.network.models import build_model


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
            metadata, weights = file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file. Write one with `fedfloor evaluate RUN --export FILE`") from None
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
        mean, deviation = (
            torch.tensor(json.loads(metadata[key]), dtype=torch.float32) for key in ("mean", "deviation")
        )
        if not len(mean) == len(deviation) == settings.input[0]:
            raise ValueError(f"mean and deviation must be {settings.input[0]} numbers, one per channel")
        if not (mean.isfinite().all() and deviation.isfinite().all() and (deviation > 0).all()):
            raise ValueError("mean and deviation must be finite, deviation > 0")
        network = build_model(settings)
        network.load_state_dict(weights)
        return ScaledModel(network, mean, deviation, settings).eval()
    except (KeyError, TypeError, ValueError, ValidationError, RuntimeError) as error:
        raise ModelError(f"{path}: does not fit its network: {error}. Export it again") from None
