"""What policies take per round, by simulation alone: `python -m benchmarks.delays --seeds 20`.

Delays, failures and energies need no training, so many seeds are cheap and decide what a few trained runs cannot. The
part `claims` repeats the paper's comparison; the part `leaderboard` has every policy of the leaderboard that needs no
training, on its plants and with the bits of its best setting. Every finished run adds one line to
`docs/studies/delays.csv`; runs that have a line are skipped, so a study can be stopped and continued. Afterwards, and
with `--summary` at once, it prints the tables of docs/reproduce.md, and with `--write` it renews them.
"""

__all__ = ["PARTS", "Line", "claims", "finished", "leaderboard", "tables"]

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import MappingProxyType

from rich.progress import track

import fedfloor
from benchmarks.studies import PAGE, PLACE, Tables, append, commit, filled, lines_of, markdown, missing
from benchmarks.study.parts import LEVERS, simulated
from benchmarks.study.runs import Run
from fedfloor.reports.cells import change, percentage, with_interval
from fedfloor.reports.statistics import interval, percent_more
from fedfloor.rounds.summary import summarise
from fedfloor.scheduling.registry import make_policy, parse_policy
from fedfloor.scheduling.traits import needs_training

LINES = PLACE / "docs" / "studies" / "delays.csv"
#: those that need no training; `loss_driven` does
POLICIES = ("ddsra:v=0.01", "ddsra:v=1000", "ddsra:v=10000", "delay_driven", "random", "round_robin")
#: the paper's claims about delays: first policy against second, what it says, and the sign that this has
CLAIMS = (
    ("ddsra:v=0.01", "delay_driven", "+7 % on CIFAR-10, +6 % on SVHN", 1),
    ("ddsra:v=10000", "ddsra:v=0.01", "less", -1),
)
PLANTS = ("paper-cifar10", "specialists", "factory")  #: of the leaderboard; `paper-svhn` is the first one again
ROUNDS = 150  #: of a run for the leaderboard


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


def _bits() -> str:
    """Settings of the leaderboard: the bits of our best setting."""
    return " ".join(LEVERS["8 bits up, 16 bits down"])


def leaderboard(seeds: Sequence[int]) -> list[Run]:
    """Every policy of the leaderboard that needs no training."""
    bits = _bits()
    return [
        Run(scenario, policy, bits, seed, ROUNDS)
        for scenario in PLANTS
        for policy in simulated(scenario)
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


def tables(lines: Sequence[Line]) -> Tables:
    """The paper's comparison and claims, and every plant of the leaderboard: means and 95 % t-intervals over seeds."""
    made = {"delays claims": _policies(_of(lines, "paper-cifar10", "")), "delays differences": _differences(lines)}
    bits = _bits()
    return made | {f"delays {scenario}": _policies(_of(lines, scenario, bits)) for scenario in PLANTS}


def _of(lines: Sequence[Line], scenario: str, settings: str) -> list[Line]:
    return [line for line in lines if (line.scenario, line.settings) == (scenario, settings)]


def _policies(lines: Sequence[Line]) -> list[str]:
    """Every policy by itself, the fastest first."""
    rows = []
    for policy in dict.fromkeys(line.policy for line in lines):
        own = [line for line in lines if line.policy == policy]
        delay, shortfall, energy = (
            interval([getattr(line, key) for line in own]) for key in ("mean_delay_s", "shortfall", "mean_energy_j")
        )
        completed = percentage(sum(line.completed for line in own) / len(own))
        cells = (with_interval(delay), completed, with_interval(shortfall, digits=2), with_interval(energy, digits=3))
        rows.append((delay.mean, (f"`{policy}`", str(len(own)), *cells)))
    heads = (
        "policy",
        "seeds",
        "mean round time [s]",
        "floors that completed",
        "worst shortfall",
        "energy per round [J]",
    )
    return markdown(heads, [row for _, row in sorted(rows)])


def _differences(lines: Sequence[Line]) -> list[str]:
    """The paper's claims about delays, paired by seed."""
    delays = {(line.policy, line.seed): line.mean_delay_s for line in _of(lines, "paper-cifar10", "")}
    rows = []
    for first, second, said, sign in CLAIMS:
        seeds = [seed for policy, seed in delays if policy == first and (second, seed) in delays]
        if seeds:
            longer = interval([percent_more(delays[first, seed], delays[second, seed]) for seed in seeds])
            holds = "yes" if longer.excludes_zero and sign * longer.mean > 0.0 else "no"
            rows.append((f"`{first}` against `{second}`", said, change(longer, " %"), str(len(seeds)), holds))
    return markdown(("time of a round", "paper", "ours", "seeds", "holds"), rows)


def main() -> None:
    """Simulate what is missing, then print what all lines say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=[*PARTS, "all"], default="all", help="part of the study")
    parser.add_argument("--seeds", type=int, default=20, help="simulate seeds 1 to this number")
    parser.add_argument("--csv", type=Path, default=LINES, help="file of finished runs")
    parser.add_argument("--summary", action="store_true", help="simulate nothing; print the tables of finished runs")
    parser.add_argument("--write", action="store_true", help="renew the tables of docs/reproduce.md")
    arguments = parser.parse_args()
    seeds, parts = range(1, arguments.seeds + 1), PARTS if arguments.part == "all" else [arguments.part]
    runs = [run for part in parts for run in PARTS[part](seeds)]
    if not arguments.summary:
        for run in track(missing(lines_of(arguments.csv, Line), runs), "runs"):
            append(arguments.csv, finished(run))
    made = tables(lines_of(arguments.csv, Line))
    for name, rows in made.items():
        print("\n".join([f"## {name}", "", *rows, ""]))
    if arguments.write:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), made), encoding="utf-8")


if __name__ == "__main__":
    main()
