"""Samples of a plant's own files: sensor files in CSV or Parquet, or folders of pictures."""

__all__ = ["CheckedFile", "OnStep", "Recorded", "check_recorded", "read_recorded"]

import math
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Ints
from fedfloor.errors import DataError, advice_for, named, shown
from fedfloor.scenario.resolved import Scenario
from fedfloor.streams import key_stream
from fedfloor.training.data.paths import MissingFilesError, NamedFile, named_files
from fedfloor.training.data.pictures import check_pictures, read_pictures
from fedfloor.training.data.tables import LONGEST_TEXT
from fedfloor.training.data.windows import TEST, TRAINING, check_windows, read_windows, sides

#: told how much has been read, as in "3 of 40 files"
OnStep: TypeAlias = Callable[[str], None]

#: samples, labels, holders and sides, all of length D, and which files they are from
_Read: TypeAlias = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[np.str_], Ints, str]


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """Samples of files, separated into training and test."""

    samples: npt.NDArray[Any]  #: (D, ...) for training
    labels: npt.NDArray[Any]  #: (D,) numbers of classes, or numbers to predict
    holders: npt.NDArray[np.str_]  #: (D,) devices; empty texts if the files do not say them
    test_samples: npt.NDArray[Any]  #: (D', ...)
    test_labels: npt.NDArray[Any]  #: (D',)
    origin: str  #: which files these are
    classes: tuple[str, ...]  #: names of the classes by number; empty if numbers are predicted


