"""The folder that every run leaves behind: what lies in it, who may write it, and what it may be mistaken for."""

__all__ = [
    "BOUNDS",
    "HOLDING",
    "MACHINES",
    "SCENARIO",
    "TRADEOFF",
    "RunFolder",
    "check_record",
    "check_records",
    "claimed",
    "fingerprint_of",
    "flat",
    "holds_training",
    "own_files",
    "read_records",
    "refuse_changes",
    "refuse_collection",
    "refuse_fewer",
    "refuse_filled",
    "refuse_links",
    "refuse_other_runs",
    "runs_below",
    "scenario_of",
    "write_json",
]

import contextlib
import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from pydantic import ValidationError

from fedfloor.errors import FailedRunError, RunLogError, counted, shown
from fedfloor.files import ELSEWHERE, failed_write, finite, make_private, only_writer, refused_write, write_whole
from fedfloor.rounds.listeners.checkpoint import CHECKPOINT, STATE
from fedfloor.rounds.listeners.log import ROUNDS, TIMINGS, RoundLog, cut_log, read_log
from fedfloor.rounds.listeners.mlflow import RUN_ID
from fedfloor.rounds.listeners.tensorboard import EVENTS
from fedfloor.rounds.placing import misplaced
from fedfloor.rounds.problems import problem_of
from fedfloor.rounds.record import RoundRecord
from fedfloor.runs.about import ABOUT, About
from fedfloor.runs.copies import remove_copies, write_copies
from fedfloor.scenario import Scenario, build, read
from fedfloor.scenario.profiles import PROFILES

SCENARIO = "scenario.toml"
HOLDING = "holding.json"  #: who holds what
MACHINES = "machines.json"  #: what real machines said about themselves when they joined
BOUNDS = "bounds.json"  #: the theorems beside what the run measured, written at its end
TRADEOFF = "tradeoff.json"  #: delay and participation over V, beside the runs of a comparison

_DRAWN_FROM = ("seed", "plant_seed", "radio.channels")  #: what decides the drawn numbers of floors


@contextmanager
def claimed(path: Path, *, checkpoints: bool = False, resume: bool = False) -> "Iterator[RunFolder]":
    """A run's folder, made if there is none and locked before anything in it is read, until the block ends.

    A folder that holds anything is refused, unless a run is to be resumed and the folder holds one.
    """
    with only_writer(path, again="repeat the command"):
        refuse_links(path)
        if resume:
            _refuse_incomplete(path)
        if not (resume and holds_training(path)):
            refuse_filled(path)
        for own in ("", CHECKPOINT, PROFILES):
            for part in (path / own).glob(".*.part"):  # of a process that was killed
                part.unlink()
        folder = RunFolder(path, checkpoints, fresh=not resume)
        try:
            yield folder
        finally:
            folder.close()


@dataclass
class RunFolder:
    """A run's folder, in which no other process may write."""

    path: Path
    checkpoints: bool  #: whether the run takes any
    fresh: bool  #: nothing is left of it unless a round is logged
    run: str = ""  #: fingerprint of the scenario
    about: About = field(default_factory=About)
    _log: RoundLog | None = None

    @property
    def log(self) -> RoundLog:
        """The log of a run that has begun."""
        assert self._log is not None
        return self._log

    def begin(
        self,
        scenario_toml: str,
        rounds: int = 0,
        *,
        copies: Mapping[str, bytes] = MappingProxyType({}),
        about: About = About(),  # noqa: B008  # frozen
    ) -> None:
        """Write the scenario and open the log, to continue after `rounds` rounds; what was logged later is dropped.

        `copies` are the hardware profiles that the scenario names, by their names in the folder. `about` is what sets
        the run apart from most others; it is written if it says anything.
        """
        self.run = fingerprint_of(scenario_toml)
        try:
            if self.checkpoints:
                make_private(self.path / CHECKPOINT)
            cut_log(self.path, rounds)
            (self.path / BOUNDS).unlink(missing_ok=True)  # they describe the shorter run
            (self.path / ABOUT).unlink(missing_ok=True)  # so does the reason why it ended
            self._log = RoundLog.open(self.path, append=rounds > 0)
            write_copies(self.path, copies)
            write_whole(self.path / SCENARIO, scenario_toml.encode())
        except OSError as error:
            raise _unwritable(self.path, error) from None
        self._tell(about)

    def end(self, reason: str) -> None:
        """Write down which condition has ended the run before its last round."""
        self._tell(replace(self.about, ended=reason))

    def _tell(self, about: About) -> None:
        self.about, facts = about, {key: value for key, value in asdict(about).items() if value is not None}
        if facts:
            write_json(self.path / ABOUT, facts)

    def close(self) -> None:
        """Close the files; a new run without a single round leaves nothing behind."""
        if self._log is not None:
            self._log.close()
        with contextlib.suppress(OSError):  # what others put there stays
            if self.fresh and not _has_round(self.path):
                for name in (ROUNDS, TIMINGS, SCENARIO, HOLDING, MACHINES, ABOUT):
                    (self.path / name).unlink(missing_ok=True)
                if (self.path / CHECKPOINT).is_dir():
                    (self.path / CHECKPOINT).rmdir()
                remove_copies(self.path)


