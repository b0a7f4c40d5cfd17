"""A small plant for tests of real processes: two floors with two devices each."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedfloor.rounds.listeners.checkpoint import load_checkpoint
from fedfloor.rounds.loop import run_rounds
from fedfloor.rounds.plants.learning import LearningPlant
from fedfloor.rounds.record import RoundRecord
from fedfloor.runs.planned import planned_run
from fedfloor.runs.train import job_of, scaled_as
from fedfloor.scenario import resolved_toml
from fedfloor.training.data.holding import gather
from fedfloor.workers.engine import engine_for
from tests.conftest import known

OVERRIDES = (
    "radio.channels=2",
    "floors.0.devices.0.count=2",
    "floors.1.count=1",
    "floors.1.devices.0.count=2",
    "training.min_cut=1",
    "training.evaluate_every=1",
    "training.halves=apart",
    "baseline.cut=2",
    "participation.rates=uniform",
    "participation.simulated_rates=uniform",
    "limits=false",
)


def settings(*more: str) -> list[str]:
    """The plant as arguments of a command."""
    return [part for entry in (*OVERRIDES, *more) for part in ("--set", entry)]


def one_floor(place: Path) -> Path:
    """File of the first floor of the plant alone."""
    file = planned_run("quick", "random", overrides=OVERRIDES, training=True).file
    path = place / "floor.toml"
    path.write_text(resolved_toml(file.model_copy(update={"floors": file.floors[:1]})), encoding="utf-8")
    return path


def simulated(
    folder: Path, rounds: int, more: Sequence[str] = (), policy: str = "random", *, file: Path | None = None
) -> tuple[Mapping[str, npt.NDArray[np.generic]], list[RoundRecord]]:
    """Weights and records of the same run in one process, with inputs scaled as the run in this folder agreed on."""
    overrides = [*OVERRIDES, *more] if file is None else more
    planned = planned_run(file or "quick", policy, rounds, overrides=overrides, training=True)
    holding = gather(planned.scenario)
    samples, scenario = scaled_as(holding.samples, known(load_checkpoint(folder))), holding.scenario
    with engine_for(job_of(scenario, "cpu"), samples, 1) as engine:
        plant = LearningPlant(scenario, engine)
        records = [ended.record for ended in run_rounds(plant, planned.scheduler, rounds, policy=policy)]
        return plant.snapshot().weights, records


def distance(one: npt.NDArray[np.generic], other: npt.NDArray[np.generic]) -> float:
    """Distance of two tensors, in relation to the length of the second."""
    first, second = one.astype(np.float64), other.astype(np.float64)
    return float(np.linalg.norm(first - second) / np.linalg.norm(second))


def fields_of(record: object) -> set[str]:
    """Names of a record's fields that are written, at every level."""
    names = set()
    for entry in dataclasses.fields(record):  # type: ignore[arg-type]
        value = getattr(record, entry.name)
        parts = value if isinstance(value, tuple) else (value,)
        names |= {entry.name, *(name for part in parts if dataclasses.is_dataclass(part) for name in fields_of(part))}
    return names
