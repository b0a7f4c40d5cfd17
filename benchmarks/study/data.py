"""Data of the paper's plants with a smaller test set: testing ten thousand images took half the time of a run."""

__all__ = ["PLANT_SEED", "TESTED", "cifar10", "factory", "svhn"]

from functools import cache
from typing import Any

import fedfloor
from fedfloor.training.data.holding import gather

TESTED = 2500  #: images of the test set, the first ones
PLANT_SEED = 20  #: of `factory`, whose preset has none: one plant and one split for all seeds of a run

Pair = tuple[Any, Any]  #: samples and their labels


def cifar10() -> tuple[list[Pair], Pair]:
    """Samples of the devices of `paper-cifar10`, as the preset divides them, and the test set."""
    return _with_fewer_tests("paper-cifar10")


def svhn() -> tuple[list[Pair], Pair]:
    """Samples of the devices of `paper-svhn`, as the preset divides them, and the test set."""
    return _with_fewer_tests("paper-svhn")


def factory() -> tuple[list[Pair], Pair]:
    """Samples of the devices of `factory` with one plant, as the preset divides them, and the test set."""
    return _with_fewer_tests("factory", f"plant_seed={PLANT_SEED}")


@cache  # a process trains many runs
def _with_fewer_tests(preset: str, *overrides: str) -> tuple[list[Pair], Pair]:
    scenario = fedfloor.load(preset, overrides=overrides)  # its plant seed is fixed: every seed of a run has this split
    samples = gather(scenario).samples
    numbers = [samples.of_device(device) for device in range(len(scenario.devices))]
    devices = [(samples.images[own], samples.labels[own]) for own in numbers]
    return devices, (samples.test_images[:TESTED], samples.test_labels[:TESTED])
