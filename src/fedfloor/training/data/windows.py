"""Sensor files to samples: rows of a recording become windows, and recordings go to training or to the test set."""

__all__ = ["TEST", "TRAINING", "Windows", "check_windows", "read_windows", "sides"]

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Bools, Floats, Ints
from fedfloor.errors import DataError, named, shown
from fedfloor.scenario.data import READING_KEYS, Data
from fedfloor.training.data.kept import Arrays, kept_arrays
from fedfloor.training.data.paths import NamedFile, matching
from fedfloor.training.data.samples import drawn_for_test
from fedfloor.training.data.tables import Columns, Table, read_table

TRAINING, TEST, NEITHER = 0, 1, 2  #: sides of a window
_LARGEST = float(np.finfo(np.float32).max)  #: number to predict


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Samples of sensor files, and where each comes from."""

    samples: npt.NDArray[np.float32]  #: (D, C, W), or (D, C) if every row is a sample
    labels: npt.NDArray[np.str_] | Floats  #: (D,) names of classes, or numbers to predict
    holders: npt.NDArray[np.str_]  #: (D,) devices; empty texts if the files do not say them
    recordings: Ints  #: (D,) number of the recording
    begins: Ints  #: (D,) first row in the part of the recording that has the same label
    ends: Ints  #: (D,) row after the last one
    lengths: Ints  #: (D,) rows of that part
    files: Ints  #: (D,) number of the file


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Rows of one recording that follow each other; they have the same label, unless a column numbers windows."""

    rows: Ints  #: numbers of rows in the file
    recording: int  #: in the file
    holder: str


def read_windows(
    files: Sequence[NamedFile], data: Data, *, predicts: bool, only: str | None, on_file: Callable[[int], None]
) -> Windows:
    """Read all files and cut them into windows; of one device, if `only` names it.

    If `predicts`, labels are numbers to predict, and that of a window is the one of its last row. `on_file` is told
    how many files have been read.
    """
    settings = [data.model_dump(mode="json", include={"name", *READING_KEYS}), predicts, only]
    arrays = kept_arrays(settings, [file.path for file in files], lambda: _read(files, data, predicts, only, on_file))
    return Windows(**arrays)


def _read(
    files: Sequence[NamedFile], data: Data, predicts: bool, only: str | None, on_file: Callable[[int], None]
) -> Arrays:
    columns, pieces, recordings = _columns(data, predicts), [], dict[tuple[object, ...], int]()
    for number, file in enumerate(files):
        table = read_table(file.path, columns)
        columns = _with_channels(columns, table)
        piece = _Cutting(file, table, data, predicts).windows(only)
        if piece is not None:
            piece["recordings"] = _among_all(piece, file, number, recordings)
            piece["files"] = np.full(len(piece["labels"]), number)
            pieces.append(piece)
        on_file(number + 1)
    if not pieces:
        problem = f"no row names the device {shown(only)}"
        raise DataError(f"data {named(data.name)}: {problem}. Correct the files, or data.device_column")
    _refuse_other_lengths(files, pieces)
    return {key: np.concatenate([piece[key] for piece in pieces]) for key in pieces[0]}


def _among_all(piece: Arrays, file: NamedFile, number: int, known: dict[tuple[object, ...], int]) -> Ints:
    """Numbers of the recordings of a file among those of all files, without gaps; `known` gets the new ones.

    Files whose paths say the same recording of a device, and the same label if they say one, share its number.
    """
    name, label = file.fields.get("recording"), file.fields.get("label")
    own, first, places = np.unique(piece["recordings"], return_index=True, return_inverse=True)
    holders = piece["holders"][first].tolist()
    keys = [
        (number, entry) if name is None else (name, holder, label) for entry, holder in zip(own, holders, strict=True)
    ]
    return np.array([known.setdefault(key, len(known)) for key in keys])[places]


def check_windows(files: Sequence[NamedFile], data: Data, *, predicts: bool) -> Iterator[int | DataError]:
    """Windows of every file, each read by itself, or what is wrong with it; the channels are those of the first."""
    columns = _columns(data, predicts)
    for file in files:
        try:
            table = read_table(file.path, columns)
            columns = _with_channels(columns, table)
            piece = _Cutting(file, table, data, predicts).windows(None)
            yield 0 if piece is None else len(piece["labels"])
        except DataError as error:
            yield error


def _with_channels(columns: Columns, table: Table) -> Columns:
    """The columns that are read of further files: with the channels of this one."""
    return Columns(table.channels, columns.numbers, columns.texts, columns.times)


def _columns(data: Data, predicts: bool) -> Columns:
    """Columns to read; what the path of a file says needs none."""
    label = () if data.column_of_labels is None else (data.column_of_labels,)
    others = (data.device_column, data.recording_column, data.window_column)
    texts = tuple(column for column in others if column is not None)
    times = () if data.time_column is None else (data.time_column,)
    return Columns(data.channels, label if predicts else (), texts if predicts else (*label, *texts), times)