def read_recorded(
    scenario: Scenario, *, only: str | None = None, is_part: bool = False, on_step: OnStep = lambda _: None
) -> Recorded:
    """Read the files of a scenario; of one device, if `only` names it.

    With `is_part` the files on this machine are a part of those that the scenario names, as on real machines.
    """
    data, predicts = scenario.data, scenario.training.predicts_numbers
    if data.kind == "images":
        samples, labels, holders, side, origin = _pictures(scenario, only, on_step)
    else:
        samples, labels, holders, side, origin = _windows(scenario, only, is_part, on_step)
    if data.says_holders and not is_part:
        _refuse_strangers(scenario, holders if data.test_files is None else holders[side == TRAINING])
    numbers, classes = (labels.astype(np.float32), ()) if predicts else _numbered(labels, scenario)
    training, test = side == TRAINING, side == TEST
    for count, what in ((training.sum(), "training"), (test.sum(), "the test set")):
        if count == 0 and not is_part:
            problem = f"no sample is left for {what}"
            raise DataError(f"data {named(data.name)}: {problem}. Change how the test set is separated (docs/data.md)")
    return Recorded(
        samples[training], numbers[training], holders[training], samples[test], numbers[test], origin, classes
    )


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file that was read by itself."""

    path: Path
    samples: int
    problem: str | None  #: what is wrong with it and what to do; None if nothing is


def check_recorded(scenario: Scenario, *, on_step: OnStep = lambda _: None) -> tuple[CheckedFile, ...]:
    """Read every file of a scenario by itself, so that all that are wrong are found, and not only the first."""
    data, files = scenario.data, _files(scenario, None)
    if data.kind == "images":
        paths, results = check_pictures(files, data, tuple(scenario.model.input))
    else:
        paths = [file.path for file in files]
        results = check_windows(files, data, predicts=scenario.training.predicts_numbers)
    checked = []
    for path, result in zip(paths, results, strict=True):
        counted = (0, str(result)) if isinstance(result, DataError) else (result, None)
        checked.append(CheckedFile(path, *counted))
        on_step(f"{len(checked):,} of {len(paths):,} files")
    return tuple(checked)


def _files(scenario: Scenario, only: str | None) -> list[NamedFile]:
    """Files or folders of all devices, or of one if their paths say the device."""
    data = scenario.data
    files = named_files(data.name, folders=data.kind == "images")
    if only is None or "{device}" not in data.name:
        return files
    own = [file for file in files if file.fields["device"] == only]
    if not own:
        place = data.name.replace("{device}", only)
        raise MissingFilesError(
            f"data {named(place)}: no file matches it. Add the files of this device, or rename them"
        )
    return own


def _pictures(scenario: Scenario, only: str | None, on_step: OnStep) -> _Read:
    data = scenario.data
    if scenario.training.predicts_numbers:
        problem = "is a folder of pictures, which has classes and no numbers to predict"
        raise DataError(f"data {named(data.name)}: {problem}. Leave training.task out, or bring your own function")
    read = read_pictures(
        _files(scenario, only),
        data,
        tuple(scenario.model.input),
        scenario.seed_of_plant,
        on_file=lambda done, total: on_step(f"{done:,} of {total:,} pictures"),
    )
    origin = f"{len(read.labels):,} pictures in {named(data.name)}"
    return read.samples, read.labels, read.holders, np.where(read.is_test, TEST, TRAINING), origin


def _windows(scenario: Scenario, only: str | None, is_part: bool, on_step: OnStep) -> _Read:
    data, files = scenario.data, _files(scenario, only)
    if is_part and data.test_files is None and data.test_by != "time":
        problem = "must be given on real machines: no machine has all recordings to draw the test set from"
        raise DataError(f'data.test_files: {problem}. Name the test files, or set data.test_by = "time"')
    windows = read_windows(
        files,
        data,
        predicts=scenario.training.predicts_numbers,
        only=only,
        on_file=lambda done: on_step(f"{done} of {len(files)} files"),
    )
    rng = key_stream(scenario.seed_of_plant, "data.test")
    side = sides(windows, [file.path for file in files], data, rng, is_part=is_part)
    origin = f"{len(files)} {'file' if len(files) == 1 else 'files'} {named(data.name)}"
    return _shaped(windows.samples, scenario), windows.labels, windows.holders, side, origin


def _shaped(samples: npt.NDArray[np.float32], scenario: Scenario) -> npt.NDArray[np.float32]:
    """Samples as the network takes them: windows (channels, rows), or the channels of a row in any shape."""
    wanted, size = tuple(scenario.model.input), math.prod(samples.shape[1:])
    by_channel = samples.ndim == 2 or wanted[0] == samples.shape[1]
    if math.prod(wanted) != size or not by_channel:
        got = f"{samples.shape[1]} channels"
        got += f" and windows of {samples.shape[2]} rows" if samples.ndim == 3 else " in a row"
        problem = f"must be {list(samples.shape[1:])}, because the files have {got}; got {list(wanted)}"
        raise DataError(f"model.input: {problem}. Change it, or data.channels and data.window")
    return samples.reshape(len(samples), *wanted)


def _refuse_strangers(scenario: Scenario, holders: npt.NDArray[np.str_]) -> None:
    """Refuse devices that are not in the scenario, whatever side their recordings are drawn for."""
    names = [device.name for device in scenario.devices]
    for holder in np.unique(holders).tolist():
        if holder not in names:
            problem = f"names the device {shown(holder)}, which is not in the scenario. {advice_for(holder, names)}"
            raise DataError(f"data {named(scenario.data.name)}: {problem} Rename one of the two, or add the device")


def _refuse_label(scenario: Scenario, label: str) -> None:
    """Refuse a class whose name cannot be written and shown."""
    if len(label) > LONGEST_TEXT or any(unicodedata.category(sign) in ("Cc", "Cs") for sign in label):
        problem = f"a label must have at most {LONGEST_TEXT} characters and no control characters, got {shown(label)}"
        raise DataError(f"data {named(scenario.data.name)}: {problem}. Rename it in the files or their names")


def _numbered(labels: npt.NDArray[np.str_], scenario: Scenario) -> tuple[Ints, tuple[str, ...]]:
    """Numbers of the classes of all samples, and the names of the classes by number."""
    data, classes = scenario.data, scenario.model.classes
    values, codes = np.unique(labels, return_inverse=True)
    names: list[str] = values.tolist()
    for name in names:
        _refuse_label(scenario, name)
    if data.labels is None and all(name.isdecimal() and int(name) < classes for name in names):
        known, numbers = tuple(map(str, range(classes))), np.array([int(name) for name in names])
    else:
        known = tuple(names) if data.labels is None else data.labels
        other = next((name for name in names if name not in known), None)
        if other is not None:
            problem = f"{shown(other)} occurs in the files, but is not in the list. {advice_for(other, known)}"
            raise DataError(f"data.labels: {problem} Add it, or correct the files")
        numbers = np.array([known.index(name) for name in names])
    if len(known) != classes:
        some = ", ".join(shown(name) for name in known[:12])
        more = f" and {len(known) - 12} more" if len(known) > 12 else ""
        problem = f"must be {len(known)}, because the data has the labels {some}{more}; got {classes}"
        advice = "Change it, correct the labels, or list all classes in data.labels"
        raise DataError(f"model.classes: {problem}. {advice}")
    return numbers[codes].astype(np.int64), known
