"""What V buys where far floors alone hold some classes: `python -m benchmarks.specialists --seeds 3`.

Trains the preset `specialists` with every policy and seed, and takes the accuracy of all classes and of those that a
single floor holds, in each of the last rounds. Every finished run adds one line to `docs/studies/specialists.csv`; runs
that have a line are skipped. Then it prints the table of docs/specialists.md.
"""

__all__ = ["POLICIES", "Line", "finished", "lonely_classes", "table"]

import argparse
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.studies import PLACE, append, commit, lines_of
from fedfloor.arrays import Floats
from fedfloor.reports.cells import with_interval
from fedfloor.reports.statistics import first_reaching, interval, smoothed
from fedfloor.rounds.loop import run_rounds
from fedfloor.rounds.plants.learning import LearningPlant
from fedfloor.rounds.summary import final_rounds
from fedfloor.runs.planned import planned_run
from fedfloor.runs.train import job_of
from fedfloor.scenario import Scenario
from fedfloor.training.data.holding import gather
from fedfloor.workers.engine import Local

LINES = PLACE / "docs" / "studies" / "specialists.csv"
SCENARIO = "specialists"
POLICIES = ("ddsra:v=0.01", "ddsra:v=1", "ddsra:v=10", "ddsra:v=100", "delay_driven", "random")
LEVEL = 0.6  #: accuracy whose simulated time is taken


@dataclass(frozen=True, slots=True)
class Line:
    """One finished run; accuracies are means over the last rounds."""

    policy: str
    seed: int
    rounds: int
    accuracy: float  #: of all classes
    lonely: float  #: of the classes that a single floor holds
    others: float  #: of the other classes
    served: float  #: share of rounds that the floors with such classes completed
    mean_delay_s: float
    time_to_level_s: float  #: simulated time until the smoothed accuracy is 60 %; nan if it never is
    commit: str

    @property
    def setting(self) -> tuple[str, int, int]:
        """What tells runs apart."""
        return self.policy, self.seed, self.rounds


def lonely_classes(scenario: Scenario) -> list[int]:
    """Labels that only one floor holds."""
    floors = Counter(label for floor in scenario.floors for label in floor.classes or ())
    return sorted(label for label, count in floors.items() if count == 1)


def finished(policy: str, seed: int, rounds: int) -> Line:
    """Train one run."""
    planned = planned_run(SCENARIO, policy, rounds, seed=seed, training=True)
    holding = gather(planned.scenario)
    scenario, lonely = holding.scenario, lonely_classes(holding.scenario)
    keepers = [m for m, floor in enumerate(scenario.floors) if set(floor.classes or ()) & set(lonely)]
    plant = LearningPlant(scenario, Local(job_of(scenario, "cpu"), holding.samples))
    tested, values, clocks = list[int](), list[float](), list[float]()
    delays, served, classes = list[float](), list[float](), list[Floats]()
    for ended in run_rounds(plant, planned.scheduler, rounds):
        delays.append(ended.record.delay)
        served.append(float(ended.outcome.completed[keepers].mean()))
        if ended.record.accuracy is not None:
            tested.append(ended.record.round + 1)
            values.append(ended.record.accuracy)
            clocks.append(ended.record.clock)
        if ended.record.round >= rounds - final_rounds(rounds):
            confusion, _ = plant.evaluate()  # the test of this round
            assert confusion is not None
            classes.append(np.diag(confusion) / confusion.sum(1))
    curve = smoothed(np.array(tested), np.array(values), final_rounds(rounds))
    reached = first_reaching(np.array(tested), np.array(values), final_rounds(rounds), LEVEL)
    right, is_lonely = np.mean(classes, axis=0), np.isin(np.arange(scenario.model.classes), lonely)
    return Line(
        policy=policy,
        seed=seed,
        rounds=rounds,
        accuracy=float(curve[-1]),
        lonely=float(right[is_lonely].mean()),
        others=float(right[~is_lonely].mean()),
        served=float(np.mean(served)),
        mean_delay_s=float(np.mean(delays)),
        time_to_level_s=math.nan if reached is None else clocks[reached],
        commit=commit(),
    )


def table(lines: Sequence[Line]) -> list[str]:
    """Markdown: one row per policy, means with every seed's value or an interval."""
    heads = ("policy", "accuracy [%]", "lonely classes [%]", "other classes [%]", "rounds of the halls [%]",
             "mean delay [s]", f"time to {LEVEL:.0%} [s]")  # fmt: skip
    rows = [heads, tuple("---" for _ in heads)]
    for policy in dict.fromkeys([*POLICIES, *(line.policy for line in lines)]):
        own = [line for line in lines if line.policy == policy]
        if not own:
            continue
        shares = [[getattr(line, key) for line in own] for key in ("accuracy", "lonely", "others", "served")]
        cells = [with_interval(interval(part), scale=0.01, digits=3) for part in shares]
        times = [line.time_to_level_s for line in own]
        reached = sum(map(math.isfinite, times))
        time = with_interval(interval(times), digits=3) if reached == len(times) else f"{reached} of {len(times)} seeds"
        delay = with_interval(interval([line.mean_delay_s for line in own]), digits=3)
        rows.append((f"`{policy}`", *cells, delay, time if reached else "never"))
    return [f"| {' | '.join(row)} |".replace("| --- ", "|---").replace("--- |", "---|") for row in rows]


def main() -> None:
    """Train what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", action="append", help="policy; all of the study if not given")
    parser.add_argument("--seeds", type=int, default=3, help="train seeds 1 to this number")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--csv", type=Path, default=LINES, help="file of finished runs")
    arguments = parser.parse_args()
    done = {line.setting for line in lines_of(arguments.csv, Line)}
    for seed, policy in product(range(1, arguments.seeds + 1), arguments.policy or POLICIES):
        if (policy, seed, arguments.rounds) not in done:
            append(arguments.csv, finished(policy, seed, arguments.rounds))
    print("\n".join(table([line for line in lines_of(arguments.csv, Line) if line.rounds == arguments.rounds])))


if __name__ == "__main__":
    main()
