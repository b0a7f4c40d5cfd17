"""Short training runs, and what must be equal of equal ones."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import fedfloor
from fedfloor.rounds.listeners.checkpoint import load_checkpoint

#: A small run on the embedded data: 6 floors, 18 devices with few samples. It is tested in every round, because the end
#: of a run is always tested, and a run that is resumed with more rounds keeps those tests.
SMALL = (
    "rounds=6",
    "training.evaluate_every=1",
    "training.checkpoint_every=2",
    "participation.estimate_every=3",
    "participation.estimate_samples=8",
    "training.batch_fraction=0.05",
)


def small_run(out: Path | None = None, *more: str, policy: str = "random", **options: Any) -> Any:
    return fedfloor.run("quick", policy, overrides=[*SMALL, *more], out=out, **{"workers": 1, **options})


def left_behind(folder: Path) -> tuple[str, dict[str, npt.NDArray[np.generic]]]:
    """What must be equal of equal runs: the log, the weights and what else is kept."""
    checkpoint = load_checkpoint(folder)
    assert checkpoint is not None
    return (folder / "rounds.jsonl").read_text(), {**checkpoint.state.weights, **checkpoint.state.memory}


def assert_equal_runs(one: Path, other: Path) -> None:
    (log, weights), (other_log, other_weights) = left_behind(one), left_behind(other)
    assert log == other_log
    assert weights.keys() == other_weights.keys()
    for key, value in weights.items():
        assert np.array_equal(value, other_weights[key]), key
