"""What policies take per round, by simulation alone: `python -m benchmarks.delays --seeds 20`.

Delays, failures and energies need no training, so many seeds are cheap and decide what a few trained runs cannot. Every
finished run adds one line to `docs/studies/delays.csv`; runs that have a line are skipped, so a study can be stopped
and continued. Afterwards, and with `--summary` at once, it prints every policy and paired differences.
"""

__all__ = ["POLICIES", "SCENARIOS", "Line", "finished", "missing", "summary"]

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import fedfloor
from benchmarks.studies import PLACE, append, commit, lines_of
from fedfloor.reports.cells import change, percentage, plain, with_interval
from fedfloor.reports.statistics import interval
from fedfloor.rounds.summary import summarise

LINES = PLACE / "docs" / "studies" / "delays.csv"
#: paper-svhn has the same plant and the same rates in simulations, so its delays are the same
SCENARIOS = ("paper-cifar10",)
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
    def setting(self) -> tuple[str, str, int, int]:
        """What tells runs apart."""
        return self.scenario, self.policy, self.seed, self.rounds


def missing(
    lines: Sequence[Line], scenarios: Sequence[str], policies: Sequence[str], seeds: Sequence[int], rounds: int
) -> list[tuple[str, str, int]]:
    """Scenario, policy and seed of every run that has no line yet, seed by seed, so that pairs are complete early."""
    done = {line.setting for line in lines}
    every = product(scenarios, seeds, policies)
    return [(name, policy, seed) for name, seed, policy in every if (name, policy, seed, rounds) not in done]


def finished(scenario: str, policy: str, seed: int, rounds: int) -> Line:
    """Simulate one run."""
    ended = summarise(fedfloor.simulate(scenario, policy, rounds, seed=seed).records)
    return Line(
        scenario=scenario,
        policy=policy,
        seed=seed,
        rounds=rounds,
        mean_delay_s=ended.mean_delay,
        clock_s=ended.clock,
        completed=ended.completed / ended.selected if ended.selected else 0.0,
        shortfall=ended.shortfall,
        mean_energy_j=ended.mean_energy,
        command=f"fedfloor simulate {scenario} --policy {policy} --seed {seed} --rounds {rounds}",
        commit=commit(),
    )


def summary(lines: Sequence[Line]) -> list[str]:
    """Every policy by itself, and the paper's claims about delays: mean and 95 % t-interval, paired by seed."""
    texts = []
    for scenario, rounds in sorted({(line.scenario, line.rounds) for line in lines}):
        own = [line for line in lines if (line.scenario, line.rounds) == (scenario, rounds)]
        delays = {(line.policy, line.seed): line.mean_delay_s for line in own}
        texts.append(f"{scenario}, {rounds} rounds: mean ± half the 95 % t-interval")
        for policy in dict.fromkeys(line.policy for line in own):
            part = [line for line in own if line.policy == policy]
            completed = percentage(sum(line.completed for line in part) / len(part))
            delay, shortfall = (
                with_interval(interval([getattr(line, key) for line in part])) for key in ("mean_delay_s", "shortfall")
            )
            energy = plain(sum(line.mean_energy_j for line in part) / len(part))
            row = f"mean delay {delay} s, completed {completed}, worst shortfall {shortfall}, energy {energy} J"
            texts.append(f"  {policy:16}  {row}  ({len(part)} seeds)")
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
    parser.add_argument("--scenario", action="append", help=f"preset or file; {SCENARIOS[0]} if not given")
    parser.add_argument(
        "--policy", action="append", help="policy that needs no training; all of the study if not given"
    )
    parser.add_argument("--seeds", type=int, default=20, help="simulate seeds 1 to this number")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--csv", type=Path, default=LINES, help="file of finished runs")
    parser.add_argument("--summary", action="store_true", help="simulate nothing")
    arguments = parser.parse_args()
    if not arguments.summary:
        scenarios, policies = arguments.scenario or SCENARIOS, arguments.policy or POLICIES
        seeds = range(1, arguments.seeds + 1)
        for run in missing(lines_of(arguments.csv, Line), scenarios, policies, seeds, arguments.rounds):
            append(arguments.csv, finished(*run, arguments.rounds))
    print("\n".join(summary(lines_of(arguments.csv, Line))))


if __name__ == "__main__":
    main()
