"""The log of a run, read once from end to end and then round by round, so that a long run is never in memory."""

__all__ = ["Log", "LoggedRounds", "evaluations", "read_rounds"]

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from fedfloor.errors import RunLogError
from fedfloor.rounds.lines import parse_record
from fedfloor.rounds.listeners.log import ROUNDS, parsed_line, whole_lines
from fedfloor.rounds.record import RoundRecord
from fedfloor.rounds.summary import Tally
from fedfloor.runs.folder import check_record, read_records
from fedfloor.scenario import Scenario


@dataclass(frozen=True, slots=True, eq=False)
class LoggedRounds(Sequence[RoundRecord]):
    """Rounds of a `rounds.jsonl`, each parsed when it is looked at; what is asked for most often is kept."""

    path: Path
    starts: "array[int]"  #: (T,) [byte] where the line of each round begins
    rounds: "array[int]"  #: (T,) numbers, from 0
    accuracy: "array[float]"  #: (T,) nan where the model was not tested

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[RoundRecord]:
        try:
            with self.path.open("rb") as file:
                for start in self.starts:
                    file.seek(start)
                    yield parse_record(file.readline())
        except (OSError, ValueError):
            raise RunLogError(f"{self.path}: has changed while it was read. Report again") from None

    @overload
    def __getitem__(self, at: int) -> RoundRecord: ...
    @overload
    def __getitem__(self, at: slice) -> "LoggedRounds": ...
    def __getitem__(self, at: int | slice) -> "RoundRecord | LoggedRounds":
        if isinstance(at, slice):
            return LoggedRounds(self.path, self.starts[at], self.rounds[at], self.accuracy[at])
        place = range(len(self))[at]
        return next(iter(self[place : place + 1]))


def evaluations(records: Sequence[RoundRecord]) -> list[tuple[int, float]]:
    """After how many rounds the model was tested, and the accuracy in each test; a log is not read again."""
    if isinstance(records, LoggedRounds):
        pairs = zip(records.rounds, records.accuracy, strict=True)
        return [(number + 1, value) for number, value in pairs if not math.isnan(value)]
    return [(record.round + 1, record.accuracy) for record in records if record.accuracy is not None]


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """The rounds of a run and what they sum up to."""

    rounds: LoggedRounds
    tally: Tally


def read_rounds(folder: Path, scenario: Scenario) -> Log:
    """The log of a run folder, every line of which is checked; see `read_records` and `check_record` for errors.

    A last line that does not end is a round that was cut short, or is being written, and is left out.
    """
    path = folder / ROUNDS
    if not path.is_file():
        read_records(folder)  # which says what is there instead
    rounds, tally, position = LoggedRounds(path, array("q"), array("q"), array("d")), Tally(), 0
    for number, line in enumerate(whole_lines(path), start=1):
        record = parsed_line(path, number, line)
        check_record(record, number - 1, tally.clock, scenario, folder)
        tally.add(record)
        rounds.starts.append(position)
        rounds.rounds.append(record.round)
        rounds.accuracy.append(math.nan if record.accuracy is None else record.accuracy)
        position += len(line)
    return Log(rounds, tally)
