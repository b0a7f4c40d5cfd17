"""One run folder, read as its log grows.

Where reading stopped is remembered. A log that was cut back or replaced, as `--resume` does, is read from its start
again. A damaged or missing file is a problem that lasts until the file is mended.
"""

__all__ = ["FollowedRun", "Status"]

import hashlib
import itertools
import os
import stat
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

from fedfloor.errors import FedfloorError, RunLogError
from fedfloor.reports.beside import about_from, bounds_from, holding_from
from fedfloor.reports.live.keeping import KeptRounds
from fedfloor.reports.live.recent import RECENT, predicted_delay
from fedfloor.reports.reading import ReadRun, beside, has_ended, scenario_table
from fedfloor.reports.scores import ERROR, Score, score_of
from fedfloor.rounds.listeners.log import ROUNDS, parsed_line
from fedfloor.rounds.record import RoundRecord
from fedfloor.rounds.summary import Tally, value_of_test
from fedfloor.runs.about import ABOUT, About
from fedfloor.runs.folder import BOUNDS, HOLDING, SCENARIO, check_record, fingerprint_of, scenario_of
from fedfloor.scenario import Scenario
from fedfloor.scheduling.registry import name_now

_LONGEST = 2**28  #: [byte] of a line; a round of a thousand floors has far less
_LATE = 30.0  #: [s] without a round before that is worth a word, or six usual rounds
_UNUSUAL = 60.0  #: [s] the same while it is unknown how long a round takes
_GAPS = 10  #: moments at which rounds came, from which the usual time between two is derived
_generations = itertools.count(1)

Status = Literal["waiting", "reading", "going", "late", "ended", "problem"]


@dataclass
class _Reading:
    """What is known of a log: all of it is forgotten when the log is read from its start again."""

    kept: KeptRounds
    score: Score  #: what tests measure
    tally: Tally = field(default_factory=lambda: Tally(endless=True))
    generation: int = field(default_factory=lambda: next(_generations))
    file: tuple[int, int] = (0, 0)  #: device and number of the file
    offset: int = 0  #: [byte] up to which it was read
    start: int = 0  #: [byte] of the last line that was read
    digest: bytes = b""  #: of that line
    last: tuple[int, float] | None = None  #: after how many rounds the model was last tested, and what that gave
    best: tuple[int, float] | None = None  #: the same for the best test, the first of several
    recent: deque[RoundRecord] = field(default_factory=lambda: deque(maxlen=RECENT))
    is_measured: bool = False  #: whether delays are measured, and predictions logged beside them

    @property
    def rounds(self) -> int:
        """How many were read."""
        return self.tally.rounds

    @property
    def policy(self) -> str:
        """With its settings, as names are written now."""
        return name_now(self.tally.policy)

    def take(self, record: RoundRecord, start: int) -> None:
        """Take the next round, whose line begins at this byte."""
        self.tally.add(record)
        self.kept.add(record, start)
        self.recent.append(record)
        self.is_measured = self.is_measured or predicted_delay(record) is not None
        if (value := value_of_test(record, predicts_numbers=self.score is ERROR)) is not None:
            self.last = (self.rounds, value)
            if self.best is None or self.score.sign * value > self.score.sign * self.best[1]:
                self.best = self.last


