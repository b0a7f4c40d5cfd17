"""What policies take per round, by simulation alone: `python -m benchmarks.delays --seeds 20`.

Delays, failures and energies need no training, so many seeds are cheap and decide what a few trained runs cannot. The
part `claims` repeats the paper's comparison; the part `leaderboard` has every policy of the leaderboard that needs no
training, on its plants and with the bits of its best setting. Every finished run adds one line to
`docs/studies/delays.csv`; runs that have a line are skipped, so a study can be stopped and continued. Afterwards, and
with `--summary` at once, it prints every policy and paired differences.
"""

__all__ = ["PARTS", "Line", "claims", "finished", "leaderboard", "summary"]

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import MappingProxyType

from rich.progress import track

import fedfloor
from benchmarks.studies import PLACE, append, commit, lines_of, missing
from benchmarks.study.parts import LEVERS, RACE, SCENARIOS, variants
from benchmarks.study.runs import Run
from fedfloor.reports.cells import change, percentage, plain, with_interval
from fedfloor.reports.statistics import interval
from fedfloor.rounds.summary import summarise
from fedfloor.scheduling.registry import make_policy, parse_policy
from fedfloor.scheduling.traits import needs_training

LINES = PLACE / "docs" / "studies" / "delays.csv"
#: those that need no training; `loss_driven` does
POLICIES = ("ddsra:v=0.01", "ddsra:v=1000", "ddsra:v=10000", "delay_driven", "random", "round_robin")
#: the paper's claims about delays: first policy against second, and what it says
CLAIMS = (
    ("ddsra:v=0.01", "delay_driven", "+7 % on CIFAR-10, +6 % on SVHN"),
    ("ddsra:v=10000", "ddsra:v=0.01", "less"),
)


@dataclass(frozen=True, slots=True)
class Line:
    """One finished run."""

    scenario: str
    policy: str
    settings: str  #: entries of --set, separated by spaces
    seed: int
    rounds: int
    mean_delay_s: float
    clock_s: float  #: simulated time of the run
    completed: float  #: share of the selected floors whose model was averaged
    shortfall: float  #: largest of any floor
    mean_energy_j: float  #: per round
    command: str
    commit: str

    @property
    def run(self) -> Run:
        """What ran."""
        return Run(self.scenario, self.policy, self.settings, self.seed, self.rounds)


def claims(seeds: Sequence[int]) -> list[Run]:
    """The paper's comparison; `paper-svhn` has the same plant and rates in simulations, so its delays are the same."""
    return [Run("paper-cifar10", policy, "", seed, 300) for seed, policy in product(seeds, POLICIES)]


def leaderboard(seeds: Sequence[int]) -> list[Run]:
    """Every policy of the leaderboard that needs no training."""
    bits = " ".join(LEVERS["8 bits up, 16 bits down"])
    return [
        Run(scenario, policy, bits, seed, RACE[scenario])
        for scenario in SCENARIOS
        for policy in variants(scenario)
        if not needs_training(make_policy(parse_policy(policy))[1])
        for seed in seeds
    ]


PARTS: MappingProxyType[str, Callable[[Sequence[int]], list[Run]]] = MappingProxyType(
    {"claims": claims, "leaderboard": leaderboard}
)


def finished(run: Run) -> Line:
    """Simulate one run."""
    records = fedfloor.simulate(
        run.scenario, run.policy, run.rounds, seed=run.seed, overrides=run.settings.split()
    ).records
    ended = summarise(records)
    return Line(
        scenario=run.scenario,
        policy=run.policy,
        settings=run.settings,
        seed=run.seed,
        rounds=run.rounds,
        mean_delay_s=ended.mean_delay,
        clock_s=ended.clock,
        completed=ended.completed / ended.selected if ended.selected else 0.0,
        shortfall=ended.shortfall,
        mean_energy_j=ended.mean_energy,
        command=run.command.replace("fedfloor run", "fedfloor simulate", 1),
        commit=commit(),
    )


def summary(lines: Sequence[Line]) -> list[str]:
    """Every policy by itself, and the paper's claims about delays: mean and 95 % t-interval, paired by seed."""
    texts = []
    for scenario, settings, rounds in dict.fromkeys((line.scenario, line.settings, line.rounds) for line in lines):
        own = [line for line in lines if (line.scenario, line.settings, line.rounds) == (scenario, settings, rounds)]
        delays = {(line.policy, line.seed): line.mean_delay_s for line in own}
        sets = f" with {settings}" if settings else ""
        texts.append(f"{scenario}{sets}, {rounds} rounds: mean ± half the 95 % t-interval")
        for policy in dict.fromkeys(line.policy for line in own):
            part = [line for line in own if line.policy == policy]
            completed = percentage(sum(line.completed for line in part) / len(part))
            delay, shortfall = (
                with_interval(interval([getattr(line, key) for line in part])) for key in ("mean_delay_s", "shortfall")
            )
            energy = plain(sum(line.mean_energy_j for line in part) / len(part))
            row = f"mean delay {delay} s, completed {completed}, worst shortfall {shortfall}, energy {energy} J"
            texts.append(f"  {policy:32}  {row}  ({len(part)} seeds)")
        for first, second, said in CLAIMS:
            seeds = sorted(
                {line.seed for line in own if (first, line.seed) in delays and (second, line.seed) in delays}
            )
            if seeds:
                longer = [100.0 * (delays[first, seed] / delays[second, seed] - 1.0) for seed in seeds]
                ours = change(interval(longer), " %")
                texts.append(f"  time of {first} against {second}: {ours}; the paper: {said}")
    return texts


def main() -> None:
    """Simulate what is missing, then print what all lines say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=[*PARTS, "all"], default="all", help="part of the study")
    parser.add_argument("--seeds", type=int, default=20, help="simulate seeds 1 to this number")
    parser.add_argument("--csv", type=Path, default=LINES, help="file of finished runs")
    parser.add_argument("--summary", action="store_true", help="simulate nothing")
    arguments = parser.parse_args()
    seeds, parts = range(1, arguments.seeds + 1), PARTS if arguments.part == "all" else [arguments.part]
    runs = [run for part in parts for run in PARTS[part](seeds)]
    if not arguments.summary:
        for run in track(missing(lines_of(arguments.csv, Line), runs), "runs"):
            append(arguments.csv, finished(run))
    print("\n".join(summary([line for line in lines_of(arguments.csv, Line) if line.run in set(runs)])))


if __name__ == "__main__":
    main()
