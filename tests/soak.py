"""Runs under random faults, for as long as one likes: `make soak MINUTES=20`.

Every trial starts a command of the program, does something bad to it, lets it continue as a user would, and compares
what it leaves with what an undisturbed run leaves. A trial must end `identical`. Only where a file was damaged may it
also end `refused`: with exit code 2, and with the damaged run as it was. Anything else is a defect: a result that
differs, a run that cannot be continued, a traceback, or a process that hangs, a training process that outlives its
command included.
"""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fedfloor.rounds.listeners.checkpoint import CHECKPOINT
from fedfloor.rounds.listeners.log import ROUNDS, TIMINGS
from fedfloor.runs.folder import SCENARIO

_SMALL = ("training.evaluate_every=2", "training.checkpoint_every=1", "training.batch_fraction=0.05")
_ESTIMATED = ("participation.estimate_every=3", "participation.estimate_samples=8", "participation.observe_every=4")
_UNIFORM = "participation.rates=uniform"
_PATIENCE = 300.0  #: [s] after which a command counts as hanging
_BAD_ENDS = ("different", "stuck", "traceback", "hanging")


@dataclass(frozen=True)
class Kind:
    """A command and how it is continued."""

    name: str
    arguments: str
    overrides: tuple[str, ...] = ()
    resumes: bool = False  #: with --resume; otherwise by the same command

    def command(self, folder: Path, *, resume: bool = False) -> list[str]:
        """The command that writes this folder."""
        settings = [part for entry in self.overrides for part in ("--set", entry)]
        more = ["--resume"] if resume and self.resumes else []
        program = [sys.executable, "-m", "fedfloor", *self.arguments.split(), *settings]
        return [*program, "--out", str(folder), "--quiet", *more]


KINDS = (
    Kind("simulate", "simulate quick --policy random --rounds 400"),
    Kind("run", "run quick --policy random --rounds 6 --workers 2", (*_SMALL, *_ESTIMATED), resumes=True),
    Kind("run, ddsra", "run quick --policy ddsra:v=1 --rounds 5 --workers 1", (*_SMALL, _UNIFORM), resumes=True),
    Kind(
        "compare",
        "compare quick --policy random --policy round_robin --seeds 1 --rounds 4 --workers 2",
        (*_SMALL, _UNIFORM),
    ),
)


def results(folder: Path) -> dict[str, bytes]:
    """What must be equal of equal runs: everything but wall-clock times and pictures of them."""
    files = (path for path in folder.rglob("*") if path.is_file())
    wanted = (".jsonl", ".safetensors", "state.json", "bounds.json", "holding.json", "scenario.toml")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if path.name != TIMINGS and path.name.endswith(wanted)
    }


@dataclass
class Trial:
    """One folder, one command, one source of trouble."""

    kind: Kind
    folder: Path
    chance: random.Random
    temporary: Path | None = None  #: where the command keeps temporary files, if not where others do

    def start(self, *, resume: bool = False) -> subprocess.Popen[str]:
        """Start the command; errors that it has no words for show where they come from."""
        command = self.kind.command(self.folder, resume=resume)
        more = {} if self.temporary is None else {"TMPDIR": str(self.temporary)}
        environment = {**os.environ, "FEDFLOOR_TRACEBACK": "1", **more}
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)

    def finish(self, process: "subprocess.Popen[str]") -> str:
        """Wait for the end and return what was said; a hanging process or a traceback is a defect.

        Processes that the command has started write to the same pipe, so this waits for them too.
        """
        try:
            _, said = process.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            for number in [*_below(process.pid), process.pid]:
                _send(number, signal.SIGKILL)
            process.communicate()
            raise DefectError("hanging", str(process.args)) from None
        if "Traceback" in said:
            raise DefectError("traceback", said[-2000:])
        return said or f"ended with code {process.returncode}"

    def carry_on(self, attempts: int = 3) -> str:
        """Continue undisturbed until the command succeeds; what it says if it refuses."""
        said = ""
        for _ in range(attempts):
            if not self.kind.resumes and self.kind.name == "simulate":
                shutil.rmtree(self.folder, ignore_errors=True)
            process = self.start(resume=self.folder.exists())
            said = self.finish(process)
            if process.returncode == 0:
                return ""
        return said


