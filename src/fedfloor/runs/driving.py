"""Rounds on any plant, with a log, checkpoints and an end: what every kind of run shares."""

__all__ = ["Driven", "checkpoint_of", "drive", "opened_folder"]

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from fedfloor.errors import DataError
from fedfloor.rounds.events import Tell, silent
from fedfloor.rounds.listeners.checkpoint import Checkpoint, Checkpoints, load_checkpoint
from fedfloor.rounds.listeners.progress import Progress
from fedfloor.rounds.listeners.stop import Until
from fedfloor.rounds.loop import Listener, run_rounds
from fedfloor.rounds.plants.contract import Plant
from fedfloor.rounds.record import RoundRecord, TimingRecord
from fedfloor.runs.folder import (
    SCENARIO,
    RunFolder,
    check_records,
    read_records,
    refuse_changes,
    refuse_fewer,
)
from fedfloor.runs.planned import PlannedRun


@dataclass(frozen=True, slots=True, eq=False)
class Driven:
    """The log of a run, earlier rounds of a resumed one included."""

    records: tuple[RoundRecord, ...]
    timings: tuple[TimingRecord, ...]  #: of the rounds that this process ran


def checkpoint_of(planned: PlannedRun, scenario_toml: str, *, data: str = "") -> Checkpoint | None:
    """The checkpoint that a run resumes from; None if its folder has none.

    A folder of another scenario, of data with another fingerprint, or with more rounds than planned is refused.
    """
    folder = planned.folder
    if folder is None or not (folder / SCENARIO).exists():
        return None
    refuse_changes(folder, scenario_toml)
    checkpoint = load_checkpoint(folder)
    refuse_fewer(folder, None if checkpoint is None else checkpoint.round, planned.scenario.rounds)
    if checkpoint is not None and checkpoint.data != data:
        problem = f"{folder}: was trained on other data than '{planned.scenario.data.name}' gives now"
        raise DataError(f"{problem}. Restore the data, or start a new run in another folder")
    return checkpoint


@contextmanager
def opened_folder(
    planned: PlannedRun, scenario_toml: str, *, checkpoints: bool = False, resume: bool = False, rounds: int = 0
) -> Iterator[RunFolder | None]:
    """The run's folder, open for writing until the block ends; None if the run has no folder.

    With `resume` its log continues after `rounds` rounds.
    """
    if planned.folder is None:
        yield None
        return
    if resume:
        folder = RunFolder.reopen(planned.folder, scenario_toml, rounds)
    else:
        folder = RunFolder.create(planned.folder, scenario_toml, checkpoints=checkpoints)
    with contextlib.closing(folder):
        yield folder


def drive(
    plant: Plant,
    planned: PlannedRun,
    folder: RunFolder | None,
    *,
    checkpoint: Checkpoint | None = None,
    data: str = "",
    until: Until = Until(),  # noqa: B008  # frozen
    listeners: Sequence[Listener] = (),
    tell: Tell = silent,
) -> Driven:
    """Run the rounds that are left on a plant, which is new or was restored from the checkpoint.

    The log is written first, then the checkpoint, then the given listeners hear of the round, and last `tell`.
    `data` is the fingerprint that the next resumption compares.
    """
    records: list[RoundRecord] = []
    timings: list[TimingRecord] = []
    if checkpoint is not None:
        assert plant.index == checkpoint.round
        assert planned.folder is not None
        records += read_records(planned.folder)
        check_records(records, plant.scenario, planned.folder)
    heard: list[Listener] = []
    if folder is not None:
        heard.append(folder.log)
        if folder.checkpoints:
            every = plant.scenario.training.checkpoint_every
            heard.append(Checkpoints(folder.path, plant, folder.log, every, data))
    rounds = plant.scenario.rounds - plant.index
    if records and until.reached(records[-1]):
        rounds = 0
    for ended in run_rounds(
        plant,
        planned.scheduler,
        max(rounds, 0),
        policy=str(planned.policy),
        clock=0.0 if checkpoint is None else checkpoint.clock,
        listeners=[*heard, *listeners, Progress(tell)],
        until=until.reached,
    ):
        records.append(ended.record)
        timings.append(ended.timing)
    return Driven(tuple(records), tuple(timings))