def holds_training(path: Path) -> bool:
    """Whether a folder is that of a training run, which has a scenario and a folder for checkpoints."""
    return (path / CHECKPOINT).is_dir() and (path / SCENARIO).exists()


def _refuse_incomplete(path: Path) -> None:
    """Refuse to resume a run that has lost a file: starting from the beginning would replace its checkpoint."""
    for name in (SCENARIO, ROUNDS):
        if (path / CHECKPOINT / STATE).exists() and not (path / name).exists():
            problem = f"{path / name}: is missing, but the checkpoint needs it"
            raise RunLogError(f"{problem}. Restore it, or start a new run in another folder")


def refuse_links(path: Path) -> None:
    """Refuse a run folder in which a link stands for a file: writing it would change a file somewhere else."""
    for name in (CHECKPOINT, PROFILES, SCENARIO, ROUNDS, TIMINGS, HOLDING, MACHINES, ABOUT, BOUNDS, EVENTS, RUN_ID):
        if (path / name).is_symlink():
            problem = "is a symbolic link, and a run writes only files of its own"
            raise RunLogError(f"{path / name}: {problem}. Put the file itself there, or name another folder")


def _has_round(path: Path) -> bool:
    """Whether a whole round is logged in a folder."""
    try:
        with (path / ROUNDS).open("rb") as file:
            return file.readline().endswith(b"\n")
    except FileNotFoundError:
        return False


def _never_began(path: Path) -> bool:
    """Whether a folder holds only what a run leaves that ended in its first round, on a full disk for example."""
    names = {entry.name for entry in path.iterdir() if not (entry.name.startswith(".") and entry.suffix == ".part")}
    ours = names <= {CHECKPOINT, ROUNDS} or (
        {ROUNDS, TIMINGS} <= names <= {ROUNDS, TIMINGS, SCENARIO, HOLDING, MACHINES, ABOUT, CHECKPOINT, PROFILES}
    )
    return ours and not _has_round(path) and not any((path / CHECKPOINT).glob("[!.]*"))


def fingerprint_of(scenario_toml: str) -> str:
    """Fingerprint of a resolved scenario, the policy included; the number of rounds, which may change, is left out."""
    table = {key: value for key, value in flat(tomllib.loads(scenario_toml)).items() if key != "rounds"}
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


def own_files(folder: Path) -> list[Path]:
    """The files that a run needs to resume."""
    names = (SCENARIO, ROUNDS, TIMINGS, HOLDING, MACHINES, ABOUT, BOUNDS)
    below = [part for own in (CHECKPOINT, PROFILES) for part in (folder / own).glob("*")]
    return [*below, *(folder / name for name in names)]


def write_json(path: Path, value: object) -> None:
    """Write something about a whole run as a JSON file, with null for numbers that are not finite."""
    try:
        write_whole(path, (json.dumps(finite(value), indent=1) + "\n").encode())
    except OSError as error:
        raise failed_write(path, error, again="resume the run") from None


def refuse_filled(path: Path) -> None:
    """Refuse a folder that already holds anything."""
    try:
        filled = path.exists() and any(path.iterdir()) and not _never_began(path)
    except OSError as error:
        raise _unwritable(path, error) from None
    if not filled:
        return
    if all((path / name).exists() for name in (ROUNDS, SCENARIO, CHECKPOINT)):
        advice = "Resume it with --resume, or resume=True in Python, name another folder, or remove it"
        raise RunLogError(f"{path}: is not empty: it holds a training run. {advice}")
    refuse_other_runs(path)
    raise RunLogError(f"{path}: is not empty. Name another folder, or remove it")


def refuse_other_runs(path: Path) -> None:
    """Refuse a folder that holds run folders and is not one itself."""
    below = runs_below(path)
    if below:
        problem = f"is not empty: it holds the runs {_listed(below)}"
        how = "with --resume, or resume=True in Python"
        one = f"Resume one of them by naming its own folder {path / below[0]}"
        several = "all of them by naming all their policies"
        raise RunLogError(f"{path}: {problem}. {one}, or {several}, {how}. For a new run, name another folder")


