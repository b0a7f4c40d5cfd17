"""A run's model as one file that can be used without fedfloor: the weights, and how to scale the inputs."""

__all__ = ["export_model", "facts_of", "refuse_export"]

import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Floats
from fedfloor.errors import RunLogError
from fedfloor.files import refused_write, write_whole
from fedfloor.runs.target import refuse_target
from fedfloor.scenario.model import Model
from fedfloor.training.network.stored import packed


def facts_of(model: Model, mean: Floats, deviation: Floats, task: str = "classification") -> dict[str, str]:
    """Metadata of an exported model, all but its name as JSON; its inputs are (x - mean) / deviation per channel."""
    facts = {
        "model": model.name,
        "width": json.dumps(model.width),
        "batch_norm": json.dumps(model.batch_norm),
        "head": json.dumps(model.head),
        "classes": json.dumps(model.classes),
        "input": json.dumps(model.input),
        "mean": json.dumps(mean.tolist()),
        "deviation": json.dumps(deviation.tolist()),
    }
    return facts if task == "classification" else {**facts, "task": json.dumps(task)}


def refuse_export(path: Path, run: Path) -> None:
    """Refuse a path that is not a plain file, that belongs to the run itself, or that has another ending."""
    target = refuse_target(path, run, example="model.safetensors")
    if target.suffix != ".safetensors":
        advice = f"Name it {path.with_suffix('.safetensors').name}"
        raise RunLogError(f"{path}: must end in .safetensors, which is its format. {advice}")


def export_model(path: Path, weights: Mapping[str, npt.NDArray[np.generic]], facts: Mapping[str, str]) -> None:
    """Write weights and facts as safetensors; until all of it is written, a file of that name stays as it was."""
    target = Path(os.path.realpath(path))  # a link stays one
    try:
        write_whole(target, packed(weights, facts))
    except OSError as error:
        raise refused_write(path, error, again="export again", advice="Name another place") from None
