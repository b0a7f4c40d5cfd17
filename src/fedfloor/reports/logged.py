"""The log of a run, read once from end to end and then round by round, so that a long run is never in memory."""

__all__ = ["Log", "LoggedRounds", "read_rounds"]

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from fedfloor.errors import RunLogError
from fedfloor.reports.log_columns import LogColumns
from fedfloor.rounds.lines import parse_record
from fedfloor.rounds.listeners.log import ROUNDS, parsed_line, whole_lines
from fedfloor.rounds.record import RoundRecord
from fedfloor.rounds.summary import Tally
from fedfloor.runs.folder import check_record, read_records
from fedfloor.scenario import Scenario


@dataclass(frozen=True, slots=True, eq=False)
class LoggedRounds(Sequence[RoundRecord]):
    """Rounds of a `rounds.jsonl`, each parsed when it is looked at; what tables and figures need is in the columns."""

    path: Path
    starts: "array[int]"  #: (T,) [byte] where the line of each round begins
    columns: LogColumns  #: of the same rounds

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
            return LoggedRounds(self.path, self.starts[at], self.columns[at])
        place = range(len(self))[at]
        return next(iter(self[place : place + 1]))


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
    rounds, tally, position = LoggedRounds(path, array("q"), LogColumns(scenario)), Tally(), 0
    for number, line in enumerate(whole_lines(path), start=1):
        record = parsed_line(path, number, line)
        check_record(record, number - 1, tally.clock, scenario, folder)
        tally.add(record)
        rounds.columns.add(record)
        rounds.starts.append(position)
        position += len(line)
    return Log(rounds, tally)
