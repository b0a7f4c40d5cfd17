"""Data of a scenario, divided among its devices."""

__all__ = [
    "HeldBy",
    "Holding",
    "HoldingTable",
    "ShortOf",
    "ShortageTable",
    "gather",
    "held_out",
    "share_of",
    "shortage_of",
]

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Floats, Ints
from fedfloor.errors import DataError, named
from fedfloor.references import find_reference, is_users, where_raised
from fedfloor.scenario.resolved import Device, Scenario
from fedfloor.streams import key_stream
from fedfloor.training.data.checking import checked_pair
from fedfloor.training.data.partition import Wish, by_classes, by_shards, dirichlet, iid
from fedfloor.training.data.paths import MissingFilesError
from fedfloor.training.data.recorded import OnStep, Recorded, read_recorded
from fedfloor.training.data.samples import Samples
from fedfloor.training.data.sources import load_dataset, refuse_missing

_NAMED = 5  #: devices that a message names; of more it says how many


class ShortOf(TypedDict):
    """Number of samples that a device asks for, and number that it holds."""

    floor: str
    name: str
    asked: int
    held: int


class HeldBy(ShortOf):
    """Samples that one device holds."""

    classes: list[int]  #: number of samples of every class


class HoldingTable(TypedDict):
    """Samples of every device, as stored in `holding.json`."""

    data: str
    origin: str
    partition: str | None
    test_samples: int
    labels: NotRequired[list[str]]  #: names of the classes by number, if files name them
    devices: list[HeldBy]


class ShortageTable(TypedDict):
    """Devices that will hold fewer samples than they ask for, if the data could be read."""

    origin: str | None  #: where the data comes from
    reason: str | None  #: why the data was not read
    devices: list[ShortOf] | None  #: None if the data was not read


@dataclass(frozen=True, slots=True, eq=False)
class Holding:
    """Samples of all devices, and a scenario that says how many each device really holds."""

    samples: Samples
    scenario: Scenario
    origin: str  #: where the data comes from
    histogram: Ints  #: (N, C) samples per device and class; (N, 1) if numbers are predicted
    classes: tuple[str, ...] = ()  #: names of the classes by number, if files name them

    def table(self) -> HoldingTable:
        """Floor of every device, the samples that it asks for, and those that it holds of every class."""
        own = self.scenario.data.says_holders  # what a device holds is then what it asks for
        table: HoldingTable = {
            "data": self.scenario.data.name,
            "origin": self.origin,
            "partition": None if own else self.scenario.data.partition,
            "test_samples": int(self.samples.test_labels.size),
            "devices": [
                {
                    "floor": floor,
                    "name": device.name,
                    "asked": int(row.sum()) if own else device.samples,
                    "held": int(row.sum()),
                    "classes": row.tolist(),
                }
                for (floor, device), row in zip(_places(self.scenario), self.histogram, strict=True)
            ],
        }
        if self.classes:
            table["labels"] = list(self.classes)
        return table


@dataclass(frozen=True, slots=True, eq=False)
class _Whole:
    """All data of a scenario, and who holds what."""

    images: Any  #: (D, ...)
    labels: Any  #: (D,)
    shares: Sequence[Ints]  #: sample numbers of every device
    test_images: Any  #: (D', ...)
    test_labels: Any  #: (D',)
    origin: str
    classes: tuple[str, ...] = ()  #: names by number, if files name them


def gather(scenario: Scenario, folder: Path | None = None, *, on_step: OnStep = lambda _: None) -> Holding:
    """Load a scenario's data and divide it; if classes run out, devices hold fewer samples than they ask for.

    `on_step` is told how many files of the scenario have been read.
    """
    whole = _whole(scenario, folder, on_step)
    shares = whole.shares
    _refuse_empty(scenario, shares)
    _refuse_other_kind(scenario, whole.images)
    numbers = np.concatenate(shares)  # samples that no device holds are dropped
    first = np.concatenate([[0], np.cumsum([share.size for share in shares])])
    mean, deviation = _scale(whole.images)
    samples = Samples(
        images=whole.images[numbers],
        labels=whole.labels[numbers],
        first=first,
        held=np.arange(numbers.size),
        test_images=whole.test_images,
        test_labels=whole.test_labels,
        mean=mean,
        deviation=deviation,
    )
    counts = [share.size for share in shares]
    if scenario.training.predicts_numbers:
        histogram = np.array(counts)[:, np.newaxis]
    else:
        histogram = np.array([np.bincount(whole.labels[each], minlength=scenario.model.classes) for each in shares])
    return Holding(samples, _with_counts(scenario, counts), whole.origin, histogram, whole.classes)