class DefectError(Exception):
    """What must not happen: its kind, and details for whoever looks into it."""


def disturbed_by_signals(trial: Trial) -> str:
    """Send signals to random processes of the command, up to three times, then let it finish."""
    for _ in range(trial.chance.randint(1, 3)):
        if trial.kind.name == "simulate":
            shutil.rmtree(trial.folder, ignore_errors=True)
        process = trial.start(resume=trial.folder.exists())
        time.sleep(trial.chance.uniform(0.3, 12.0))
        everybody = [process.pid, *_below(process.pid)]
        victims = everybody if trial.chance.random() < 0.3 else [trial.chance.choice(everybody)]  # as Ctrl-C does
        sent = trial.chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP])
        for victim in victims:
            _send(victim, sent)
        if sent == signal.SIGSTOP:
            time.sleep(1.0)
            for victim in victims:
                _send(victim, signal.SIGCONT)
        trial.finish(process)
    return trial.carry_on()


def beside_a_second_process(trial: Trial) -> str:
    """Stop a command half-way, then let two continue it at once."""
    _stop_half_way(trial)
    if trial.kind.name == "simulate":
        shutil.rmtree(trial.folder, ignore_errors=True)
    both = [trial.start(resume=trial.folder.exists()) for _ in range(2)]
    for process in both:
        trial.finish(process)
    return trial.carry_on()


def on_a_full_disk(trial: Trial) -> str:
    """Let the disk of a command be too small, or fill up while it runs, then make room."""
    disk = trial.folder.parent
    copy = disk.with_name(f"{disk.name}-copy")
    fills_up = trial.chance.random() < 0.5
    with _small_disk(disk, 16_384 if fills_up else trial.chance.randint(0, 3000)) as grow:
        if trial.chance.random() < 0.3:
            trial.temporary = disk / "temporary"
            trial.temporary.mkdir()
        process = trial.start()
        if fills_up:
            time.sleep(trial.chance.uniform(1.0, 12.0))
            _fill(disk / "filler", leave=trial.chance.randint(0, 100))
        trial.finish(process)
        (disk / "filler").unlink(missing_ok=True)
        grow()
        said = trial.carry_on()
        if trial.folder.exists():
            shutil.copytree(trial.folder, copy)
    if copy.exists():
        copy.rename(trial.folder)
    return said


def _fill(path: Path, *, leave: int) -> None:
    """Fill the disk that a file lies on but for some kilobytes."""
    room = os.statvfs(path.parent)
    with suppress(OSError), path.open("wb") as file:  # another process may be quicker
        file.write(bytes(max(0, room.f_bavail * room.f_frsize - 1024 * leave)))


def with_a_damaged_file(trial: Trial) -> str:
    """Stop a command half-way, flip a bit or cut a file that it relies on, then continue."""
    _stop_half_way(trial)
    runs = [path.parent for path in trial.folder.rglob(ROUNDS)]
    if not runs:  # it was stopped too early
        return trial.carry_on()
    run = trial.chance.choice(runs)
    files = [run / ROUNDS, run / SCENARIO, run / TIMINGS, *(run / CHECKPOINT).glob("[!.]*")]
    path = trial.chance.choice([file for file in files if file.exists() and file.stat().st_size] or [run / ROUNDS])
    content = bytearray(path.read_bytes() or b"\n")
    place = trial.chance.randrange(len(content))
    if trial.chance.random() < 0.5:
        content[place] ^= 1 << trial.chance.randrange(8)
    else:
        del content[place:]
    path.write_bytes(content)
    before = results(run)
    process = trial.start(resume=True)
    said = trial.finish(process)
    if process.returncode == 0:
        return ""
    if process.returncode != 2:
        raise DefectError("stuck", said[-2000:])
    if results(run) != before:
        raise DefectError("different", f"{run}: was changed although it was refused: {said[-500:]}")
    return "refused"


