"""The data of a scenario, handed to its devices."""

__all__ = ["HeldBy", "Holding", "HoldingTable", "ShortOf", "ShortageTable", "gather", "shortage_of"]

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Floats, Ints
from fedfloor.errors import DataError
from fedfloor.references import find_reference, is_users, where_raised
from fedfloor.scenario.expand import stream
from fedfloor.scenario.resolved import Device, Scenario
from fedfloor.training.data.partition import Wish, by_classes, by_shards, dirichlet, iid
from fedfloor.training.data.samples import Samples
from fedfloor.training.data.sources import load_dataset


class ShortOf(TypedDict):
    """How many samples a device asks for, and how many it gets."""

    floor: str
    name: str
    asked: int
    held: int


class HeldBy(ShortOf):
    """What one device holds."""

    classes: list[int]  #: samples of every class


class HoldingTable(TypedDict):
    """Who holds what, as `holding.json` keeps it."""

    data: str
    origin: str
    partition: str | None
    test_samples: int
    devices: list[HeldBy]


class ShortageTable(TypedDict):
    """Devices that will hold fewer samples than they ask for, as far as the data is at hand."""

    origin: str | None  #: where the data comes from
    reason: str | None  #: why the data was not read
    devices: list[ShortOf] | None  #: None if the data was not read


@dataclass(frozen=True, slots=True, eq=False)
class Holding:
    """Samples, and a scenario that says how many each device really holds."""

    samples: Samples
    scenario: Scenario
    origin: str  #: where the data comes from
    histogram: Ints  #: (N, C) samples per device and class

    def table(self) -> HoldingTable:
        """Who holds what: for every device its floor, the samples it asks for, and those it gets of every class."""
        devices = [(floor.name, device) for floor in self.scenario.floors for device in floor.devices]
        own = ":" in self.scenario.data.name  # comes shared out, in whatever numbers
        return {
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
                for (floor, device), row in zip(devices, self.histogram, strict=True)
            ],
        }


def gather(scenario: Scenario, folder: Path | None = None) -> Holding:
    """Load a scenario's data and share it out; where classes run out devices hold fewer than they asked for."""
    if ":" in scenario.data.name:
        images, labels, held, test_images, test_labels = _own(scenario)
        origin, of_all = scenario.data.name, images
    else:
        found = load_dataset(scenario.data.name, folder)
        labels, test_images, test_labels = found.train_labels, found.test_images, found.test_labels
        held, origin, of_all = _shares(scenario, labels), found.origin, found.train_images
        images = of_all
    _refuse_empty(scenario, held)
    # Only what somebody holds is kept.
    kept = np.concatenate(held)
    first = np.concatenate([[0], np.cumsum([numbers.size for numbers in held])])
    mean, deviation = _scale(of_all)
    samples = Samples(
        images=images[kept],
        labels=labels[kept],
        first=first,
        held=np.arange(kept.size),
        test_images=test_images,
        test_labels=test_labels,
        mean=mean,
        deviation=deviation,
    )
    classes = scenario.model.classes
    histogram = np.array([np.bincount(labels[numbers], minlength=classes) for numbers in held])
    return Holding(samples, _with_held(scenario, [numbers.size for numbers in held]), origin, histogram)


def shortage_of(scenario: Scenario, folder: Path | None = None) -> ShortageTable:
    """Devices that will hold fewer samples than they ask for; missing data is an error only if a folder is named."""
    if ":" in scenario.data.name:
        return {"origin": None, "reason": f"{scenario.data.name} is called when training starts", "devices": None}
    try:
        data_set = load_dataset(scenario.data.name, folder)
    except DataError as error:
        if folder is not None:
            raise
        return {"origin": None, "reason": str(error), "devices": None}
    shares = _shares(scenario, data_set.train_labels)
    _refuse_empty(scenario, shares)
    places = [(floor.name, device) for floor in scenario.floors for device in floor.devices]
    short: list[ShortOf] = [
        {"floor": floor, "name": device.name, "asked": device.samples, "held": numbers.size}
        for (floor, device), numbers in zip(places, shares, strict=True)
        if numbers.size < device.samples
    ]
    return {"origin": data_set.origin, "reason": None, "devices": short}


def _refuse_empty(scenario: Scenario, held: Sequence[Ints]) -> None:
    for device, numbers in zip(scenario.devices, held, strict=True):
        if numbers.size == 0:
            advice = "Lower the samples of other devices, or give it other classes"
            raise DataError(f"{scenario.data.name}: {device.name} holds no sample: its classes have run out. {advice}")


