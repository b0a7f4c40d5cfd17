"""A plant of real processes under random faults: `make soak-plant`, or `python -m tests.soak_plant --seed 1`.

A base station, 2 gateways and 4 devices do small rounds over mutual TLS. Meanwhile programs are killed, stopped and
told to end, and links are cut or silent; what has ended is started again after a while. The seed fixes which faults hit
whom, after how many rounds, and for how long. It ends well, with exit code 0, if all rounds are in the log, none that
was in a checkpoint is lost or changed, none lasted longer than its deadline, the model has learnt, no program has run
into a mistake of ours, and no process, port or temporary file is left.
"""

import argparse
import math
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from fedfloor.deploy.authority import BASE_STATION
from tests.deploy.programs import PATIENCE, Programs, of_floor

_KILL, _TERM, _STOP, _CUT, _SILENCE = "kill -9", "SIGTERM", "SIGSTOP", "cut connection", "silent link"
_SIGNALS = {_KILL: signal.SIGKILL, _TERM: signal.SIGTERM}
_RATE = 500_000.0  #: [byte/s] of the gateways' links, so that a round takes two seconds on any machine
_MARGIN = 30.0  #: [s] of a deadline: the machine may be busy


@dataclass(frozen=True)
class Fault:
    """Something bad that happens once."""

    after: int  #: rounds that are done
    delay: float  #: [s] from then on
    kind: str
    victim: str
    lasts: float  #: [s] until it is over or the program is started again


def drawn(victims: list[str], faults: int, rounds: int, seed: int) -> list[Fault]:
    """Faults at random moments, one in each of as many equal parts of the rounds but the last ten."""
    chance, width = random.Random(seed), max(rounds - 10, 1) / max(faults, 1)
    made = []
    for place in (1 + int((k + chance.random()) * width) for k in range(faults)):
        victim = chance.choice([BASE_STATION, *victims])
        kinds = [_KILL, _KILL, _TERM, _STOP] + ([] if victim == BASE_STATION else [_CUT, _SILENCE])
        made.append(Fault(place, chance.uniform(0.0, 1.5), chance.choice(kinds), victim, chance.uniform(0.5, 12.0)))
    return made