FAULTS: tuple[tuple[str, Callable[[Trial], str]], ...] = (
    ("signals", disturbed_by_signals),
    ("a second process", beside_a_second_process),
    ("a full disk", on_a_full_disk),
    ("a flipped bit or a cut", with_a_damaged_file),
)


def _stop_half_way(trial: Trial) -> None:
    process = trial.start()
    time.sleep(trial.chance.uniform(2.0, 15.0))
    process.kill()
    trial.finish(process)


@contextmanager
def _small_disk(place: Path, kilobytes: int) -> Iterator[Callable[[], None]]:
    """A file system at `place` with little room, and what gives it more."""
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes + 8}k", "tmpfs", place], check=True)

    def grow() -> None:
        subprocess.run(["mount", "-o", "remount,size=256m", place], check=True)

    try:
        yield grow
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def _below(parent: int) -> list[int]:
    """Processes that a process started, and those that they started."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found = re.search(r"\) \S (\d+)", (entry / "stat").read_text())
            except OSError:  # it has ended
                continue
            if found:
                parents[int(entry.name)] = int(found[1])
    children = [number for number, above in parents.items() if above == parent]
    return [*children, *(number for child in children for number in _below(child))]


def _send(number: int, sent: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(number, sent)


def judged(trial: Trial, fault: Callable[[Trial], str], expected: dict[str, bytes]) -> str:
    """How a trial ends."""
    said = fault(trial)
    if said == "refused":
        return said
    if said:
        raise DefectError("stuck", said[-2000:])
    left = results(trial.folder)
    if left != expected:
        names = [name for name in sorted(left.keys() | expected.keys()) if left.get(name) != expected.get(name)]
        raise DefectError("different", f"{trial.folder}: {', '.join(names)}")
    return "identical"


def soak(minutes: float, seed: int, place: Path, console: Console) -> Counter[tuple[str, str, str]]:
    """Trials of random kinds and faults until the time is up; counted by kind, fault and end."""
    references: dict[str, dict[str, bytes]] = {}
    for kind in KINDS:
        trial = Trial(kind, place / "references" / kind.name, random.Random(seed))
        assert not trial.carry_on(), kind.name
        references[kind.name] = results(trial.folder)
    counts: Counter[tuple[str, str, str]] = Counter()
    end, number = time.monotonic() + 60.0 * minutes, 0
    while time.monotonic() < end:
        chance = random.Random(f"{seed}-{number}")
        kind, (fault, cause) = chance.choice(KINDS), chance.choice(FAULTS)
        if (kind, cause) == (KINDS[0], with_a_damaged_file):  # a simulation is repeated, not continued
            number += 1
            continue
        trial = Trial(kind, place / f"trial-{number}" / kind.name, chance)
        trial.folder.parent.mkdir(parents=True)
        try:
            outcome = judged(trial, cause, references[kind.name])
        except DefectError as defect:
            outcome = defect.args[0]
            console.print(f"trial {number} of seed {seed}: {kind.name}, {fault}: {outcome}: {defect.args[1]}")
        else:
            shutil.rmtree(trial.folder.parent, ignore_errors=True)
        counts[kind.name, fault, outcome] += 1
        number += 1
    return counts


def main() -> None:
    """Print one table; exit code 1 if there was a defect."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    console = Console(width=100)
    place = Path(tempfile.mkdtemp(prefix="soak-"))
    counts = soak(chosen.minutes, chosen.seed, place, console)
    ends = ("identical", "refused", *_BAD_ENDS)
    table = Table("command", "fault", *ends, title=f"{sum(counts.values())} trials, seed {chosen.seed}")
    for kind in KINDS:
        for fault, _ in FAULTS:
            table.add_row(kind.name, fault, *(str(counts[kind.name, fault, end] or ".") for end in ends))
    console.print(table)
    bad = sum(count for (_, _, end), count in counts.items() if end in _BAD_ENDS)
    if not bad:
        shutil.rmtree(place, ignore_errors=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
