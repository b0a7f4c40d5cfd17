"""What a run needs to resume after any interruption: weights in safetensors, everything else in JSON.

The weights are written first, under a name of their own. Then the state that names them replaces the old state in one
step. Whenever the process is killed, one whole checkpoint is there.
"""

__all__ = [
    "CHECKPOINT",
    "STATE",
    "Checkpoint",
    "Checkpoints",
    "checkpoint_round",
    "load_checkpoint",
    "named_weights",
    "remove_old_weights",
    "save_checkpoint",
]

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue, TypeAdapter, ValidationError

from fedfloor.errors import RunLogError
from fedfloor.files import failed_write, write_whole
from fedfloor.rounds.listeners.log import RoundLog
from fedfloor.rounds.loop import FinishedRound
from fedfloor.rounds.plants.contract import Plant, PlantState
from fedfloor.rounds.record import problem_of

CHECKPOINT = "checkpoint"
STATE = "state.json"

_VERSION = 1
_HEADER = ("version", "round", "clock_s", "data", "weights")


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A run between two rounds."""

    state: PlantState
    clock: float  #: [s] simulated time so far
    data: str  #: fingerprint of the data; empty without any
    path: Path  #: of the folder that holds it

    @property
    def round(self) -> int:
        """Number of rounds done, which is the number of the next round."""
        return self.state.index

    def restore(self, plant: Plant) -> None:
        """Bring a new plant to where the checkpoint was taken."""
        try:
            plant.restore(self.state)
        except (ValueError, OverflowError) as error:
            raise self.misfit(error) from None

    def misfit(self, problem: Exception) -> RunLogError:
        """The error of a checkpoint whose state is not one of the scenario."""
        place = f"{self.path / STATE}: does not fit the scenario"
        return RunLogError(f"{place}: {problem}. Start a new run in another folder")


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Takes a checkpoint every few rounds, and after the last one."""

    run: Path  #: run folder
    plant: Plant
    log: RoundLog
    every: int
    data: str  #: fingerprint of the data

    def hear(self, ended: FinishedRound) -> None:
        """Take a checkpoint if it is time; the log is on the disk before the checkpoint relies on it."""
        if ended.last or self.plant.index % self.every == 0:
            self.log.sync()
            save_checkpoint(self.run, self.plant.snapshot(), clock=ended.record.clock, data=self.data)


def save_checkpoint(run: Path, state: PlantState, *, clock: float, data: str) -> None:
    """Write a run's checkpoint and remove the one before it."""
    from fedfloor.training.network.stored import packed  # noqa: PLC0415  # safetensors is an extra

    folder, name = run / CHECKPOINT, _weights_name(state.index)
    header: dict[str, JsonValue] = {
        "version": _VERSION,
        "round": state.index,
        "clock_s": clock,
        "data": data,
        "weights": name,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / name, packed(state.weights))
        write_whole(folder / STATE, json.dumps({**header, **state.values}, indent=1).encode())
        remove_old_weights(folder, name)
    except OSError as error:
        raise failed_write(folder, error, again="resume the run with --resume") from None


def remove_old_weights(folder: Path, named: str) -> None:
    """Remove all weights from a folder of checkpoints but those that its state names."""
    for old in folder.glob("weights-*.safetensors"):
        if old.name != named:
            old.unlink()


def load_checkpoint(run: Path) -> Checkpoint | None:
    """The checkpoint of a run folder; None if it has none."""
    from fedfloor.training.network.stored import read_tensors  # noqa: PLC0415  # safetensors is an extra

    path = run / CHECKPOINT / STATE
    weights = path
    try:
        values = _table(path.read_bytes())
        if values["version"] != _VERSION:
            advice = "Use the version of fedfloor that wrote it"
            raise RunLogError(f"{path}: version must be {_VERSION}, got {values['version']}. {advice}")
        index, name = _checked_weights(values)
        clock, data = values["clock_s"], values["data"]
        if not isinstance(clock, int | float) or not 0.0 <= clock < float("inf"):
            raise ValueError(f"clock_s: must be a number >= 0, got {clock}")
        rest, seconds = {key: value for key, value in values.items() if key not in _HEADER}, float(clock)
        weights = path.parent / name
        return Checkpoint(PlantState(index, rest, read_tensors(weights)), seconds, str(data), path.parent)
    except FileNotFoundError:
        if weights != path:
            advice = "Restore it, or start a new run"
            raise RunLogError(f"{weights}: is missing, but {STATE} names it. {advice}") from None
        return None
    except (OSError, ValueError, KeyError, OverflowError) as error:
        advice = "Restore it, or start a new run in another folder"
        raise RunLogError(f"{weights}: is damaged: {error}. {advice}") from None


def named_weights(state: bytes) -> tuple[int, str]:
    """The next round, and the name of the weights, that the content of a `state.json` names.

    Raises a ValueError if the content is damaged.
    """
    return _checked_weights(_table(state))


def _checked_weights(values: Mapping[str, JsonValue]) -> tuple[int, str]:
    index, name = values.get("round"), values.get("weights")
    if not isinstance(index, int) or name != _weights_name(index):
        raise ValueError(f"weights and round do not match: got {name} and {index}")
    return index, _weights_name(index)


def checkpoint_round(run: Path) -> int | None:
    """How many rounds the checkpoint of a run folder has seen; None if there is no checkpoint to resume from."""
    try:
        return named_weights((run / CHECKPOINT / STATE).read_bytes())[0]
    except (OSError, ValueError):
        return None


def _table(content: bytes) -> Mapping[str, JsonValue]:
    try:
        return TypeAdapter(dict[str, JsonValue]).validate_json(content)
    except ValidationError as error:
        raise ValueError(problem_of(error)) from None


def _weights_name(index: int) -> str:
    return f"weights-{index:06d}.safetensors"
