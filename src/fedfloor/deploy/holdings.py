"""Data of a device: a file, a function of its owner, or its share of a scenario's data set for trials."""

__all__ = ["data_source"]

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedfloor.characters import safe_line
from fedfloor.deploy.device import LocalData
from fedfloor.deploy.tasks import DeviceTask
from fedfloor.errors import DataError, named, shown
from fedfloor.references import find_reference, where_raised
from fedfloor.runs.planned import load
from fedfloor.training.data.checking import checked_pair
from fedfloor.training.data.holding import share_of

_FORMS = "Give FILE.npz, package.module:callable or scenario:NAME"


def data_source(text: str, data_dir: Path | None = None) -> Callable[[DeviceTask], LocalData]:
    """What `--data` names; it is read when the gateway has told the device its task.

    `FILE.npz` has the arrays `samples` and `labels`. A callable returns the two. `scenario:NAME` is the device's share
    of the data set of a scenario, divided as `fedfloor run` divides it.
    """
    if text.endswith(".npz"):
        path = Path(text)
        if not path.is_file():
            raise DataError(f"{named(path)}: no such file. {_FORMS}")
        return lambda task: _checked(*_from_file(path), f"{named(path)}", task)
    kind, colon, rest = text.partition(":")
    if kind == "scenario" and rest:
        return lambda task: _share(rest, data_dir, task)
    if colon and rest:
        function = find_reference(text, f"--data {shown(text)}", DataError)
        if callable(function):
            return lambda task: _checked(*_called(function, text), f"--data {shown(text)}", task)
    raise DataError(f"--data: names no data, got {shown(text)}. {_FORMS}")


def _from_file(path: Path) -> tuple[object, object]:
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return file["samples"], file["labels"]
    except Exception as error:  # zipfile, zlib and numpy raise errors of many kinds on damaged files
        problem = f"must have the arrays samples and labels: {safe_line(error, 200)}"
        raise DataError(f"{named(path)}: {problem}. Write it with numpy.savez") from None


def _called(function: Callable[[], Any], name: str) -> tuple[object, object]:
    try:
        samples, labels = function()
    except Exception as error:  # the function is the user's and may do anything
        raise DataError(f"--data {shown(name)}: failed: {where_raised(error)}. Return (samples, labels)") from error
    return samples, labels


def _checked(samples: object, labels: object, label: str, task: DeviceTask) -> LocalData:
    numbers = task.predicts is not None
    pair = checked_pair(samples, labels, label=label, model=task.model, predicts_numbers=numbers)
    data = LocalData(*pair)
    if data.labels.size == 0:
        raise DataError(f"{label}: holds no samples. A device needs at least one")
    return data


def _share(name: str, data_dir: Path | None, task: DeviceTask) -> LocalData:
    plant_seed = task.seed if task.plant_seed is None else task.plant_seed
    scenario = load(name, [f"plant_seed={plant_seed}"], seed=task.seed)
    names = [device.name for device in scenario.devices]
    if task.name not in names:
        raise DataError(f"--data scenario:{name}: has no device {shown(task.name)}. Name the plant's own scenario")
    samples, labels = share_of(scenario, task.name, data_dir)
    if labels.size == 0:
        raise DataError(f"--data scenario:{name}: {task.name} holds no samples for training. Add its files or rows")
    return LocalData(samples, labels)
