"""Columns of sensor files: CSV with the standard library or, faster, with pyarrow; Parquet with pyarrow."""

__all__ = ["LONGEST_TEXT", "Columns", "Table", "read_table"]

import contextlib
import csv
import importlib
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Floats
from fedfloor.characters import safe_line
from fedfloor.errors import DataError, MissingExtraError, advice_for, named, shown

Texts = npt.NDArray[np.str_]

_ROWS = 65_536  #: rows that are converted at once
_LONGEST = 1 << 20  #: characters of the first line
LONGEST_TEXT = 250  #: characters of a cell with text; all cells of a column take as much memory as the longest
_DELIMITERS = (",", ";", "\t")


@dataclass(frozen=True, slots=True)
class Columns:
    """What is read of every file."""

    channels: tuple[str, ...] | None  #: columns of numbers; None: all but those below
    numbers: tuple[str, ...]  #: further columns of numbers
    texts: tuple[str, ...]  #: columns that are read as they are
    times: tuple[str, ...] = ()  #: columns with a number or a date and time


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of one file."""

    channels: tuple[str, ...]
    values: npt.NDArray[np.float32]  #: (R, C) of the channels
    numbers: dict[str, Floats]  #: (R,) each, also of times
    texts: dict[str, Texts]  #: (R,) each


def read_table(path: Path, columns: Columns) -> Table:
    """Read a CSV or a Parquet file; an error names the file, the line or row, the column and what to do."""
    try:
        return _read_parquet(path, columns) if path.suffix == ".parquet" else _read_csv(path, columns)
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise DataError(f"{named(path)}: {problem}. Check its permissions") from None


# CSV


def _read_csv(path: Path, columns: Columns) -> Table:
    header, delimiter = _header(path)
    channels = _channels(path, header, columns)
    numbers = (*channels, *columns.numbers)
    fast = _fast_columns(path, delimiter, numbers, (*columns.texts, *columns.times))
    arrays = _plain_columns(path, header, delimiter, numbers, columns) if fast is None else fast
    _refuse_empty(path, arrays[channels[0]])
    if delimiter != ",":
        arrays |= {name: np.char.replace(arrays[name], ",", ".") for name in columns.times}
    return _table(path, arrays, channels, columns)


def _refuse_empty(path: Path, column: npt.NDArray[Any]) -> None:
    if len(column) == 0:
        raise DataError(f"{named(path)}: has no rows below its header. Remove it, or fill it")


def _table(path: Path, arrays: dict[str, npt.NDArray[Any]], channels: tuple[str, ...], columns: Columns) -> Table:
    values = np.stack([arrays[name] for name in channels], axis=1).astype(np.float32)
    numbers = {name: arrays[name] for name in columns.numbers}
    times = {name: _seconds(path, name, arrays[name]) for name in columns.times}
    return Table(channels, values, numbers | times, {name: arrays[name] for name in columns.texts})


def _header(path: Path) -> tuple[list[str], str]:
    """Names of the columns, and the character between them: the one that the first line has most of."""
    with _opened(path) as file:
        first = file.readline(_LONGEST)
    if len(first) == _LONGEST:
        raise _wrong_line(path, 1, f"has more than {_LONGEST:,} characters")
    delimiter = max(_DELIMITERS, key=first.count)
    try:
        header = [name.strip() for name in next(csv.reader([first], delimiter=delimiter), [])]
    except csv.Error as error:
        raise _wrong_line(path, 1, error) from None
    if not any(header):
        raise DataError(f"{named(path)}: line 1: has no names of columns. Write them in the first line")
    return header, delimiter


def _channels(path: Path, header: Sequence[str], columns: Columns) -> tuple[str, ...]:
    """Columns of the channels in this file; all columns that are asked for must be there, and once."""
    others = (*columns.numbers, *columns.texts, *columns.times)
    for name in (*(columns.channels or ()), *others):
        if name not in header:
            problem = f"has no column {shown(name)}. {advice_for(name, [entry for entry in header if entry])}"
            raise DataError(f"{named(path)}: {problem} Correct the file, or the names of columns in [data]")
    channels = columns.channels or tuple(name for name in header if name and name not in others)
    double = next((name for name in (*channels, *others) if header.count(name) > 1), None)
    if double is not None:
        raise DataError(f"{named(path)}: has the column {shown(double)} twice. Rename one of them")
    if not channels:
        raise DataError(f"{named(path)}: has no column for a channel. Add one, or name them in data.channels")
    return channels


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """A text file; what is not UTF-8 is reported."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield file
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text: {error.reason}"
        raise DataError(f"{named(path)}: {problem}. Save the file as UTF-8") from None


