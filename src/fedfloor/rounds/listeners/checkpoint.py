"""What a run needs to resume after any interruption: weights in safetensors, everything else in JSON.

The weights are written first, under a name of their own. Then the state that names them replaces the old state in one
step. Whenever the process is killed, one whole checkpoint is there. The state carries checksums of itself, of the
weights and of the log, and says which run it belongs to, so that damage is noticed before anything relies on it.
"""

__all__ = [
    "CHECKPOINT",
    "MEMORY",
    "STATE",
    "Checkpoint",
    "Checkpoints",
    "Origin",
    "checkpoint_round",
    "is_weights",
    "load_checkpoint",
    "named_weights",
    "remove_old_weights",
    "save_checkpoint",
    "signed",
]

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import JsonValue, TypeAdapter, ValidationError

from fedfloor.errors import RunLogError, shown
from fedfloor.files import failed_write, make_private, read_if_there, write_whole
from fedfloor.rounds.listeners.log import RoundLog
from fedfloor.rounds.listeners.state import KEEPS_STATE, StateWatch
from fedfloor.rounds.loop import FinishedRound
from fedfloor.rounds.plants.contract import Plant, PlantState
from fedfloor.rounds.problems import problem_of

CHECKPOINT = "checkpoint"
STATE = "state.json"

_VERSION = 2
_WITHOUT_CHECKSUMS = 1  #: a version that is still read
MEMORY = "memory/"  #: beginning of the names of tensors that are not the model's
_HEADER = ("version", "round", "clock_s", "data", "run", "log_sha256", "weights", "weights_sha256", "sha256")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a checkpoint belongs to; texts are empty where nothing is known."""

    data: str = ""  #: fingerprint of the data
    run: str = ""  #: fingerprint of the scenario, the policy included
    log: str = ""  #: checksum of the rounds that were logged before it


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A run between two rounds."""

    state: PlantState
    clock: float  #: [s] simulated time so far
    origin: Origin
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

    folder: Path  #: of the run
    plant: Plant
    log: RoundLog
    every: int
    data: str  #: fingerprint of the data
    run: str  #: fingerprint of the scenario
    watch: StateWatch | None = None  #: hears of a round before this one does; None if the policy cannot keep state

    def hear(self, ended: FinishedRound) -> None:
        """Take a checkpoint if it is time; the log is on the disk before the checkpoint relies on it."""
        if ended.last or self.plant.index % self.every == 0:
            self.log.sync()
            origin = Origin(data=self.data, run=self.run, log=self.log.digest)
            state = self.plant.snapshot()
            if self.watch is not None and self.watch.found:
                state = replace(state, values={**state.values, KEEPS_STATE: True})
            save_checkpoint(self.folder, state, clock=ended.record.clock, origin=origin)


def save_checkpoint(run: Path, state: PlantState, *, clock: float, origin: Origin) -> None:
    """Write a run's checkpoint and remove the one before it."""
    from fedfloor.training.network.stored import packed  # noqa: PLC0415  # safetensors is an extra

    folder, name = run / CHECKPOINT, _weights_name(state.index)
    weights = packed({**state.weights, **{f"{MEMORY}{key}": tensor for key, tensor in state.memory.items()}})
    header: dict[str, JsonValue] = {
        "version": _VERSION,
        "round": state.index,
        "clock_s": clock,
        "data": origin.data,
        "run": origin.run,
        "log_sha256": origin.log,
        "weights": name,
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    try:
        make_private(folder)
        write_whole(folder / name, weights)
        write_whole(folder / STATE, signed({**header, **state.values}))
        remove_old_weights(folder, name)
    except OSError as error:
        raise failed_write(folder, error, again="resume the run") from None


def signed(values: Mapping[str, JsonValue]) -> bytes:
    """The content of a `state.json` with its own checksum as the last value."""
    table = {key: value for key, value in values.items() if key != "sha256"}
    return json.dumps({**table, "sha256": _checksum(table)}, indent=1).encode()


def _checksum(table: Mapping[str, JsonValue]) -> str:
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


def remove_old_weights(folder: Path, named: str) -> None:
    """Remove all weights from a folder of checkpoints but those that its state names."""
    for old in folder.glob("weights-*.safetensors"):
        if old.name != named and is_weights(old.name):
            old.unlink()


def load_checkpoint(run: Path) -> Checkpoint | None:
    """The checkpoint of a run folder; None if it has none.

    The run may be going on: if it replaces the checkpoint between two reads, the new one is read.
    """
    state = run / CHECKPOINT / STATE
    content = _bytes(state)
    while content is not None:
        try:
            return _loaded(state, content)
        except RunLogError:
            before, content = content, _bytes(state)
            if content == before:
                raise
    return None


def _bytes(path: Path) -> bytes | None:
    """The content of a file of a checkpoint; None if there is no such file."""
    try:
        return read_if_there(path)
    except OSError as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, problem: Exception) -> RunLogError:
    advice = "Restore it, or start a new run in another folder"
    return RunLogError(f"{path}: is damaged: {problem}. {advice}")


