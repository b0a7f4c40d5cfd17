"""What a training run needs to go on after any interruption: weights in safetensors, everything else in JSON.

The weights are written first under a name of their own, then the state that names them takes the place of the old one
in a single step: whenever the process is killed, one whole checkpoint is there.
"""

__all__ = ["Checkpoint", "load_checkpoint", "restore", "save_checkpoint", "scaled_as"]

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from fedfloor.arrays import Floats
from fedfloor.errors import FailedRunError, RunLogError
from fedfloor.files import write_whole
from fedfloor.rounds.plants.learning import LearningPlant
from fedfloor.runs.folder import CHECKPOINT, STATE
from fedfloor.theory.participation import GradientFigures
from fedfloor.training.data.samples import Samples

_VERSION = 1


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A run between two rounds."""

    round: int  #: the next one
    clock: float  #: [s] simulated time so far
    data: str  #: fingerprint of the data
    state: dict[str, Any]
    weights: dict[str, npt.NDArray[np.generic]]
    path: Path  #: of the weights


def save_checkpoint(run: Path, plant: LearningPlant, *, clock: float, data: str) -> None:
    """Write a run's checkpoint and remove the one before."""
    folder, name = run / CHECKPOINT, _weights_name(plant.index)
    figures, samples = plant.figures, plant.engine.work.samples
    state = {
        "version": _VERSION,
        "round": plant.index,
        "clock_s": clock,
        "data": data,
        "weights": name,
        "inputs": {"mean": samples.mean.tolist(), "deviation": samples.deviation.tolist()},
        "queue": plant.simulated.queue.tolist(),
        "target_rate": plant.simulated.target_rate.tolist(),
        "last_loss": [None if np.isnan(loss) else loss for loss in plant.last_loss.tolist()],
        "gateway_level_j": plant.simulated.gateway_level.tolist(),
        "device_level_j": plant.simulated.device_level.tolist(),
        "gradient_square": plant.gradient_square,
        "divergence_bound": None if plant.bound is None else plant.bound.tolist(),
        "figures": None if figures is None else {key: value.tolist() for key, value in asdict(figures).items()},
    }
    named = plant.engine.work.layout.named(plant.weights)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / name, save(named))
        write_whole(folder / STATE, json.dumps(state, indent=1).encode())
        for old in folder.glob("weights-*.safetensors"):
            if old.name != name:
                old.unlink()
    except OSError as error:
        problem = f"{folder}: the checkpoint cannot be written: {error.strerror}"
        raise FailedRunError(f"{problem}. Make room or mend the folder, then go on with --resume") from None


def _weights_name(index: int) -> str:
    return f"weights-{index:06d}.safetensors"


def load_checkpoint(run: Path) -> Checkpoint | None:
    """The checkpoint of a run folder, if it has one."""
    path = run / CHECKPOINT / STATE
    weights = path
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        if state["version"] != _VERSION:
            raise RunLogError(
                f"{path}: version must be {_VERSION}, got {state['version']}. Use the fedfloor that wrote it"
            )
        if state["weights"] != _weights_name(state["round"]) or not 0.0 <= state["clock_s"] < float("inf"):
            raise ValueError(f"weights, round or clock_s: got {state['weights']}, {state['round']}, {state['clock_s']}")
        weights = path.parent / state["weights"]
        return Checkpoint(
            int(state["round"]), float(state["clock_s"]), state["data"], state, load_file(weights), weights
        )
    except FileNotFoundError:
        if weights != path:
            raise RunLogError(f"{weights}: is missing, but {STATE} names it. Restore it, or run anew") from None
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        raise RunLogError(f"{path}: is damaged: {error}. Restore it, or run anew in another folder") from None


def scaled_as(samples: Samples, checkpoint: Checkpoint | None) -> Samples:
    """Samples that are scaled as those the checkpoint was trained on; older checkpoints do not say how."""
    inputs = None if checkpoint is None else checkpoint.state.get("inputs")
    if checkpoint is None or inputs is None:
        return samples
    try:
        mean, deviation = np.array(inputs["mean"], float), np.array(inputs["deviation"], float)
        if mean.shape != samples.mean.shape or not np.isfinite(mean).all():
            raise ValueError(f"inputs.mean must be {samples.mean.size} numbers, one per channel")
        if deviation.shape != mean.shape or not np.all((deviation > 0.0) & np.isfinite(deviation)):
            raise ValueError(f"inputs.deviation must be {samples.mean.size} numbers > 0, one per channel")
    except (KeyError, TypeError, ValueError) as error:
        raise RunLogError(f"{checkpoint.path.parent}: does not fit the scenario: {error}. Run anew") from None
    return replace(samples, mean=mean, deviation=deviation)


def restore(plant: LearningPlant, checkpoint: Checkpoint) -> None:
    """Bring a fresh plant to where the checkpoint was taken."""
    state, simulated = checkpoint.state, plant.simulated
    try:
        plant.weights = plant.engine.work.layout.vector(checkpoint.weights)
        simulated.index = checkpoint.round
        floors, devices = simulated.queue.size, plant.batch.size
        simulated.queue = _figures(state, "queue", floors)
        simulated.target_rate = _figures(state, "target_rate", floors)
        simulated.gateway_level = _figures(state, "gateway_level_j", floors)
        simulated.device_level = _figures(state, "device_level_j", devices)
        plant.last_loss = _figures(state, "last_loss", floors, gaps=True)  # null becomes nan
        plant.gradient_square = state["gradient_square"]
        plant.bound = None if state["divergence_bound"] is None else np.array(state["divergence_bound"], float)
        if state["figures"] is not None:
            arrays = {key: _figures(state["figures"], key, devices) for key in state["figures"]}
            plant.figures = GradientFigures(**arrays)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunLogError(f"{checkpoint.path.parent}: does not fit the scenario: {error}. Run anew") from None


def _figures(table: dict[str, Any], key: str, size: int, *, gaps: bool = False) -> Floats:
    """So many numbers >= 0 under a key; with gaps some may be null."""
    values = np.array(table[key], float)
    if values.shape != (size,) or np.any(values < 0.0) or (not gaps and not np.isfinite(values).all()):
        raise ValueError(f"{key} must be {size} numbers >= 0")
    return values