@contextlib.contextmanager
def _rows(path: Path, delimiter: str) -> Iterator[Iterator[list[str]]]:
    """Cells of every row below the header; empty lines are skipped."""
    with _opened(path) as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            next(reader)
            yield filter(None, reader)
        except csv.Error as error:
            raise _wrong_line(path, reader.line_num, error) from None


def _plain_columns(
    path: Path, header: Sequence[str], delimiter: str, numbers: Sequence[str], columns: Columns
) -> dict[str, npt.NDArray[Any]]:
    """Columns by name, with the standard library."""
    parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in (*numbers, *columns.texts, *columns.times)}
    done = 0  # rows
    with _rows(path, delimiter) as rows:
        while block := list(itertools.islice(rows, _ROWS)):
            if {*map(len, block)} != {len(header)}:
                at = next(at for at, row in enumerate(block) if len(row) != len(header))
                problem = f"has {len(block[at])} cells, the header has {len(header)}"
                raise _wrong_line(path, _line_of(path, delimiter, done + at), problem)
            cells = dict(zip(header, zip(*block, strict=True), strict=True))
            for name, pieces in parts.items():
                if name in numbers:
                    pieces.append(_numbers(path, name, cells[name], delimiter, done))
                else:
                    pieces.append(_texts(path, name, cells[name], delimiter, done))
            done += len(block)
    empty: npt.NDArray[Any] = np.zeros(0)
    return {name: np.concatenate(pieces) if pieces else empty for name, pieces in parts.items()}


def _wrong_line(path: Path, line: int, problem: object) -> DataError:
    return DataError(f"{named(path)}: line {line}: {problem}. Correct this line")


def _line_of(path: Path, delimiter: str, row: int) -> int:
    """Line on which a row below the header ends, for an error message."""
    with _opened(path) as file:
        reader = csv.reader(file, delimiter=delimiter)
        next(reader)
        next(itertools.islice(filter(None, reader), row, None))
        return reader.line_num


def _texts(path: Path, name: str, cells: Sequence[str], delimiter: str, done: int) -> Texts:
    """Texts of a column after `done` rows, without the spaces around them."""
    at = _first_too_long(cells)
    if at is not None:
        raise _too_long(path, f"line {_line_of(path, delimiter, done + at)}", name, cells[at])
    return np.array([cell.strip() for cell in cells])


def _first_too_long(cells: Iterable[str]) -> int | None:
    """Place of the first text that has too many characters."""
    return next((at for at, cell in enumerate(cells) if len(cell) > LONGEST_TEXT), None)


def _too_long(path: Path, place: str, name: str, cell: str) -> DataError:
    problem = f"must have at most {LONGEST_TEXT} characters, got {len(cell):,}: {shown(cell)}"
    return DataError(f"{named(path)}: {place}, column {shown(name)}: {problem}. Shorten it")


def _numbers(path: Path, name: str, cells: Sequence[str], delimiter: str, done: int) -> Floats:
    """Numbers of a column after `done` rows; the decimal sign may be a comma if cells are not separated by one."""
    if delimiter != ",":
        cells = [cell.replace(",", ".") for cell in cells]
    try:
        values = np.array(cells, np.float64)
    except ValueError:
        values = np.array([_number(cell) for cell in cells])
    at = _first_unusable(values)
    if at is not None:
        place = f"line {_line_of(path, delimiter, done + at)}"
        raise _unusable(path, place, name, cells[at])
    return values


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def _first_unusable(values: Floats) -> int | None:
    """Place of the first value that a float32 cannot hold."""
    with np.errstate(over="ignore"):
        wrong = np.flatnonzero(~np.isfinite(values.astype(np.float32)))
    return int(wrong[0]) if wrong.size else None


def _unusable(path: Path, place: str, name: str, cell: object) -> DataError:
    got = "nothing" if cell in ("", None) else shown(cell)
    problem = f"{place}, column {shown(name)}: must be a finite number, got {got}"
    return DataError(f"{named(path)}: {problem}. Fill the gap, or remove the row")


def _fast_columns(
    path: Path, delimiter: str, numbers: Sequence[str], texts: Sequence[str]
) -> dict[str, npt.NDArray[Any]] | None:
    """Columns by name, with pyarrow; None without it, and if there is anything in the file that needs a closer look."""
    try:
        arrow, reader = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.csv")
    except ImportError:
        return None
    kinds = dict.fromkeys(numbers, arrow.float64()) | dict.fromkeys(texts, arrow.string())
    try:
        with path.open("rb") as file:  # pyarrow cannot open every name that a file may have
            if sum(piece.count(b'"') for piece in iter(lambda: file.read(_LONGEST), b"")) % 2:
                return None  # a quotation without an end, which pyarrow takes for a long text
            file.seek(0)
            table = reader.read_csv(
                file,
                read_options=reader.ReadOptions(use_threads=False),
                parse_options=reader.ParseOptions(delimiter=delimiter),
                convert_options=reader.ConvertOptions(column_types=kinds, include_columns=[*numbers, *texts]),
            )
    except (arrow.ArrowException, KeyError, OSError):
        return None
    columns: dict[str, npt.NDArray[Any]] = {}
    for name in (*numbers, *texts):
        column = table[name].to_numpy()
        if name in numbers and (table[name].null_count or _first_unusable(column) is not None):
            return None
        if name in texts and _first_too_long(column) is not None:
            return None
        columns[name] = column if name in numbers else np.char.strip(column.astype(np.str_))
    return columns