class _Cutting:
    """One file that is cut into windows."""

    def __init__(self, file: NamedFile, table: Table, data: Data, predicts: bool) -> None:
        self._file, self._table, self._data, self._predicts = file, table, data, predicts
        self._count = len(table.values)
        self._labels = self._all_labels()

    def windows(self, only: str | None) -> Arrays | None:
        """All windows of the file; None if none of its rows is of the device `only`."""
        parts = [part for part in self._parts() if only is None or part.holder == only]
        if not parts:
            return None
        pieces = [piece for part in parts if (piece := self._of_part(part)) is not None]
        if not pieces:
            longest, window = max(part.rows.size for part in parts), self._data.window
            problem = f"has at most {longest:,} rows of one recording and label in a row, but data.window is {window:,}"
            raise DataError(f"{named(self._file.path)}: {problem}. Lower data.window, or remove the file")
        return {key: np.concatenate([piece[key] for piece in pieces]) for key in pieces[0]}

    def _all_labels(self) -> npt.NDArray[Any]:
        """Label of every row."""
        column = self._data.column_of_labels
        if column is not None:
            labels = self._table.numbers[column] if self._predicts else self._table.texts[column]
            self._refuse_empty(labels, column)
            return labels
        text = self._file.fields["label"]
        if not self._predicts:
            return np.full(self._count, text)
        with contextlib.suppress(ValueError):
            if abs(float(text)) <= _LARGEST:
                return np.full(self._count, float(text))
        must = f"must be a number up to {_LARGEST:.1e} with training.task = 'regression'"
        problem = f"{{label}} in data.name {must}, got {shown(text)}"
        raise DataError(f"{named(self._file.path)}: {problem}. Rename the file, or name a column with the number")

    def _refuse_empty(self, texts: npt.NDArray[Any], column: str) -> None:
        empty = np.flatnonzero(texts == "") if texts.dtype.kind == "U" else np.zeros(0, int)
        if empty.size:
            place = f"row {empty[0] + 1} below the header" if self._file.path.suffix == ".csv" else f"row {empty[0]}"
            problem = f"{place}, column {shown(column)}: is empty"
            raise DataError(f"{named(self._file.path)}: {problem}. Fill the gap, or remove the row")

    def _column(self, column: str | None, field: str) -> npt.NDArray[np.str_]:
        """Texts of a column for every row, or of a field of the path; empty ones if there is neither."""
        if column is None:
            return np.full(self._count, self._file.fields.get(field, ""))
        texts = self._table.texts[column]
        self._refuse_empty(texts, column)
        return texts

    def _parts(self) -> Iterator[_Part]:
        """Parts of the file with one device, recording and label each, in the order of time."""
        data = self._data
        holders = self._column(data.device_column, "device")
        recordings = self._column(data.recording_column, "recording")
        groups = np.unique(np.stack([holders, recordings], axis=1), axis=0, return_inverse=True)[1].ravel()
        for recording in range(int(groups.max()) + 1):
            rows = np.flatnonzero(groups == recording)
            if data.time_column is not None:
                rows = rows[np.argsort(self._table.numbers[data.time_column][rows], kind="stable")]
            labels = self._labels[rows]
            whole = self._predicts or data.window_column is not None  # which says itself where windows end
            breaks = [] if whole else (np.flatnonzero(labels[1:] != labels[:-1]) + 1).tolist()
            for part in np.split(rows, breaks):
                yield _Part(part, recording, str(holders[rows[0]]))

    def _of_part(self, part: _Part) -> Arrays | None:
        """Windows of one part; None if it is shorter than a window."""
        data, length = self._data, part.rows.size
        if data.window_column is not None:
            begins, ends = self._numbered(part, data.window_column)
        else:
            window = data.window or 1
            begins = np.arange(0, length - window + 1, data.step or window)
            ends = begins + window
        if begins.size == 0:
            return None
        values = self._table.values[part.rows]  # (r, C)
        if data.window is None and data.window_column is None:
            samples = values
        else:
            samples = np.stack(
                [values[b:e].T for b, e in zip(begins.tolist(), ends.tolist(), strict=True)]
            )  # (d, C, W)
        count, labels, lengths = begins.size, self._labels[part.rows][ends - 1], np.full(begins.size, length)
        if data.window_column is not None and not self._predicts:
            begins, ends, lengths = self._of_labels(labels, ends - begins)
        return {
            "samples": samples,
            "labels": labels,
            "holders": np.full(count, part.holder),
            "recordings": np.full(count, part.recording),
            "begins": begins,
            "ends": ends,
            "lengths": lengths,
        }

    def _of_labels(self, labels: npt.NDArray[np.str_], sizes: Ints) -> tuple[Ints, Ints, Ints]:
        """Rows of windows among those of the same label, and how many rows these have: (d,) each."""
        begins, lengths = np.empty_like(sizes), np.empty_like(sizes)
        for label in np.unique(labels):
            those = np.flatnonzero(labels == label)
            begins[those] = np.cumsum(sizes[those]) - sizes[those]
            lengths[those] = sizes[those].sum()
        return begins, begins + sizes, lengths

    def _numbered(self, part: _Part, column: str) -> tuple[Ints, Ints]:
        """First row and end of the windows that a column numbers; all must have the same length."""
        numbers = self._column(column, "")[part.rows]
        begins = np.concatenate([[0], np.flatnonzero(numbers[1:] != numbers[:-1]) + 1])
        ends = np.append(begins[1:], numbers.size)
        names = numbers[begins]
        double = next((name for name in names.tolist() if np.count_nonzero(names == name) > 1), None)
        if double is not None:
            problem = f"column {shown(column)}: the rows of window {shown(double)} do not follow each other"
            raise DataError(f"{named(self._file.path)}: {problem}. Sort the file, or set data.time_column")
        sizes = ends - begins
        other = np.flatnonzero(sizes != sizes[0])
        if other.size:
            which = f"window {shown(str(names[other[0]]))} has {sizes[other[0]]} rows"
            problem = f"{which}, window {shown(str(names[0]))} has {sizes[0]}"
            advice = "Give all windows the same length, or set data.window in place of data.window_column"
            raise DataError(f"{named(self._file.path)}: column {shown(column)}: {problem}. {advice}")
        labels = self._labels[part.rows]
        mixed = next((b for b, e in zip(begins, ends, strict=True) if np.any(labels[b:e] != labels[b])), None)
        if mixed is not None and not self._predicts:
            problem = f"window {shown(str(numbers[mixed]))} has rows of several labels"
            raise DataError(f"{named(self._file.path)}: column {shown(column)}: {problem}. Give it one label")
        return begins, ends


