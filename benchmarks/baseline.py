"""The best fixed allocation of a scenario, for its [baseline]: `python -m benchmarks.baseline quick`.

Best means: most completed floor-rounds under the policy `random`, then the least mean delay, over the grid below, on
seeds that nothing else uses.
"""

import argparse
import itertools

import numpy as np

import fedfloor
from fedfloor.rounds import run_rounds
from fedfloor.scenario import Baseline
from fedfloor.scheduling.random import RandomScheduler
from fedfloor.simulation import SimulatedPlant, simulated_rates

SEEDS = (90_001, 90_002, 90_003)
FREQUENCY_SHARES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 0.75, 1.0)
POWER_SHARES = (0.25, 0.5, 0.75, 1.0)


def main() -> None:
    """Try the grid and print the best allocations."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario")
    parser.add_argument("--rounds", type=int, default=100, help="rounds per seed")
    arguments = parser.parse_args()
    plants = [fedfloor.load(arguments.scenario, seed=seed, rounds=arguments.rounds) for seed in SEEDS]
    cuts = range(plants[0].training.min_cut, len(plants[0].layers) + 1)
    found = []
    for cut, frequency, power in itertools.product(cuts, FREQUENCY_SHARES, POWER_SHARES):
        baseline = Baseline(cut=cut, frequency_share=frequency, power_share=power)
        completed, delays = 0, []
        for plant in plants:
            driver = SimulatedPlant(plant.model_copy(update={"baseline": baseline}), simulated_rates(plant))
            for record in run_rounds(driver, RandomScheduler(), plant.rounds):
                completed += int(record.outcome.completed.sum())
                delays.append(record.delay)
        found.append((-completed, float(np.mean(delays)), cut, frequency, power))
    possible = len(SEEDS) * arguments.rounds * min(plants[0].radio.channels, len(plants[0].floors))
    print(
        f"{arguments.scenario}: {len(found)} allocations, {len(SEEDS)} seeds x {arguments.rounds} rounds, policy random"
    )
    print(f"{'cut':>4} {'frequency':>10} {'power':>6} {'completed':>10} {'mean delay':>11}")
    for completed, delay, cut, frequency, power in sorted(found)[:5]:
        print(f"{cut:4} {frequency:10.2f} {power:6.2f} {-completed / possible:10.1%} {delay:9.2f} s")


if __name__ == "__main__":
    main()