class FollowedRun:
    """A run folder and what was read of it so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problem = ""  #: what is wrong now, in a sentence for people; empty if nothing is
        self.is_ended = False
        self.about = About()
        self._about_problems: list[str] = []
        self.age: float | None = None  #: [s] since the log last changed
        self.unread = 0  #: [byte] of the log
        self.table: Mapping[str, object] = {}
        self.scenario: Scenario | None = None
        self._scenario_file: tuple[int, ...] = ()
        self._fingerprint = ""
        self._log_file: tuple[int, ...] = ()  #: of the log when it was last read to its end
        self._reading: _Reading | None = None
        self._moments: deque[tuple[float, int]] = deque(maxlen=_GAPS)

    @property
    def log(self) -> _Reading | None:
        """What was read of the log; None before its first round."""
        return self._reading if self._reading is not None and self._reading.rounds else None

    @property
    def gap(self) -> float | None:
        """Usual time [s] between two rounds, as seen while watching; None before."""
        if len(self._moments) < 2:
            return None
        (first, before), (last, after) = self._moments[0], self._moments[-1]
        return (last - first) / (after - before)

    @property
    def status(self) -> Status:
        """How the run is, in a word."""
        if self.problem:
            return "problem"
        if self.unread and not self._log_file:
            return "reading"
        if self.log is None:
            return "waiting"
        if self.is_ended:
            return "ended"
        patience = _UNUSUAL if self.gap is None else max(_LATE, 6.0 * self.gap)
        return "late" if self.age is not None and self.age > patience else "going"

    def read(self, until: float) -> None:
        """Read what is new, at most up to this moment of the monotonic clock."""
        try:
            if not self._read_scenario():
                return
            self._read_log(until)
            self._about_problems.clear()
            self.about = beside(about_from, self.folder / ABOUT, self._about_problems) or About()
            self.is_ended = self._has_ended()
            self.problem = ""
        except FedfloorError as error:
            self.problem = str(error)
        except OSError as error:
            self.problem = f"{error.filename or self.folder}: cannot be read: {error.strerror}"

    def _has_ended(self) -> bool:
        if self.log is None or self.scenario is None:
            return False
        has_bounds = (self.folder / BOUNDS).exists()
        return has_ended(self.scenario, self.log.rounds, self.about, has_bounds=has_bounds)

    def _read_scenario(self) -> bool:
        """Read the scenario if it is new or changed; False while a run has not begun to write it."""
        path = self.folder / SCENARIO
        try:
            file = _identity(path.stat())
        except (FileNotFoundError, NotADirectoryError):
            if self.scenario is None:
                return False
            place = path if self.folder.is_dir() else self.folder
            raise RunLogError(f"{place}: has disappeared. The page shows what was read before") from None
        if file != self._scenario_file:
            table, scenario = scenario_table(path), scenario_of(self.folder)
            fingerprint = fingerprint_of(path.read_text(encoding="utf-8"))
            if fingerprint != self._fingerprint:
                self._reading = None
            self.table, self.scenario, self._fingerprint, self._scenario_file = table, scenario, fingerprint, file
            self._log_file = ()
        return True

    def _read_log(self, until: float) -> None:
        path = self.folder / ROUNDS
        try:
            status = path.stat()
        except FileNotFoundError:
            if self._reading is None or not self._reading.rounds:
                return
            raise RunLogError(f"{path}: has disappeared. The page shows what was read before") from None
        if not stat.S_ISREG(status.st_mode):
            raise RunLogError(f"{path}: is a folder, a pipe or a device, not a log")
        self.age = max(0.0, time.time() - status.st_mtime)
        if _identity(status) == self._log_file:
            return
        with path.open("rb") as file:
            self._read_lines(file, path, until)

    def _read_lines(self, file: BinaryIO, path: Path, until: float) -> None:
        """Read whole lines from where reading stopped; a last line that does not end is still being written."""
        status = os.fstat(file.fileno())
        reading, scenario = self._continued(file, status), self.scenario
        assert scenario is not None
        rounds, line, is_whole, was_read = reading.rounds, b"", True, bool(self._log_file)
        file.seek(reading.offset)
        try:
            while time.monotonic() < until or reading.rounds == rounds:
                line = file.readline(_LONGEST)
                is_whole = line.endswith(b"\n")
                if not is_whole:
                    break
                record = parsed_line(path, reading.rounds + 1, line)
                check_record(record, reading.rounds, reading.tally.clock, scenario, self.folder)
                reading.take(record, reading.offset)
                reading.start, reading.offset = reading.offset, reading.offset + len(line)
                reading.digest = hashlib.blake2b(line).digest()
        finally:
            self.unread = max(0, status.st_size - reading.offset)
        if len(line) == _LONGEST:
            raise RunLogError(f"{path}: line {reading.rounds + 1}: is longer than {_LONGEST:,} bytes. It is damaged")
        self._log_file = () if is_whole else _identity(status)
        if not is_whole:
            self.unread = 0
        if was_read and reading.rounds > rounds:
            self._moments.append((time.monotonic(), reading.rounds))

    def _continued(self, file: BinaryIO, status: os.stat_result) -> _Reading:
        """What was read of the log so far; a new start if the log is no longer the one that was read."""
        reading = self._reading
        identity = (status.st_dev, status.st_ino)
        if reading is not None and reading.file == identity and status.st_size >= reading.offset:
            file.seek(reading.start)
            line = file.read(reading.offset - reading.start)
            if not reading.rounds or hashlib.blake2b(line).digest() == reading.digest:
                return reading
        assert self.scenario is not None
        stride = 1 if reading is None else reading.kept.stride
        self._moments.clear()
        self._reading = _Reading(KeptRounds(self.scenario, stride), score_of(self.scenario), file=identity)
        return self._reading

    def as_read(self) -> tuple[ReadRun, list[str]] | None:
        """The run as a report sees it, and problems of the files beside the log; None without a round."""
        reading, scenario = self.log, self.scenario
        if reading is None or scenario is None:
            return None
        problems = self._about_problems[:]
        bounds = beside(bounds_from, self.folder / BOUNDS, problems)
        run = ReadRun(
            folder=self.folder,
            scenario=scenario,
            policy=reading.policy,
            variant="",
            records=reading.kept.logged(self.folder / ROUNDS),
            summary=reading.tally.summary(),
            holding=beside(holding_from, self.folder / HOLDING, problems),
            bounds=() if bounds is None and (self.folder / BOUNDS).exists() else bounds,
            about=self.about,
        )
        return run, problems


def _identity(status: os.stat_result) -> tuple[int, ...]:
    """Changes whenever a file changes."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