def _refuse_other_lengths(files: Sequence[NamedFile], pieces: Sequence[Arrays]) -> None:
    first = pieces[0]["samples"].shape[1:]
    for piece in pieces:
        shape = piece["samples"].shape[1:]
        if shape != first:
            path, other = files[int(piece["files"][0])].path, files[int(pieces[0]["files"][0])].path
            problem = f"its windows have {shape[-1]} rows, those of {other.name} have {first[-1]}"
            raise DataError(f"{named(path)}: {problem}. Give all windows the same length")


# Training and test


def sides(
    windows: Windows, files: Sequence[Path], data: Data, rng: np.random.Generator, *, is_part: bool = False
) -> Ints:
    """Side of every window (D,): training, test, or neither. No recording is on both sides, unless by time.

    By time, the end of every part of a recording with one label is the test set; windows across the border are left
    out. With `is_part` only some of the files are here, so that all of them may be on one side.
    """
    if data.test_files is not None:
        return _by_files(windows, files, data.test_files, is_part)
    share = data.share_of_test
    if data.test_by == "time":
        border = np.ceil(windows.lengths * (1.0 - share)).astype(np.int64)
        return np.where(windows.ends <= border, TRAINING, np.where(windows.begins >= border, TEST, NEITHER))
    return np.where(_drawn(windows, files, share, rng)[windows.recordings], TEST, TRAINING)


def _by_files(windows: Windows, files: Sequence[Path], pattern: str, is_part: bool) -> Ints:
    is_test = np.array(matching(pattern, list(files)))
    if not is_test.any() and not is_part:
        problem = f"matches none of the {len(files)} files that data.name matches"
        raise DataError(f"data.test_files {named(pattern)}: {problem}. Correct one of the two")
    if is_test.all() and not is_part:
        problem = f"matches all {len(files)} files, so that none is left for training"
        raise DataError(f"data.test_files {named(pattern)}: {problem}. Correct one of the two")
    return np.where(is_test[windows.files], TEST, TRAINING)


def _drawn(windows: Windows, files: Sequence[Path], share: float, rng: np.random.Generator) -> Bools:
    """Recordings (R,) of the test set: a share of those of every label, drawn at random, at least one of each.

    A recording with several labels counts for its first one; numbers to predict count as one label.
    """
    first = np.unique(windows.recordings, return_index=True)[1]  # a window of every recording
    labels = windows.labels[first] if windows.labels.dtype.kind == "U" else np.zeros(first.size)
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    for label, those in zip(np.unique(labels), classes, strict=True):
        if those.size < 2:
            what = f"label {shown(str(label))} has" if windows.labels.dtype.kind == "U" else "there is"
            file = named(files[int(windows.files[first[those[0]]])])
            problem = f"{file}: {what} only one recording, so that training and test cannot both have one"
            advice = 'Add a recording, or set data.test_by = "time" to test on the end of every recording'
            raise DataError(f"{problem}. {advice}")
    chosen = np.zeros(first.size, bool)
    chosen[drawn_for_test(classes, share, rng)] = True
    return chosen
