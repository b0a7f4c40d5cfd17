"""The log of a run: one JSON line per round in `rounds.jsonl`, and its wall-clock times in `timings.jsonl`."""

__all__ = [
    "ROUNDS",
    "TIMINGS",
    "RoundLog",
    "cut_log",
    "kept_times",
    "log_digest",
    "parsed_line",
    "read_log",
    "whole_lines",
]

import contextlib
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Self

from fedfloor.errors import RunLogError
from fedfloor.files import failed_write, read_if_there, write_whole
from fedfloor.rounds.lines import json_line, parse_record, parse_timing
from fedfloor.rounds.loop import FinishedRound
from fedfloor.rounds.record import RoundRecord

ROUNDS = "rounds.jsonl"
TIMINGS = "timings.jsonl"


@dataclass
class RoundLog:
    """The two files, open for writing; every round is flushed before the next one starts."""

    _rounds: IO[str]
    _timings: IO[str]
    _sum: "hashlib._Hash" = field(default_factory=hashlib.sha256)  #: over all lines of `rounds.jsonl`

    @classmethod
    def open(cls, folder: Path, *, append: bool) -> Self:
        """The log in a folder, new or to be continued."""
        mode = "a" if append else "w"
        rounds, timings = ((folder / name).open(mode, encoding="utf-8", newline="\n") for name in (ROUNDS, TIMINGS))
        log = cls(rounds, timings)
        if append:
            for line in whole_lines(folder / ROUNDS):
                log._sum.update(line)
        return log

    @property
    def digest(self) -> str:
        """Checksum of the rounds that were logged so far; see `log_digest`."""
        return self._sum.hexdigest()

    def hear(self, ended: FinishedRound) -> None:
        """Log one round."""
        rounds, timings = f"{json_line(ended.record)}\n", f"{json_line(ended.timing)}\n"
        for file, line in ((self._rounds, rounds), (self._timings, timings)):
            try:
                file.write(line)
                file.flush()
            except OSError as error:
                raise failed_write(Path(file.name), error, again="resume the run") from None
        self._sum.update(rounds.encode())

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
    """Keep the first rounds of a log, with their times where these are not damaged, and drop what was logged later."""
    path = folder / ROUNDS
    sizes = [len(line) for line in whole_lines(path, rounds)] if path.exists() else []
    if len(sizes) < rounds:
        problem = f"has {len(sizes)} whole lines, but the checkpoint was taken after {rounds} rounds"
        raise RunLogError(f"{path}: {problem}. Restore the file, or start a new run in another folder")
    if path.exists() and path.stat().st_size > sum(sizes):
        with path.open("r+b") as file:
            file.truncate(sum(sizes))
    times = kept_times(folder, rounds)
    if read_if_there(folder / TIMINGS) not in (None, times):
        write_whole(folder / TIMINGS, times)


def kept_times(folder: Path, rounds: int) -> bytes:
    """The lines of a folder's `timings.jsonl` that belong to the first rounds; damaged ones are left out.

    Nothing relies on these times, so a file that is damaged or missing stops no run.
    """
    lines: list[bytes] = []
    latest = -1
    for line in whole_lines(folder / TIMINGS) if (folder / TIMINGS).exists() else ():
        try:
            index = parse_timing(line).round
        except ValueError:
            continue
        if latest < index < rounds:
            lines.append(line)
            latest = index
    return b"".join(lines)


def log_digest(folder: Path, rounds: int) -> str:
    """Checksum of the first rounds of a folder's log."""
    total = hashlib.sha256()
    for line in whole_lines(folder / ROUNDS, rounds):
        total.update(line)
    return total.hexdigest()


def read_log(path: Path, most: int | None = None) -> list[RoundRecord]:
    """The rounds of a `rounds.jsonl`, at most so many.

    A last line that does not end is a round that was cut short, or is being written, and is left out.
    """
    return [parsed_line(path, number, line) for number, line in enumerate(whole_lines(path, most), start=1)]


def parsed_line(path: Path, number: int, line: bytes) -> RoundRecord:
    """The round in a line of a log, counted from 1."""
    try:
        return parse_record(line)
    except ValueError as error:
        advice = "It is damaged, or was written by another version of fedfloor; use that one, or run again"
        raise RunLogError(f"{path}: line {number}: {error}. {advice}") from None


def whole_lines(path: Path, most: int | None = None) -> Iterator[bytes]:
    """The lines of a file that end, at most so many."""
    with path.open("rb") as file:
        for number, line in enumerate(file):
            if number == most or not line.endswith(b"\n"):
                return
            yield line
