"""Windows of the CWRU bearing data, read from the official .mat files: one function, which a scenario names."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.io

WINDOW, STEP = 1024, 512  # values
GAP = 2 * WINDOW  # values of the normal recording between training and test
LOADS = (0, 1, 2)  # to train with, one floor each; load 3 is the test set
KINDS = ("ball", "inner", "outer")  # what is damaged; one device of every floor each
#: first of the four official numbers of a damage, those of loads 0 to 3; 97 is the recording without one
NUMBERS = {
    "ball-007": 118, "ball-014": 185, "ball-021": 222,
    "inner-007": 105, "inner-014": 169, "inner-021": 209,
    "outer-007": 130, "outer-014": 197, "outer-021": 234,
}  # fmt: skip
LABELS = (*NUMBERS, "normal")

Signal = npt.NDArray[np.float32]
Samples = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]


def folder() -> Path:
    """Folder with the .mat files: `cwru` in the folder that FEDFLOOR_DATA names."""
    return Path(os.environ["FEDFLOOR_DATA"]) / "cwru"


def signal(number: int) -> Signal:
    """Acceleration at the drive end in the recording of an official number."""
    variable = f"X{number:03d}_DE_time"
    table = scipy.io.loadmat(folder() / f"{number}.mat", variable_names=[variable])
    return np.asarray(table[variable], np.float32).ravel()


def recordings() -> Iterator[tuple[str, str, Signal]]:
    """Device, label and signal of every recording; the device `test` stands for the test set.

    Load 3 is the test set. There is one recording without a damage: the first half of it is divided among the devices,
    the second half is in the test set.
    """
    devices = [f"load-{load}-{kind}" for load in LOADS for kind in KINDS]
    for label, first in NUMBERS.items():
        for load in LOADS:
            yield f"load-{load}-{label.partition('-')[0]}", label, signal(first + load)
        yield "test", label, signal(first + 3)
    normal = signal(97)
    half = normal.size // 2
    for device, part in zip(devices, np.array_split(normal[: half - GAP], len(devices)), strict=True):
        yield device, "normal", part
    yield "test", "normal", normal[half:]


def windows(values: Signal) -> npt.NDArray[np.float32]:
    """Windows (n, 1, 1024) that start every 512 values."""
    return np.lib.stride_tricks.sliding_window_view(values, WINDOW)[::STEP, np.newaxis]


def bearings() -> tuple[list[Samples], Samples]:
    """Samples and labels of every device in the order of `plant.toml`, and of the test set."""
    parts: dict[str, list[Samples]] = {f"load-{load}-{kind}": [] for load in LOADS for kind in KINDS} | {"test": []}
    for device, label, values in sorted(recordings(), key=lambda entry: entry[1]):  # as files are sorted
        cut = windows(values)
        parts[device].append((cut, np.full(len(cut), LABELS.index(label))))
    joined = [(np.concatenate([x for x, _ in own]), np.concatenate([y for _, y in own])) for own in parts.values()]
    return joined[:-1], joined[-1]