def _shares(scenario: Scenario, labels: Ints) -> list[Ints]:
    data, classes = scenario.data, scenario.model.classes
    wishes = [Wish(device.samples, floor.classes_per_device) for floor in scenario.floors for device in floor.devices]
    rng = stream(scenario.seed, "data")
    if data.partition == "classes":
        return by_classes(labels, wishes, classes=classes, fraction=data.non_iid_fraction, rng=rng)
    if data.partition == "dirichlet":
        return dirichlet(labels, wishes, classes=classes, concentration=data.concentration, rng=rng)
    if data.partition == "shards":
        return by_shards(labels, wishes, shards=data.shards, rng=rng)
    return iid(labels, wishes, classes=classes, rng=rng)


def _with_held(scenario: Scenario, counts: Sequence[int]) -> Scenario:
    """The scenario with what devices hold where it is not what they ask for."""
    left = iter(counts)

    def held(device: Device) -> Device:
        count = next(left)
        return device.model_copy(update={"held": None if count == device.samples else count})

    floors = tuple(
        floor.model_copy(update={"devices": tuple(held(device) for device in floor.devices)})
        for floor in scenario.floors
    )
    return scenario.model_copy(update={"floors": floors})


def _scale(images: npt.NDArray[np.generic]) -> tuple[Floats, Floats]:
    """Mean and deviation per channel (C,)."""
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


def _own(scenario: Scenario) -> tuple[Any, Ints, list[Ints], Any, Ints]:
    """Data of the user's: a callable that returns the devices' (samples, labels) and the test set's."""
    name = scenario.data.name
    function = find_reference(name, f"data '{name}'", DataError)
    if not callable(function):
        raise DataError(f"data '{name}': is a {type(function).__name__}, not a callable. Name a function")
    shape = "([(samples, labels) of every device], (samples, labels) of the test set)"
    called = False
    try:
        returned = function()
        called = True
        devices, test = returned
        devices = list(devices)
    except (Exception, SystemExit) as error:  # the function is the user's and may do anything
        if not called or is_users(error):  # a generator runs while it is listed
            raise DataError(f"data '{name}': your function raised {where_raised(error)}") from error
        raise DataError(f"data '{name}': returned {_described(returned)}, must return {shape}") from None
    wanted = [device.name for device in scenario.devices]
    if len(devices) != len(wanted):
        raise DataError(
            f"data '{name}': has {len(devices)} devices, the scenario has {len(wanted)}. Give one pair each"
        )
    parts = [_checked(name, place, pair, scenario) for place, pair in zip(wanted, devices, strict=True)]
    test_images, test_labels = _checked(name, "test set", test, scenario)
    if test_labels.size == 0:
        raise DataError(f"data '{name}': the test set is empty. Give it at least one sample")
    first = np.concatenate([[0], np.cumsum([labels.size for _, labels in parts])])
    held = [np.arange(begin, end) for begin, end in itertools.pairwise(first)]
    images, labels = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    return images, labels, held, test_images, test_labels


def _described(returned: Any) -> str:
    """What a function returned, in a few words."""
    kind = type(returned).__name__
    return f"a {kind} of {len(returned)}" if isinstance(returned, list | tuple | dict) else f"a {kind}"


def _checked(name: str, place: str, pair: Any, scenario: Scenario) -> tuple[Any, Ints]:
    """Samples and labels of a device or the test set, if they are what the model takes."""
    try:
        images, labels = np.asarray(pair[0]), np.asarray(pair[1])
    except (TypeError, ValueError, IndexError, KeyError):
        raise DataError(f"data '{name}': {place}: must be (samples, labels), got a {type(pair).__name__}") from None
    shape, classes = tuple(scenario.model.input), scenario.model.classes
    if images.shape[1:] != shape or labels.shape != images.shape[:1]:
        problem = f"samples must be (n, {', '.join(map(str, shape))}) and labels (n,)"
        raise DataError(f"data '{name}': {place}: {problem}, got {images.shape} and {labels.shape}")
    if images.dtype.kind not in "buif":
        raise DataError(f"data '{name}': {place}: samples must be numbers, got {images.dtype}")
    if images.dtype != np.uint8:
        images = images.astype(np.float32)
        if not np.isfinite(images).all():
            raise DataError(f"data '{name}': {place}: samples must be finite")
    problem = f"data '{name}': {place}: labels must be integers from 0 to {classes - 1}"
    if labels.dtype.kind not in "iu":
        raise DataError(f"{problem}, got {labels.dtype}. Convert them, as by labels.astype(int)")
    if labels.size and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise DataError(f"{problem}, got {labels.min()}..{labels.max()}")
    return images, labels.astype(np.int64)
