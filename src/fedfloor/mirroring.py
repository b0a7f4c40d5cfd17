"""What a run writes, told to another process that writes it again: folders that are whole whenever either is killed."""

__all__ = ["STATE", "Changes", "Mirror", "bytes_of", "kept_files", "write_changes"]

import json
from dataclasses import dataclass, field
from pathlib import Path

from fedfloor.errors import FailedRunError
from fedfloor.runlog import BOUNDS, CHECKPOINT, HOLDING, ROUNDS, SCENARIO, TIMINGS

#: what a run can go on from; written after everything that it names
STATE = f"{CHECKPOINT}/state.json"
_LOGS = (ROUNDS, TIMINGS)
#: file, where the bytes go, the bytes
Changes = tuple[tuple[str, int, bytes], ...]


@dataclass(slots=True)
class Mirror:
    """What of a run folder was told already."""

    folder: Path
    _told: dict[str, int] = field(default_factory=dict)  #: bytes of logs
    _seen: dict[str, bytes] = field(default_factory=dict)  #: small files

    def changes(self) -> Changes:
        """What is new since the last call; the state of a checkpoint comes after the weights that it names."""
        found = []
        for name in (SCENARIO, HOLDING, BOUNDS):
            content = bytes_of(self.folder / name)
            if content is not None and content != self._seen.get(name):
                self._seen[name] = content
                found.append((name, 0, content))
        for name in _LOGS:
            with (self.folder / name).open("rb") as file:
                file.seek(self._told.get(name, 0))
                content = file.read()
            if content:
                found.append((name, self._told.get(name, 0), content))
                self._told[name] = self._told.get(name, 0) + len(content)
        state = bytes_of(self.folder / STATE)
        if state is not None and state != self._seen.get(STATE):
            self._seen[STATE] = state
            weights = f"{CHECKPOINT}/{json.loads(state)['weights']}"
            found += [(weights, 0, (self.folder / weights).read_bytes()), (STATE, 0, state)]
        return tuple(found)


def write_changes(folder: Path, changes: Changes) -> None:
    """Bring a folder up to what its mirror told."""
    try:
        (folder / CHECKPOINT).mkdir(parents=True, exist_ok=True)
        for name, offset, content in changes:
            path = folder / name
            if name in _LOGS:
                with path.open("r+b" if path.exists() else "wb") as file:
                    file.truncate(offset)
                    file.seek(offset)
                    file.write(content)
                continue
            part = path.with_name(path.name + ".part")
            part.write_bytes(content)
            part.replace(path)
            if name == STATE:
                _remove_old(folder / CHECKPOINT, json.loads(content)["weights"])
    except OSError as error:
        problem = f"{folder}: cannot be written: {error.strerror}"
        raise FailedRunError(f"{problem}. Make room, then start the comparison again: it goes on") from None


def kept_files(folder: Path) -> dict[str, bytes]:
    """The files of a run that can go on from a checkpoint; none for one that begins."""
    state = bytes_of(folder / STATE)
    if state is None:
        return {}
    names = (SCENARIO, *_LOGS, f"{CHECKPOINT}/{json.loads(state)['weights']}", STATE)
    return {name: (folder / name).read_bytes() for name in names}


def _remove_old(folder: Path, named: str) -> None:
    for old in folder.glob("weights-*.safetensors"):
        if old.name != named:
            old.unlink()


def bytes_of(path: Path) -> bytes | None:
    """What a file holds; None if there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
