"""Recorded traces in place of random draws: CSV files with one row per round and link, gateway or device."""

__all__ = ["TRACE_COLUMNS", "read_trace"]

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.errors import TraceError, named, shown
from fedfloor.scenario.resolved import Scenario

#: kind of trace -> its columns after `round`; the last one holds the value
TRACE_COLUMNS = MappingProxyType(
    {
        "uplink_gain": ("floor", "channel", "gain"),
        "downlink_gain": ("floor", "channel", "gain"),
        "uplink_interference": ("floor", "channel", "interference_w"),
        "downlink_interference": ("floor", "channel", "interference_w"),
        "gateway_energy": ("floor", "energy_j"),
        "device_energy": ("device", "energy_j"),
    }
)


@dataclass(frozen=True, slots=True)
class _Record:
    """One file and the names that its rows may use."""

    kind: str
    path: Path
    axes: dict[str, dict[str, int]]  #: column -> name -> position

    @property
    def columns(self) -> tuple[str, ...]:
        return ("round", *TRACE_COLUMNS[self.kind])

    def error(self, problem: str, *, line: int | None = None) -> TraceError:
        where = f"line {line}" if line is not None else f"traces.{self.kind}"
        return TraceError(f"{named(self.path)}: {where}: {problem}")


def read_trace(kind: str, path: Path, scenario: Scenario) -> Floats:
    """Read a trace as an array (T, M, J), (T, M) or (T, N); every round must have every value exactly once."""
    names = {
        "floor": [floor.name for floor in scenario.floors],
        "device": [device.name for device in scenario.devices],
        "channel": [str(channel) for channel in range(scenario.radio.channels)],
    }
    axes = {key: {name: index for index, name in enumerate(names[key])} for key in TRACE_COLUMNS[kind][:-1]}
    record = _Record(kind, path, axes)
    rounds: list[Floats] = []
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise record.error("is not a regular file. Name a CSV file")
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            header = tuple(next(reader, ()))
            if header != record.columns:
                columns = ",".join(record.columns)
                raise record.error(f"the header must be '{columns}', got {shown(','.join(header))}", line=1)
            for row in reader:
                if row:
                    _place(row, reader.line_num, rounds, record)
    except FileNotFoundError:
        raise record.error("no such file. The path is relative to the scenario") from None
    except IsADirectoryError:
        raise record.error("is a directory. Name a CSV file") from None
    except UnicodeDecodeError:
        raise record.error("not UTF-8. Save the file as UTF-8") from None
    except (OSError, ValueError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise record.error(f"cannot be read: {reason}. Check its permissions and format") from None
    return _complete(rounds, record, scenario.rounds)


def _place(row: list[str], line: int, rounds: list[Floats], record: _Record) -> None:
    """Store the value of one row in the array of its round."""
    columns = record.columns
    if len(row) != len(columns):
        raise record.error(f"has {len(row)} values, the header has {len(columns)}. Correct that line", line=line)
    if not (row[0].isascii() and row[0].isdigit() and len(row[0]) < 12) or int(row[0]) > len(rounds):
        problem = f"round must count up from 0 without gaps, got {shown(row[0])}"
        raise record.error(f"{problem}. Add the missing rounds, or sort the lines", line=line)
    cell = []
    for (key, positions), name in zip(record.axes.items(), row[1:-1], strict=True):
        if name not in positions:
            raise record.error(f"unknown {key}, got {shown(name)}. Known: {_first_names(positions)}", line=line)
        cell.append(positions[name])
    try:
        value = float(row[-1])
    except ValueError:
        value = math.nan
    if not 0.0 <= value < math.inf:
        problem = f"{columns[-1]} must be a number >= 0, got {shown(row[-1])}"
        raise record.error(f"{problem}. Correct that value", line=line)
    if columns[-1] == "gain" and value > 1.0:
        problem = f"gain must be a power ratio <= 1, not dB, got {shown(row[-1])}"
        raise record.error(f"{problem}. Convert with 10^(dB/10)", line=line)
    index = int(row[0])
    if index == len(rounds):
        rounds.append(np.full([len(positions) for positions in record.axes.values()], np.nan))
    if not math.isnan(rounds[index][tuple(cell)]):
        raise record.error(f"{named(', '.join(row[:-1]))} is given twice. Remove one", line=line)
    rounds[index][tuple(cell)] = value


def _complete(rounds: list[Floats], record: _Record, count: int) -> Floats:
    """Join the rounds into one array; rounds or values that are missing raise an error."""
    if len(rounds) < count:
        advice = f"Set rounds = {len(rounds)} or record more" if rounds else f"Record {count} rounds"
        raise record.error(f"has {len(rounds)} rounds, the scenario has {count}. {advice}")
    trace = np.array(rounds)
    gaps = np.argwhere(np.isnan(trace))
    if len(gaps):
        place = zip(record.axes.items(), gaps[0][1:], strict=True)
        first = named(", ".join(f"{key} {list(positions)[index]}" for (key, positions), index in place))
        problem = f"missing values: {len(gaps)}, the first in round {gaps[0][0]} for {first}"
        raise record.error(f"{problem}. Every round needs {trace[0].size} values")
    return trace


def _first_names(names: Iterable[str]) -> str:
    listing = list(names)
    return named(", ".join(listing[:5])) + (", ..." if len(listing) > 5 else "")