@dataclass
class Soak:
    """A plant, its faults, and what is wrong with it."""

    plant: Programs
    rounds: int
    console: Console
    kept: list[dict[str, Any]] = field(default_factory=list)  #: rounds that must not change
    problems: list[str] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    restarts: int = 0

    def done(self) -> int:
        """Rounds that the log has."""
        return len(self.plant.records())

    def run(self, faults: list[Fault]) -> None:
        """Do all rounds, with all faults."""
        self.plant.start_all()
        for fault in faults:
            self._wait_for(fault.after)
            time.sleep(fault.delay)
            begun = time.monotonic()
            self.happen(fault)
            role = {BASE_STATION: "base station"}.get(fault.victim, "device" if "." in fault.victim else "gateway")
            self.counts[role, fault.kind] += 1
            self.console.print(
                f"after {self.done()} rounds: {fault.kind} of {fault.victim} for {time.monotonic() - begun:.1f} s"
            )
        self._wait_for(self.rounds)
        self._finish()

    def happen(self, fault: Fault) -> None:
        """Let a fault happen, and what follows from it."""
        plant, victim = self.plant, fault.victim
        if fault.kind in _SIGNALS:
            self._end(victim, _SIGNALS[fault.kind])
            if victim == BASE_STATION:
                self._compare(plant.kept_records())
            time.sleep(fault.lasts / 4.0)
            plant.start(victim)
            self.restarts += 1
        elif fault.kind == _STOP:
            plant.send(victim, signal.SIGSTOP)
            time.sleep(fault.lasts)
            plant.send(victim, signal.SIGCONT)
        elif fault.kind == _CUT:
            plant.relays[victim].cut()
        else:
            plant.relays[victim].silence(on=True)
            time.sleep(fault.lasts)
            plant.relays[victim].silence(on=False)

    def _wait_for(self, rounds: int) -> None:
        """Wait for rounds; a base station that ends before is a problem, and so is one that hangs."""
        last, since = self.done(), time.monotonic()
        while last < rounds:
            if self.plant.running[BASE_STATION].poll() is not None:
                raise RuntimeError(f"the base station has ended: {self.plant.log(BASE_STATION)[-1000:]}")
            if self.done() > last:
                last, since = self.done(), time.monotonic()
            if time.monotonic() - since > PATIENCE:  # the base station itself waits half as long for anybody
                raise RuntimeError(f"no round has ended for {PATIENCE:g} s")
            time.sleep(0.05)

    def _compare(self, records: list[dict[str, Any]]) -> None:
        if records[: len(self.kept)] != self.kept:
            self.problems.append(f"rounds before {len(self.kept)} are lost or changed")
        self.kept = records

    def _end(self, name: str, number: signal.Signals) -> None:
        """End a program; what SIGTERM ends has the code 0, unless it has not really begun."""
        had_begun = self.plant.has_begun(name)
        code = self.plant.end(name, number)
        if number == signal.SIGTERM and code != 0 and had_begun:
            self.problems.append(f"{name} ended with {code} after SIGTERM")

    def _finish(self) -> None:
        """Let the base station end by itself and end the others, then look at what is left."""
        plant = self.plant
        station = plant.running.pop(BASE_STATION)
        if station.wait(PATIENCE) != 0:
            self.problems.append(f"the base station ended with {station.returncode}")
        plant.ended.add(station.pid)
        for name in list(plant.running):
            self._end(name, signal.SIGTERM)
        self._compare(plant.kept_records())
        records = plant.records()
        if [record["round"] for record in records] != list(range(self.rounds)):
            self.problems.append(f"the log has {len(records)} rounds instead of {self.rounds}")
        if late := plant.late_rounds():
            self.problems.append(f"rounds lasted longer than their deadlines: {late}")
        if left := plant.left_behind():
            self.problems.append(f"left behind: {', '.join(left)}")
        self.problems += [f"a mistake of ours in the log of {name}" for name in plant.tracebacks()]
        losses = [record["loss"] for record in records if record["loss"] is not None]
        if not (losses and all(map(math.isfinite, losses)) and losses[-1] < losses[0]):
            self.problems.append(f"the training loss went from {losses[:1]} to {losses[-1:]}")

    def show(self, seconds: float) -> None:
        """Print what happened."""
        kinds = (_KILL, _TERM, _STOP, _CUT, _SILENCE)
        table = Table("victim", *kinds, title=f"{sum(self.counts.values())} faults in {self.done()} rounds")
        for role in ("base station", "gateway", "device"):
            table.add_row(role, *(str(self.counts[role, kind] or ".") for kind in kinds))
        self.console.print(table)
        records = self.plant.records()
        for floor in self.plant.floors:
            entries = [of_floor(record, floor) for record in records]
            completed, lost = (sum(entry["completed"] for entry in entries), sum(bool(e["failure"]) for e in entries))
            self.console.print(f"{floor}: {completed} rounds completed, {lost} lost")
        losses, accuracies = (
            [entry[key] for entry in records if entry[key] is not None] for key in ("loss", "accuracy")
        )
        self.console.print(f"{seconds:.0f} s, {self.restarts} programs started again")
        if losses and accuracies:
            learnt = f"training loss {losses[0]:.3f} to {losses[-1]:.3f}"
            self.console.print(f"{learnt}, test accuracy {100 * accuracies[0]:.1f} % to {100 * accuracies[-1]:.1f} %")
        for problem in self.problems:
            self.console.print(f"problem: {problem}")


def main() -> None:
    """Print the faults and one table; exit code 1 if something went wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    console, begun = Console(width=110), time.monotonic()
    place = Path(tempfile.mkdtemp(prefix="soak-plant-"))
    more = (f"deploy.deadline_margin_s={_MARGIN}", "training.local_iterations=2")
    plant = Programs(place, *more, rounds=chosen.rounds, relayed=True)
    for floor in plant.floors:
        plant.relays[floor].rate = _RATE
    soak = Soak(plant, chosen.rounds, console)
    try:
        soak.run(drawn([*plant.above], chosen.faults, chosen.rounds, chosen.seed))
    except (RuntimeError, AssertionError) as error:
        soak.problems.append(str(error))
    finally:
        plant.close()
    soak.show(time.monotonic() - begun)
    if soak.problems:
        console.print(f"logs: {place}")
        sys.exit(1)
    shutil.rmtree(place)


if __name__ == "__main__":
    main()
