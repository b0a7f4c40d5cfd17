"""The log of a run: one JSON line per round in `rounds.jsonl`, and its wall-clock times in `timings.jsonl`."""

__all__ = ["ROUNDS", "TIMINGS", "RoundLog", "cut_log", "read_log"]

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from fedfloor.errors import RunLogError
from fedfloor.files import failed_write
from fedfloor.rounds.loop import FinishedRound
from fedfloor.rounds.record import RoundRecord, json_line, parse_record

ROUNDS = "rounds.jsonl"
TIMINGS = "timings.jsonl"


@dataclass
class RoundLog:
    """The two files, open for writing; every round is flushed before the next one starts."""

    _rounds: IO[str]
    _timings: IO[str]

    @classmethod
    def open(cls, folder: Path, *, append: bool) -> Self:
        """The log in a folder, new or to be continued."""
        rounds, timings = ((folder / name).open("a" if append else "w", encoding="utf-8") for name in (ROUNDS, TIMINGS))
        return cls(rounds, timings)

    def hear(self, ended: FinishedRound) -> None:
        """Log one round."""
        for file, line in ((self._rounds, json_line(ended.record)), (self._timings, json_line(ended.timing))):
            try:
                file.write(line + "\n")
                file.flush()
            except OSError as error:
                raise failed_write(Path(file.name), error, again="resume the run") from None

    def sync(self) -> None:
        """Force the log onto the disk before something relies on it."""
        for file in (self._rounds, self._timings):
            os.fsync(file.fileno())

    def close(self) -> None:
        """Close both files."""
        for file in (self._rounds, self._timings):
            with contextlib.suppress(OSError):  # a full disk was reported when it was met
                file.close()


def cut_log(folder: Path, rounds: int) -> None:
    """Keep the first rounds of a log and drop what was logged after them."""
    for path in (folder / ROUNDS, folder / TIMINGS):
        content = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        whole = sum(line.endswith(b"\n") for line in content)
        if whole < rounds:
            problem = f"has {whole} whole lines, but the checkpoint was taken after {rounds} rounds"
            raise RunLogError(f"{path}: {problem}. Restore the file, or start a new run in another folder")
        if len(content) > rounds:
            with path.open("r+b") as file:
                file.truncate(sum(len(line) for line in content[:rounds]))


def read_log(path: Path) -> list[RoundRecord]:
    """All rounds of a `rounds.jsonl`; a torn last line is a round that was cut short, and is left out."""
    lines = path.read_bytes().splitlines()
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(parse_record(line))
        except ValueError as error:
            if number == len(lines) and not _is_json(line):
                break
            advice = "It is damaged, or was written by another version of fedfloor; use that one, or run again"
            raise RunLogError(f"{path}: line {number}: {error}. {advice}") from None
    return records


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
