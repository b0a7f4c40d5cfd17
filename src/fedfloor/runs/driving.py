"""Rounds on any plant, with a log, checkpoints and an end: what every kind of run shares."""

__all__ = ["Driven", "Earlier", "checkpoint_of", "claimed_folder", "drive", "earlier_rounds"]

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from fedfloor.errors import DataError, RunLogError, shown
from fedfloor.rounds.events import Tell, silent
from fedfloor.rounds.listeners.checkpoint import STATE, Checkpoint, Checkpoints, load_checkpoint
from fedfloor.rounds.listeners.log import ROUNDS, log_digest
from fedfloor.rounds.listeners.progress import Progress
from fedfloor.rounds.listeners.state import KEEPS_STATE, StateWatch
from fedfloor.rounds.listeners.stop import Until
from fedfloor.rounds.loop import FinishedRound, Listener, run_rounds
from fedfloor.rounds.plants.contract import Plant
from fedfloor.rounds.record import RoundRecord, TimingRecord
from fedfloor.runs.copies import copies_of, refuse_changed_copies
from fedfloor.runs.folder import (
    SCENARIO,
    RunFolder,
    check_records,
    claimed,
    fingerprint_of,
    read_records,
    refuse_changes,
    refuse_fewer,
)
from fedfloor.runs.planned import PlannedRun
from fedfloor.scheduling.objects import make_again
from fedfloor.scheduling.registry import may_keep_state, name_now


@dataclass(frozen=True, slots=True, eq=False)
class Driven:
    """The log of a run, earlier rounds of a resumed one included."""

    records: tuple[RoundRecord, ...]
    timings: tuple[TimingRecord, ...]  #: of the rounds that this process ran

    @classmethod
    def of(cls, rounds: Iterable[FinishedRound], earlier: "Earlier | None" = None) -> Self:
        """The log of rounds, each of which is kept only as its records, after earlier ones."""
        pairs = [(ended.record, ended.timing) for ended in rounds]
        records = [] if earlier is None else [*earlier.records]
        return cls((*records, *(record for record, _ in pairs)), tuple(timing for _, timing in pairs))


@dataclass(frozen=True, slots=True, eq=False)
class Earlier:
    """What a resumed run continues from."""

    checkpoint: Checkpoint
    records: tuple[RoundRecord, ...]  #: the rounds that were done before it


def earlier_rounds(planned: PlannedRun, scenario_toml: str, *, data: str = "") -> Earlier | None:
    """What the run in the planned folder, which is locked, resumes from; None if there is no checkpoint.

    A folder of another scenario, of data with another fingerprint, or with more rounds than planned is refused, and so
    is a checkpoint that is not one of this run and this log.
    """
    folder = planned.folder
    if folder is None or not (folder / SCENARIO).exists():
        return None
    refuse_changes(folder, scenario_toml)
    refuse_changed_copies(folder, copies_of(planned.scenario))
    checkpoint = checkpoint_of(folder)
    if checkpoint is None:
        return None
    refuse_fewer(folder, checkpoint.round, planned.scenario.rounds)
    if checkpoint.origin.data != data:
        problem = f"{folder}: was trained on data that differ from what '{planned.scenario.data.name}' gives now"
        raise DataError(f"{problem}. Restore the data, or start a new run in another folder")
    if checkpoint.state.values.get(KEEPS_STATE):
        problem = f"{folder}: cannot be resumed: its policy {shown(str(planned.policy))} kept state on itself"
        advice = "Keep nothing between rounds (docs/policies.md), and start a new run in another folder"
        raise RunLogError(f"{problem}, which is lost. {advice}")
    records = read_records(folder, checkpoint.round)
    check_records(records, planned.scenario, folder)
    problem = _misfit(checkpoint, records, folder, str(planned.policy))
    if problem:
        raise _foreign(checkpoint, problem)
    return Earlier(checkpoint, tuple(records))