def _loaded(path: Path, content: bytes) -> Checkpoint:
    from fedfloor.training.network.stored import unpacked  # noqa: PLC0415  # safetensors is an extra

    try:
        values = _table(content)
        version = values["version"]
        if isinstance(version, bool) or version not in (_VERSION, _WITHOUT_CHECKSUMS):
            advice = "Use the version of fedfloor that wrote it"
            raise RunLogError(f"{path}: version must be {_VERSION}, got {shown(version)}. {advice}")
        index, name = _checked_weights(values)
        clock, texts = values["clock_s"], {key: values.get(key, "") for key in ("data", "run", "log_sha256")}
        if not isinstance(clock, int | float) or not clock >= 0.0:
            raise ValueError(f"clock_s: must be a number >= 0, got {shown(clock)}")
        seconds = float(clock)
    except (ValueError, KeyError, OverflowError) as error:
        raise _damaged(path, error) from None
    weights = _bytes(path.parent / name)
    if weights is None:
        advice = "Restore it, or start a new run"
        raise RunLogError(f"{path.parent / name}: is missing, but {STATE} names it. {advice}")
    try:
        if _is_signed(values) and hashlib.sha256(weights).hexdigest() != values.get("weights_sha256"):
            raise ValueError(f"its content is not what {STATE} says")
        tensors = unpacked(weights)
    except ValueError as error:
        raise _damaged(path.parent / name, error) from None
    rest = {key: value for key, value in values.items() if key not in _HEADER}
    origin = Origin(data=str(texts["data"]), run=str(texts["run"]), log=str(texts["log_sha256"]))
    model = {key: tensor for key, tensor in tensors.items() if not key.startswith(MEMORY)}
    memory = {key.removeprefix(MEMORY): tensor for key, tensor in tensors.items() if key not in model}
    return Checkpoint(PlantState(index, rest, model, memory), seconds, origin, path.parent)


def named_weights(state: bytes) -> tuple[int, str]:
    """The next round, and the name of the weights, that the content of a `state.json` names.

    Raises a ValueError if the content is damaged.
    """
    return _checked_weights(_table(state))


def _checked_weights(values: Mapping[str, JsonValue]) -> tuple[int, str]:
    index, name = values.get("round"), values.get("weights")
    if not isinstance(index, int) or name != _weights_name(index):
        raise ValueError(f"weights and round do not match: got {shown(name)} and {shown(index)}")
    return index, _weights_name(index)


def checkpoint_round(run: Path) -> int | None:
    """How many rounds the checkpoint of a run folder has seen; None if there is no checkpoint to resume from."""
    try:
        return named_weights((run / CHECKPOINT / STATE).read_bytes())[0]
    except (OSError, ValueError):
        return None


def _table(content: bytes) -> Mapping[str, JsonValue]:
    """The values of a `state.json`; a ValueError says what is wrong with it."""
    try:
        values = TypeAdapter(dict[str, JsonValue]).validate_json(content)
    except ValidationError as error:
        raise ValueError(problem_of(error)) from None
    if _is_signed(values):
        kept = {key: value for key, value in values.items() if key != "sha256"}
        if _checksum(kept) != values.get("sha256"):
            raise ValueError("its content is not what was written")
    return values


def _is_signed(values: Mapping[str, JsonValue]) -> bool:
    """Whether a state carries checksums, whatever version it claims; a later version may compute others."""
    version = values.get("version")
    if isinstance(version, int) and version > _VERSION:
        return False
    return version == _VERSION or "sha256" in values or "weights_sha256" in values


def is_weights(name: str) -> bool:
    """Whether a file of this name holds the weights of a checkpoint."""
    return re.fullmatch(r"weights-[0-9]{6,}\.safetensors", name) is not None


def _weights_name(index: int) -> str:
    return f"weights-{index:06d}.safetensors"