def _whole(scenario: Scenario, folder: Path | None, on_step: OnStep) -> _Whole:
    refuse_missing(folder)
    kind, name = scenario.data.kind, scenario.data.name
    if kind == "own":
        return _own(scenario)
    if kind == "built-in":
        data_set = load_dataset(name, folder)
        shares = _shares(scenario, data_set.train_labels)
        train, test = (data_set.train_images, data_set.train_labels), (data_set.test_images, data_set.test_labels)
        return _Whole(*train, shares, *test, data_set.origin)
    read = read_recorded(scenario, on_step=on_step)
    shares = _said_shares(scenario, read) if scenario.data.says_holders else _shares(scenario, read.labels)
    return _Whole(read.samples, read.labels, shares, read.test_samples, read.test_labels, read.origin, read.classes)


def _said_shares(scenario: Scenario, read: Recorded) -> list[Ints]:
    """Sample numbers of every device, as the files say them."""
    return [np.flatnonzero(read.holders == device.name) for device in scenario.devices]


def share_of(scenario: Scenario, device: str, folder: Path | None = None) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Samples and labels of one device for training, as a machine with only the files of that device reads them."""
    refuse_missing(folder)
    if scenario.data.says_holders and scenario.data.kind != "own":
        read = read_recorded(scenario, only=device, is_part=True)
        return read.samples, read.labels
    samples = gather(scenario, folder).samples
    numbers = samples.of_device([entry.name for entry in scenario.devices].index(device))
    return samples.images[numbers], samples.labels[numbers]


def held_out(scenario: Scenario, folder: Path | None = None) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
    """Samples and labels of the test set; None if the data is not on this machine and no folder is named."""
    refuse_missing(folder)
    try:
        if scenario.data.kind == "own":
            return None
        if scenario.data.kind == "built-in":
            data_set = load_dataset(scenario.data.name, folder)
            return data_set.test_images, data_set.test_labels
        read = read_recorded(scenario, is_part=scenario.data.says_holders)
    except DataError as error:
        if folder is not None or not (scenario.data.kind == "built-in" or isinstance(error, MissingFilesError)):
            raise
        return None
    return read.test_samples, read.test_labels


def shortage_of(scenario: Scenario, folder: Path | None = None) -> ShortageTable:
    """Devices that will hold fewer samples than they ask for; missing data raises only if a folder is named."""
    refuse_missing(folder)
    name, kind = scenario.data.name, scenario.data.kind
    if kind == "own":
        return {"origin": None, "reason": f"{name} is only called when `fedfloor run` trains", "devices": None}
    try:
        whole = _whole(scenario, folder, lambda _: None)
    except DataError as error:
        if folder is not None or kind != "built-in":
            raise
        return {"origin": None, "reason": str(error), "devices": None}
    _refuse_empty(scenario, whole.shares)
    devices: list[ShortOf] = [
        {"floor": floor, "name": device.name, "asked": device.samples, "held": share.size}
        for (floor, device), share in zip(_places(scenario), whole.shares, strict=True)
        if share.size < device.samples and not scenario.data.says_holders
    ]
    return {"origin": whole.origin, "reason": None, "devices": devices}


def _places(scenario: Scenario) -> list[tuple[str, Device]]:
    """Every device with the name of its floor."""
    return [(floor.name, device) for floor in scenario.floors for device in floor.devices]


def _refuse_empty(scenario: Scenario, shares: Sequence[Ints]) -> None:
    """Refuse devices without samples, all of them at once."""
    empty = [device.name for device, share in zip(scenario.devices, shares, strict=True) if share.size == 0]
    if not empty:
        return
    more = f" and {len(empty) - _NAMED} more devices" if len(empty) > _NAMED else ""
    holds = f"{', '.join(empty[:_NAMED])}{more} {'holds' if len(empty) == 1 else 'hold'} no samples"
    if scenario.data.kind == "own":
        raise DataError(f"data '{scenario.data.name}': {holds}. Return at least one for every device")
    if scenario.data.says_holders:
        problem = f"{holds} for training: the files do not name {'it' if len(empty) == 1 else 'them'}"
        advice = "Add files or rows of these devices, or rename the devices in the scenario"
        raise DataError(f"data {named(scenario.data.name)}: {problem}, or only in the test set. {advice}")
    advice = "Lower the samples of other devices, or give them other classes"
    raise DataError(f"{scenario.data.name}: {holds}: the classes ran out. {advice}")


def _refuse_other_kind(scenario: Scenario, images: npt.NDArray[np.generic]) -> None:
    """Refuse samples that cut 0 would send in another way than costs count: pictures as they are, others rounded.

    A scenario that does not say what its samples are is refused only if that makes a difference.
    """
    pictures, costs = images.dtype == np.uint8, scenario.data.holds_pictures
    told = scenario.data.pictures is not None
    counts = scenario.precision.boundary < 32 or any(device.link is not None for device in scenario.devices)
    if pictures != costs and (told or counts):
        problem = f"data.pictures: is {'true' if costs else 'false'}, but samples are {images.dtype}"
        advice = "Set data.pictures = true, or return float32" if pictures else "Return uint8, or leave the key out"
        raise DataError(f"data '{scenario.data.name}': {problem}. {advice}")


def _shares(scenario: Scenario, labels: npt.NDArray[Any]) -> list[Ints]:
    """Sample numbers of every device, by the partition of the scenario; numbers to predict count as one class."""
    data, classes = scenario.data, scenario.model.classes
    labels = np.zeros(labels.size, np.int64) if scenario.training.predicts_numbers else labels
    wishes = [
        Wish(device.samples, floor.classes_per_device, floor.classes)
        for floor in scenario.floors
        for device in floor.devices
    ]
    rng = key_stream(scenario.seed_of_plant, "data")
    if data.partition == "classes":
        return by_classes(labels, wishes, classes=classes, fraction=data.non_iid_fraction, rng=rng)
    if data.partition == "dirichlet":
        return dirichlet(labels, wishes, classes=classes, concentration=data.concentration, rng=rng)
    if data.partition == "shards":
        return by_shards(labels, wishes, shards=data.shards, rng=rng)
    return iid(labels, wishes, classes=classes, rng=rng)


def _with_counts(scenario: Scenario, counts: Sequence[int]) -> Scenario:
    """Copy a scenario and set `held` of every device that does not hold the number of samples it asks for."""
    remaining = iter(counts)

    def with_count(device: Device) -> Device:
        count = next(remaining)
        return device.model_copy(update={"held": None if count == device.samples else count})

    floors = tuple(
        floor.model_copy(update={"devices": tuple(with_count(device) for device in floor.devices)})
        for floor in scenario.floors
    )
    return scenario.model_copy(update={"floors": floors})


def _scale(images: npt.NDArray[np.generic]) -> tuple[Floats, Floats]:
    """Mean and standard deviation per channel, (C,) each; a deviation of 0 becomes 1."""
    if images.dtype == np.uint8 and images.ndim > 2:
        levels = np.arange(256.0)
        counts = np.array([np.bincount(images[:, c].ravel(), minlength=256) for c in range(images.shape[1])])
        mean = counts @ levels / counts.sum(1)
        deviation = np.sqrt(np.maximum(counts @ levels**2 / counts.sum(1) - mean**2, 0.0))
    else:
        axes = (0, *range(2, images.ndim))
        values = images.astype(np.float64)
        mean, deviation = values.mean(axis=axes), values.std(axis=axes)
    return np.atleast_1d(mean), np.atleast_1d(np.where(deviation > 0.0, deviation, 1.0))


def _own(scenario: Scenario) -> _Whole:
    """Load a user's data: a callable that returns (samples, labels) of every device and of the test set."""
    name = scenario.data.name
    function = find_reference(name, f"data '{name}'", DataError)
    if not callable(function):
        raise DataError(f"data '{name}': is a {type(function).__name__}, not a callable. Name a function")
    shape = "([(samples, labels) of every device], (samples, labels) of the test set)"
    has_result = False
    try:
        result = function()
        has_result = True
        devices, test = result
        devices = list(devices)
    except (Exception, SystemExit) as error:  # the user's function may raise anything
        if not has_result or is_users(error):  # a generator runs the user's code only when it is listed
            raise DataError(f"data '{name}': your function raised {where_raised(error)}") from error
        raise DataError(f"data '{name}': returned {_description(result)}, must return {shape}") from None
    names = [device.name for device in scenario.devices]
    if len(devices) != len(names):
        problem = f"has {len(devices)} devices, the scenario has {len(names)}"
        raise DataError(f"data '{name}': {problem}. Return one pair for every device")
    parts = [_checked(name, place, pair, scenario) for place, pair in zip(names, devices, strict=True)]
    test_images, test_labels = _checked(name, "test set", test, scenario)
    if test_labels.size == 0:
        raise DataError(f"data '{name}': the test set is empty. Give it at least one sample")
    first = np.concatenate([[0], np.cumsum([labels.size for _, labels in parts])])
    shares = [np.arange(begin, end) for begin, end in itertools.pairwise(first)]
    images, labels = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    return _Whole(images, labels, shares, test_images, test_labels, name)


def _description(value: object) -> str:
    """Describe a value in a few words."""
    kind = type(value).__name__
    return f"a {kind} of {len(value)}" if isinstance(value, list | tuple | dict) else f"a {kind}"


def _checked(name: str, place: str, pair: Any, scenario: Scenario) -> tuple[Any, Any]:
    """Check that the samples and labels of a device or the test set fit the model."""
    label, predicts = f"data '{name}': {place}", scenario.training.predicts_numbers
    try:
        samples, labels = pair[0], pair[1]
    except (TypeError, ValueError, IndexError, KeyError):
        raise DataError(f"{label}: must be (samples, labels), got a {type(pair).__name__}") from None
    return checked_pair(samples, labels, label=label, model=scenario.model, predicts_numbers=predicts)