def runs_below(path: Path) -> list[str]:
    """Names of the run folders in a folder; empty for a run folder."""
    try:
        if (path / ROUNDS).exists() or not path.is_dir():
            return []
        return sorted(entry.name for entry in path.iterdir() if (entry / ROUNDS).exists())
    except OSError:
        return []


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def refuse_collection(run: Path) -> None:
    """Refuse a file, or a folder of runs, where one run is meant, and name the runs to choose from."""
    with contextlib.suppress(OSError):  # whoever reads the folder says what is wrong with it
        if run.is_file():
            raise RunLogError(f"{run}: is a file, not a run folder. Name a folder that a run has written")
    below = runs_below(run)
    if below:
        problem = f"is not a run folder, but holds {_listed(below)}"
        raise RunLogError(f"{run}: {problem}. Name one of them, such as {run / below[0]}")


def refuse_changes(folder: Path, scenario_toml: str, *, held: bool = True) -> None:
    """Refuse to resume a run with another scenario.

    Only `rounds` and the scenario's name, which decides nothing, may change, and without `held` what devices hold.
    """
    path = folder / SCENARIO
    try:
        before = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RunLogError(f"{path}: cannot be read: {error}. Start a new run in another folder") from None
    old, new = flat(before), flat(tomllib.loads(scenario_toml))
    changed = [
        key
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) and key not in ("rounds", "name") and (held or not key.endswith(".held"))
    ]
    if any(key in _DRAWN_FROM for key in changed):  # the numbers of floors are then drawn anew
        changed = [key for key in changed if not key.startswith("floors[")]
    if changed:
        changed.sort(key=lambda key: key.startswith("floors["))
        changes = ", ".join(f"{key} ({_quoted(old, key)} -> {_quoted(new, key)})" for key in changed[:5])
        more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        problem = f"{folder}: cannot resume with a changed scenario: {changes}{more}"
        measured = all(key.endswith(".profile") for key in changed)  # names contain the digest of the content
        advice = "Restore the hardware profile" if measured else f"Name the scenario that it has run, {path}"
        raise RunLogError(f"{problem}. {advice}, or start a new run in another folder")


def _quoted(table: Mapping[str, object], key: str) -> str:
    return shown(table[key]) if key in table else "absent"


def refuse_fewer(folder: Path, done: int | None, rounds: int) -> None:
    """Refuse to resume a run up to a round that it has already passed."""
    if done is not None and rounds < done:
        advice = f"Ask for at least {counted(done, 'round')}, or start a new run in another folder"
        raise RunLogError(
            f"{folder}: has already run {counted(done, 'round')}, but only {rounds} are asked for. {advice}"
        )


def read_records(run: Path, most: int | None = None) -> list[RoundRecord]:
    """The logged rounds of a run folder, at most so many."""
    refuse_collection(run)
    path = run / ROUNDS
    try:
        if path.exists() and not path.is_file():
            problem = f"{path}: is a folder, a pipe or a device, not a log"
            raise RunLogError(f"{problem}. Name a folder that a run has written")
        return read_log(path, most)
    except FileNotFoundError:
        problem = f"{run}: has no {ROUNDS}, so it is not a run folder"
        raise RunLogError(f"{problem}. Name a folder that a run has written") from None
    except OSError as error:
        raise RunLogError(f"{path}: cannot be read: {error.strerror}. Check its permissions") from None


def check_records(records: Sequence[RoundRecord], scenario: Scenario, folder: Path) -> None:
    """Refuse a log that is not one round of the scenario after the other."""
    before = 0.0
    for index, record in enumerate(records):
        check_record(record, index, before, scenario, folder)
        before = record.clock


def check_record(record: RoundRecord, index: int, before: float, scenario: Scenario, folder: Path) -> None:
    """Refuse a record that is not round `index` of the scenario; `before` [s] is the clock of the round before it."""
    problem = misplaced(record, index, before, scenario)
    if problem:
        advice = "It is damaged, or was written by another version of fedfloor; use that one, or run again"
        raise RunLogError(f"{folder / ROUNDS}: line {index + 1}: {problem}. {advice}")


def scenario_of(run: Path) -> Scenario:
    """The resolved scenario of a run folder."""
    file = run / SCENARIO
    try:
        resolved = read(file)
        if resolved.model.layers is None:
            problem = "model.layers: is missing"
            raise RunLogError(f"{file}: {problem}. Restore the file that the run wrote, or run again")
        return build(resolved, str(file))
    except ValidationError as error:
        raise RunLogError(f"{file}: {problem_of(error)}. Restore the file that the run wrote, or run again") from None


def flat(value: object, path: str = "") -> dict[str, object]:
    """Nested tables as one table with dotted keys."""
    if isinstance(value, dict):
        return {
            key: entry
            for name, part in value.items()
            for key, entry in flat(part, f"{path}.{name}" if path else name).items()
        }
    if isinstance(value, list) and any(isinstance(part, dict) for part in value):
        return {key: entry for at, part in enumerate(value) for key, entry in flat(part, f"{path}[{at}]").items()}
    return {path: value}


def _unwritable(path: Path, error: OSError) -> FailedRunError | RunLogError:
    return refused_write(path, error, again="repeat the command", advice=ELSEWHERE)
