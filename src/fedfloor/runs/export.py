"""A run's model as one file that can be used without fedfloor: the weights, and how to scale the inputs."""

__all__ = ["export_model", "facts_of", "refuse_export"]

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Floats
from fedfloor.errors import RunLogError
from fedfloor.files import refused_write, write_whole
from fedfloor.rounds.listeners.checkpoint import CHECKPOINT
from fedfloor.runs.folder import own_files
from fedfloor.scenario.model import Model
from fedfloor.training.network.stored import packed


def facts_of(model: Model, mean: Floats, deviation: Floats) -> dict[str, str]:
    """Metadata of an exported model, all but its name as JSON; its inputs are (x - mean) / deviation per channel."""
    return {
        "model": model.name,
        "width": json.dumps(model.width),
        "batch_norm": json.dumps(model.batch_norm),
        "head": json.dumps(model.head),
        "classes": json.dumps(model.classes),
        "input": json.dumps(model.input),
        "mean": json.dumps(mean.tolist()),
        "deviation": json.dumps(deviation.tolist()),
    }


def refuse_export(path: Path, run: Path) -> None:
    """Refuse a path that is not a plain file, or that belongs to the run itself."""
    target, folder = Path(os.path.realpath(path)), Path(os.path.realpath(run))
    try:
        status = target.stat() if target.parent.is_dir() else None
        if status is None:
            raise RunLogError(f"{path}: there is no folder {target.parent}. Make it, or name another file")
        same = any(os.path.samestat(status, file.stat()) for file in own_files(folder) if file.exists())
    except FileNotFoundError:
        status, same = None, False
    except OSError as error:
        raise RunLogError(f"{path}: cannot be written: {error.strerror}. Name another place") from None
    if same or target.parent == folder / CHECKPOINT:
        raise RunLogError(f"{path}: belongs to the run itself, which needs it to resume. Name another file")
    if status is not None and stat.S_ISDIR(status.st_mode):
        raise RunLogError(f"{path}: is a folder. Name a file in it, such as {path / 'model.safetensors'}")
    if status is not None and not stat.S_ISREG(status.st_mode):
        raise RunLogError(f"{path}: is a pipe or a device, not a plain file. Name another file")
    if status is not None and not os.access(target, os.W_OK):
        raise RunLogError(f"{path}: is write-protected. Name another file")
    if ".safetensors" not in (path.suffix, target.suffix):
        advice = f"Name it {path.with_suffix('.safetensors').name}"
        raise RunLogError(f"{path}: must end in .safetensors, which is its format. {advice}")


def export_model(path: Path, weights: Mapping[str, npt.NDArray[np.generic]], facts: Mapping[str, str]) -> None:
    """Write weights and facts as safetensors; until all of it is written, a file of that name stays as it was."""
    target = Path(os.path.realpath(path))  # a link stays one
    try:
        write_whole(target, packed(weights, facts))
    except OSError as error:
        raise refused_write(path, error, again="export again", advice="Name another place") from None
