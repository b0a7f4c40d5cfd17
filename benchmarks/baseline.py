"""The best fixed allocation of a scenario, for its [baseline]: `python -m benchmarks.baseline quick`.

Tried under the policy `random`, over the grid below, on seeds that nothing else uses. Printed are the allocations that
no other beats both in completed floor-rounds and in mean delay. Most completed alone would pick the slowest of them,
which is a weak opponent in time; fastest alone one that hardly ever completes. The best one completes most floor-rounds
per simulated second.
"""

import argparse
import itertools
import math

import numpy as np

import fedfloor
from fedfloor.rounds.loop import run_rounds
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.scenario import Baseline, Scenario
from fedfloor.scheduling.policies.random import RandomScheduler

SEEDS = (90_001, 90_002, 90_003)
FREQUENCY_SHARES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 0.75, 1.0)
POWER_SHARES = (0.25, 0.5, 0.75, 1.0)


def tried(plants: list[Scenario], baseline: Baseline) -> tuple[int, float]:
    """Completed floor-rounds and mean delay [s] of random scheduling with this allocation."""
    completed, delays = 0, []
    for plant in plants:
        driver = SimulatedPlant(plant.model_copy(update={"baseline": baseline}), simulated_rates(plant))
        for ended in run_rounds(driver, RandomScheduler(), plant.rounds):
            completed += int(ended.outcome.completed.sum())
            delays.append(ended.record.delay)
    return completed, float(np.mean(delays))


def main() -> None:
    """Try the grid, print the allocations that no other beats, and mark the best."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario")
    parser.add_argument("--rounds", type=int, default=100, help="rounds per seed")
    arguments = parser.parse_args()
    plants = [fedfloor.load(arguments.scenario, seed=seed, rounds=arguments.rounds) for seed in SEEDS]
    cuts = range(plants[0].training.min_cut, len(plants[0].layers) + 1)
    found = []
    for cut, frequency, power in itertools.product(cuts, FREQUENCY_SHARES, POWER_SHARES):
        completed, delay = tried(plants, Baseline(cut=cut, frequency_share=frequency, power_share=power))
        found.append((-completed, delay, cut, frequency, power))
    rounds = len(SEEDS) * arguments.rounds
    possible = rounds * min(plants[0].radio.channels, len(plants[0].floors))
    best, fastest = max(found, key=lambda entry: -entry[0] / entry[1]), math.inf
    print(f"{arguments.scenario}: {len(found)} allocations, {rounds} rounds each, policy random")
    print(f"{'cut':>4} {'frequency':>10} {'power':>6} {'completed':>10} {'mean delay':>11} {'per second':>11}")
    for entry in sorted(found):
        completed, delay, cut, frequency, power = -entry[0], *entry[1:]
        if delay < fastest:
            fastest, mark = delay, "  <- best" if entry == best else ""
            figures = f"{completed / possible:10.1%} {delay:9.3f} s {completed / (delay * rounds):11.4f}{mark}"
            print(f"{cut:4} {frequency:10.2f} {power:6.2f} {figures}")


if __name__ == "__main__":
    main()
