"""The data of a scenario, read as training would: what it contains, and what is wrong with which file."""

__all__ = ["VerifiedData", "verify_scenario"]

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedfloor.scenario.resolved import Scenario
from fedfloor.training.data.holding import gather
from fedfloor.training.data.recorded import CheckedFile, OnStep, check_recorded


@dataclass(frozen=True, slots=True)
class VerifiedData:
    """Contents of a scenario's own data, or the files that are wrong; the rest is empty then."""

    name: str
    files: tuple[CheckedFile, ...]  #: empty if a function makes the data
    origin: str = ""
    training: int = 0  #: samples that devices hold
    test: int = 0  #: samples
    shape: tuple[int, ...] = ()  #: of a sample
    classes: tuple[str, ...] = ()  #: names, or numbers if they have none; empty if numbers are predicted
    training_per_class: tuple[int, ...] = ()
    test_per_class: tuple[int, ...] = ()

    @property
    def wrong(self) -> tuple[CheckedFile, ...]:
        """Files that cannot be used."""
        return tuple(file for file in self.files if file.problem is not None)


def verify_scenario(
    scenario: Scenario, folder: Path | None = None, *, on_step: OnStep = lambda _: None
) -> VerifiedData:
    """Read every file of a scenario by itself, then all of them as training would."""
    is_files = scenario.data.kind in ("sensors", "images")
    files = check_recorded(scenario, on_step=on_step) if is_files else ()
    verified = VerifiedData(scenario.data.name, files)
    if verified.wrong:
        return verified
    holding = gather(scenario, folder, on_step=on_step)
    samples, count = holding.samples, scenario.model.classes
    shape, sizes = samples.images.shape[1:], (samples.labels.size, samples.test_labels.size)
    known = VerifiedData(scenario.data.name, files, holding.origin, *sizes, shape)
    if scenario.training.predicts_numbers:
        return known
    training, test = (np.bincount(labels, minlength=count).tolist() for labels in (samples.labels, samples.test_labels))
    names = holding.classes or tuple(map(str, range(count)))
    return VerifiedData(known.name, files, known.origin, *sizes, shape, names, tuple(training), tuple(test))