# Parquet


def _read_parquet(path: Path, columns: Columns) -> Table:
    try:
        arrow, reader = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtraError(f"{named(path)}: reading Parquet files", "files") from None
    try:
        with path.open("rb") as file:  # pyarrow cannot open every name that a file may have
            header = list(reader.read_schema(file).names)
            channels = _channels(path, header, columns)
            numbers = (*channels, *columns.numbers)
            others = (*columns.texts, *columns.times)
            table = reader.read_table(file, columns=[*numbers, *others], use_threads=False)
    except (arrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        problem = f"cannot be read as a Parquet file: {safe_line(error, 200).rstrip('.')}"
        raise DataError(f"{named(path)}: {problem}. Write it again") from None
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name in numbers:
        column = table[name].to_numpy()
        if column.dtype.kind not in "buif" and not table[name].null_count:
            problem = f"column {shown(name)}: must be numbers, got {table[name].type}"
            raise DataError(f"{named(path)}: {problem}. Convert it, or leave it out with data.channels")
        if table[name].null_count:
            cells = table[name].to_pylist()
            raise _unusable(path, f"row {cells.index(None)}", name, None)
        arrays[name] = np.asarray(column, np.float64)
        at = _first_unusable(arrays[name])
        if at is not None:
            raise _unusable(path, f"row {at}", name, float(column[at]))
    _refuse_empty(path, arrays[channels[0]])
    for name in others:
        arrays[name] = _parquet_texts(path, name, table[name], arrow)
    return _table(path, arrays, channels, columns)


def _parquet_texts(path: Path, name: str, column: Any, arrow: Any) -> npt.NDArray[Any]:
    """A column as texts, whole numbers without a point; dates and times as they are."""
    if column.null_count:
        at = column.to_pylist().index(None)
        raise DataError(f"{named(path)}: row {at}, column {shown(name)}: is empty. Fill the gap, or remove the row")
    values = column.to_numpy()
    if values.dtype.kind == "M":
        return np.asarray(values.astype("datetime64[us]").astype(np.str_))
    if values.dtype.kind == "f" and (at := _first_unusable(values)) is not None:
        raise _unusable(path, f"row {at}", name, float(values[at]))
    if values.dtype.kind == "f" and np.array_equal(values, np.rint(values)):
        is_short = np.abs(values).max(initial=0.0) < 2.0**63
        values = values.astype(np.int64) if is_short else np.array([f"{value:.0f}" for value in values.tolist()])
    if values.dtype.kind == "O":
        try:
            values = column.cast(arrow.string()).to_numpy()
        except arrow.ArrowException:
            problem = f"column {shown(name)}: must be text or numbers, got {column.type}"
            raise DataError(f"{named(path)}: {problem}. Convert it") from None
        if (at := _first_too_long(values)) is not None:
            raise _too_long(path, f"row {at}", name, values[at])
    return np.asarray(np.char.strip(values.astype(np.str_)))


def _seconds(path: Path, name: str, texts: npt.NDArray[Any]) -> Floats:
    """Times as numbers; they are numbers already, or dates with times of day as ISO 8601 writes them."""
    with contextlib.suppress(ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # times with an offset, which numpy converts, but would rather not
        try:
            seconds = texts.astype(np.float64)
        except ValueError:
            times = np.char.replace(texts, "Z", "").astype("datetime64[us]")
            seconds = np.where(np.isnat(times), np.nan, times.astype(np.int64) / 1e6)
        if np.isfinite(seconds).all():
            return np.asarray(seconds, np.float64)
    at = next((at for at, text in enumerate(texts.tolist()) if not _is_time(text)), 0)
    got = shown(texts[at].item()) if texts[at] else "nothing"
    problem = f"must be a number, or a time such as 2026-03-01T12:00:00, got {got}"
    place = f"row {at + 1} below the header" if path.suffix == ".csv" else f"row {at}"
    advice = "Correct it, or leave data.time_column out"
    raise DataError(f"{named(path)}: {place}, column {shown(name)}: {problem}. {advice}")


def _is_time(text: str) -> bool:
    with contextlib.suppress(ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return not np.isnat(np.datetime64(text.replace("Z", ""), "us"))
    return math.isfinite(_number(text))
