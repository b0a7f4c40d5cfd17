"""What fewer bits of upload cost in accuracy and save in time: `python -m benchmarks.precision --seeds 10`.

The paper's CIFAR-10 plant is trained at an eighth of its width, with the costs of the full one, for every seed and
number of bits. Every finished run adds one line to `docs/studies/precision.csv`; runs that have a line are skipped, so
a study can be stopped and continued. `--summary` prints paired differences from 32 bits.
"""

__all__ = ["Line", "differences", "missing"]

import argparse
import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import fedfloor
from benchmarks.studies import PLACE, append, commit, lines_of
from fedfloor.reports.cells import change, plain
from fedfloor.reports.reading import collect
from fedfloor.reports.statistics import final_score, interval, rounds_to_reach

LINES = PLACE / "docs" / "studies" / "precision.csv"
# Every seed has a plant of its own. Lines of before have the preset's former name, `paper-cifar10`, in their command.
SCENARIO, POLICY = "paper-cifar10-random", "ddsra:v=0.01"
WIDTHS = ("model.width=0.125", "costs.width=1.0")
FULL, UPLOADS = 32, (32, 16, 8)


@dataclass(frozen=True, slots=True)
class Line:
    """One finished run."""

    upload: int  #: [bit] per number
    seed: int
    rounds: int
    level: float  #: accuracy whose time is taken
    final_accuracy: float  #: as reports define it
    mean_delay_s: float
    time_to_level_s: float  #: simulated time; nan if the run does not reach it
    clock_s: float  #: simulated time of the run
    command: str
    commit: str

    @property
    def setting(self) -> tuple[int, int, int, float]:
        """What tells runs apart."""
        return self.upload, self.seed, self.rounds, self.level


def missing(lines: Sequence[Line], seeds: Sequence[int], rounds: int, level: float) -> list[tuple[int, int]]:
    """Seed and bits of every run that has no line yet, seed by seed, so that pairs are complete early."""
    done = {line.setting for line in lines}
    return [(seed, bits) for seed in seeds for bits in UPLOADS if (bits, seed, rounds, level) not in done]


def differences(lines: Sequence[Line]) -> list[str]:
    """Paired differences of 16 and 8 bits from 32, over the seeds that both have: mean [95 % t-interval]."""
    measures: dict[str, Callable[[Line, Line], float]] = {
        "final accuracy [points]": lambda few, full: 100 * (few.final_accuracy - full.final_accuracy),
        "mean delay [%]": lambda few, full: 100 * (few.mean_delay_s / full.mean_delay_s - 1),
        "time to the level [%]": lambda few, full: 100 * (few.time_to_level_s / full.time_to_level_s - 1),
    }
    full_lines = {(line.seed, line.rounds, line.level): line for line in lines if line.upload == FULL}
    texts = []
    for rounds, level in sorted({(line.rounds, line.level) for line in lines}):
        texts.append(f"{rounds} rounds, level {level:.0%}, difference from {FULL} bits: mean [paired 95 % interval]")
        for bits in UPLOADS[1:]:
            pairs = [
                (line, full_lines[line.seed, rounds, level])
                for line in lines
                if (line.upload, line.rounds, line.level) == (bits, rounds, level)
                and (line.seed, rounds, level) in full_lines
            ]
            for name, measure in measures.items():
                values = [value for few, full in pairs if math.isfinite(value := measure(few, full))]
                result = change(interval(values), "") if values else "none"
                texts.append(f"  {bits:2} bits  {name:24}  {result}  ({len(values)} of {len(pairs)} seeds)")
    return texts


def finished(seed: int, bits: int, rounds: int, level: float, workers: int | None) -> Line:
    """Train one run and read its line from its log."""
    overrides, ran = [*WIDTHS, f"precision.upload={bits}"], commit()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        fedfloor.run(SCENARIO, POLICY, rounds=rounds, seed=seed, overrides=overrides, out=folder, workers=workers)
        (run,) = collect([folder]).runs
        accuracy = final_score(run)
        assert accuracy is not None
        reached = rounds_to_reach(run, level)
        sets = " ".join(f"--set {entry}" for entry in overrides)
        return Line(
            upload=bits,
            seed=seed,
            rounds=rounds,
            level=level,
            final_accuracy=accuracy,
            mean_delay_s=run.summary.mean_delay,
            time_to_level_s=math.nan if reached is None else run.records[reached - 1].clock,
            clock_s=run.summary.clock,
            command=f"fedfloor run {SCENARIO} --policy {POLICY} --seed {seed} --rounds {rounds} {sets}",
            commit=ran,
        )


def main() -> None:
    """Train what is missing, or print the differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="train seeds 1 to this number")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--level", type=float, default=0.25, help="accuracy whose simulated time is taken")
    parser.add_argument("--workers", type=int, help="training processes; one per core if not given")
    parser.add_argument("--csv", type=Path, default=LINES, help="file of finished runs")
    parser.add_argument("--summary", action="store_true", help="train nothing; print paired differences")
    arguments = parser.parse_args()
    if not arguments.summary:
        seeds = range(1, arguments.seeds + 1)
        for seed, bits in missing(lines_of(arguments.csv, Line), seeds, arguments.rounds, arguments.level):
            line = finished(seed, bits, arguments.rounds, arguments.level, arguments.workers)
            append(arguments.csv, line)
            delay = plain(line.mean_delay_s)
            print(f"seed {seed}, {bits} bits: accuracy {line.final_accuracy:.1%}, mean delay {delay} s", flush=True)
    print("\n".join(differences(lines_of(arguments.csv, Line))))


if __name__ == "__main__":
    main()
