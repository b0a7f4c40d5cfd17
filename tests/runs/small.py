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


def left_behind(folder: Path) -> tuple[str, dict[str, Any], dict[str, npt.NDArray[np.generic]]]:
    """What must be equal of equal runs: the log, the state of the checkpoint, and the weights and what else is kept."""
    checkpoint = load_checkpoint(folder)
    assert checkpoint is not None
    state, origin = checkpoint.state, checkpoint.origin
    values = {**state.values, "round": state.index, "clock": checkpoint.clock, "origin": origin}
    memory = {f"memory/{key}": tensor for key, tensor in state.memory.items()}
    return (folder / "rounds.jsonl").read_text(), values, {**state.weights, **memory}


def assert_equal_runs(one: Path, other: Path) -> None:
    (log, state, tensors), (other_log, other_state, other_tensors) = left_behind(one), left_behind(other)
    assert log == other_log
    assert state == other_state
    assert tensors.keys() == other_tensors.keys()
    for key, value in tensors.items():
        assert value.dtype == other_tensors[key].dtype, key
        assert np.array_equal(value, other_tensors[key]), key
