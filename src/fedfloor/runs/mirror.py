"""Copies of a run folder in another process: whole whenever either process is killed."""

__all__ = ["Changes", "Kept", "Mirror", "kept_of", "write_changes"]

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedfloor.errors import FailedRunError, RunLogError, shown
from fedfloor.files import failed_write, make_private, read_if_there, write_whole
from fedfloor.rounds.listeners.checkpoint import CHECKPOINT, STATE, is_weights, named_weights, remove_old_weights
from fedfloor.rounds.listeners.log import ROUNDS, TIMINGS, kept_times
from fedfloor.runs.folder import BOUNDS, HOLDING, SCENARIO
from fedfloor.scenario.profiles import PROFILES, is_copy

#: what a run resumes from; written after everything that it names
_STATE = f"{CHECKPOINT}/{STATE}"
_LOGS = (ROUNDS, TIMINGS)
_NAMES = (SCENARIO, HOLDING, *_LOGS, _STATE, BOUNDS)
#: file, where the bytes go, the bytes
Changes = tuple[tuple[str, int, bytes], ...]


@dataclass(slots=True)
class Mirror:
    """What of a run folder has been sent already."""

    folder: Path
    _logged: dict[str, int] = field(default_factory=dict)  #: bytes of logs
    _sent: dict[str, bytes] = field(default_factory=dict)  #: small files

    def changes(self) -> Changes:
        """What is new since the last call.

        The state of a checkpoint comes after the weights that it names, the bounds after everything else.
        """
        copies = [f"{PROFILES}/{path.name}" for path in sorted((self.folder / PROFILES).glob("[!.]*"))]
        changes = [change for name in (*copies, SCENARIO, HOLDING) for change in self._whole(name)]
        for name in _LOGS:
            with (self.folder / name).open("rb") as file:
                begin = file.seek(self._logged.get(name, 0))
                content = file.read()
            if content:
                changes.append((name, begin, content))
                self._logged[name] = begin + len(content)
        for name, _, state in self._whole(_STATE):
            weights = f"{CHECKPOINT}/{named_weights(state)[1]}"
            changes += [(weights, 0, (self.folder / weights).read_bytes()), (name, 0, state)]
        return (*changes, *self._whole(BOUNDS))

    def _whole(self, name: str) -> Changes:
        """A small file, if it is new."""
        content = read_if_there(self.folder / name)
        if content is None or content == self._sent.get(name):
            return ()
        self._sent[name] = content
        return ((name, 0, content),)


def write_changes(folder: Path, changes: Changes) -> bool:
    """Bring a folder up to date with what its mirror sent; returns whether a new checkpoint is among it."""
    try:
        make_private(folder)
        make_private(folder / CHECKPOINT)
        relied_on = any(name == _STATE for name, _, _ in changes)
        if any(name in _LOGS for name, _, _ in changes):
            (folder / BOUNDS).unlink(missing_ok=True)  # they describe the shorter run
        for name, offset, content in changes:
            if name not in _NAMES and not is_copy(name) and not is_weights(name.removeprefix(f"{CHECKPOINT}/")):
                problem = f"the process that trains it sent {shown(name)}, which is no file of a run"
                raise FailedRunError(f"{folder}: {problem}. Check the machine that it runs on")
            path = folder / name
            if name in _LOGS:
                with path.open("r+b" if path.exists() else "wb") as file:
                    if file.seek(0, os.SEEK_END) < offset:
                        problem = "another process has removed what was written to it"
                        raise FailedRunError(
                            f"{path}: {problem}. Start the comparison again: it resumes from what is left"
                        )
                    file.truncate(offset)
                    file.seek(offset)
                    file.write(content)
                    if relied_on:  # by a checkpoint
                        file.flush()
                        os.fsync(file.fileno())
                continue
            make_private(path.parent)
            write_whole(path, content)
            if name == _STATE:
                remove_old_weights(folder / CHECKPOINT, named_weights(content)[1])
        return relied_on
    except OSError as error:
        raise failed_write(folder, error, again="start the comparison again: it resumes") from None


@dataclass(frozen=True, slots=True)
class Kept:
    """What a run resumes from, on whichever machine; empty for a new run."""

    files: Mapping[str, bytes] = field(default_factory=dict)

    def unpack(self, folder: Path) -> Mirror:
        """Write it into a folder; the mirror sends only what comes after it, and the times, which may have gaps."""
        for name, content in self.files.items():
            make_private((folder / name).parent)
            (folder / name).write_bytes(content)
        logged = {name: len(content) for name, content in self.files.items() if name == ROUNDS}
        sent = {name: content for name, content in self.files.items() if name in (SCENARIO, _STATE)}
        return Mirror(folder, logged, sent)


def kept_of(folder: Path) -> Kept:
    """The last checkpoint of a run folder, with as much of the logs as it has seen."""
    state = read_if_there(folder / _STATE)
    if state is None:
        return Kept()
    try:
        rounds, name = named_weights(state)
    except ValueError as error:
        raise RunLogError(f"{folder / _STATE}: is damaged: {error}. Restore it, or remove {folder}") from None
    files = {TIMINGS: kept_times(folder, rounds)}
    for part in (SCENARIO, ROUNDS, f"{CHECKPOINT}/{name}", _STATE):
        content = read_if_there(folder / part)
        if content is None:
            problem = f"{folder / part}: is missing, but the checkpoint needs it"
            raise RunLogError(f"{problem}. Restore it, or remove {folder}")
        files[part] = b"".join(content.splitlines(keepends=True)[:rounds]) if part == ROUNDS else content
    return Kept(files)