def checkpoint_of(folder: Path) -> Checkpoint | None:
    """The checkpoint of a run folder; one that was taken with another scenario than the folder's is refused."""
    checkpoint = load_checkpoint(folder)
    if checkpoint is None or not checkpoint.origin.run:  # without a fingerprint, of an older version
        return checkpoint
    try:
        run = fingerprint_of((folder / SCENARIO).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        problem = f"{folder / SCENARIO}: cannot be read: {error}"
        raise RunLogError(f"{problem}. Restore it, or start a new run in another folder") from None
    if checkpoint.origin.run != run:
        raise _foreign(checkpoint, "is the checkpoint of another run: it was taken with another scenario or policy")
    return checkpoint


def _foreign(checkpoint: Checkpoint, problem: str) -> RunLogError:
    advice = "Restore the files of one run, or start a new run in another folder"
    return RunLogError(f"{checkpoint.path / STATE}: {problem}. {advice}")


def _misfit(checkpoint: Checkpoint, records: Sequence[RoundRecord], folder: Path, policy: str) -> str:
    """Why a log is not the one that a checkpoint was taken with; empty if it is. Old checkpoints have no checksum."""
    done, log = checkpoint.round, checkpoint.origin.log
    if len(records) < done:
        return f"was taken after {done} rounds, but {ROUNDS} has {len(records)} whole lines"
    if any(name_now(record.policy) != policy for record in records):
        return f"does not fit {ROUNDS}, which another policy than {shown(policy)} has written"
    if records and records[-1].clock != checkpoint.clock:
        return f"clock_s: must be {records[-1].clock!r}, as in {ROUNDS}, got {checkpoint.clock!r}"
    if log not in ("", log_digest(folder, done)):
        return f"does not fit {ROUNDS}, which has changed since the checkpoint was taken"
    return ""


@contextmanager
def claimed_folder(
    planned: PlannedRun, *, checkpoints: bool = False, resume: bool = False
) -> Iterator[RunFolder | None]:
    """The run's folder, locked until the block ends; None if the run has no folder."""
    if planned.folder is None:
        yield None
        return
    with claimed(planned.folder, checkpoints=checkpoints, resume=resume) as folder:
        yield folder


def drive(
    plant: Plant,
    planned: PlannedRun,
    folder: RunFolder | None,
    *,
    earlier: Earlier | None = None,
    data: str = "",
    until: Until = Until(),  # noqa: B008  # frozen
    listeners: Sequence[Listener] = (),
    tell: Tell = silent,
) -> Iterator[FinishedRound]:
    """Run the rounds that are left on a plant, which is new or was restored from the checkpoint of earlier rounds.

    The folder has begun. The log is written first, then the checkpoint, then the given listeners hear of the round, and
    last `tell`; then the round is yielded, and only the last record is kept. If a condition ends the run before its
    last round, the folder says which. `data` is the fingerprint that the next resumption compares.
    """
    heard, every = list[Listener](), plant.scenario.training.checkpoint_every
    watch = None
    if may_keep_state(planned.policy) and not planned.unnamed:
        spec, scheduler = planned.policy, planned.scheduler
        watch = StateWatch(shown(str(spec)), scheduler, lambda: make_again(spec, scheduler), every)
        heard.append(watch)
    if folder is not None:
        heard.append(folder.log)
        if folder.checkpoints:
            heard.append(Checkpoints(folder.path, plant, folder.log, every, data, folder.run, watch))
    past = () if earlier is None else earlier.records
    rounds, last = plant.scenario.rounds - plant.index, past[-1] if past else None
    if last is not None and until.reached(last):
        rounds = 0
    for ended in run_rounds(
        plant,
        planned.scheduler,
        max(rounds, 0),
        policy=str(planned.policy) if last is None else last.policy,  # a log keeps the name that an older version wrote
        clock=0.0 if earlier is None else earlier.checkpoint.clock,
        earlier=past,
        listeners=[*heard, *listeners, Progress(tell)],
        until=until.reached,
    ):
        last = ended.record
        yield ended
        del ended
    reason = None if last is None or last.round + 1 >= plant.scenario.rounds else until.reason(last)
    if folder is not None and reason is not None:
        folder.end(reason)
