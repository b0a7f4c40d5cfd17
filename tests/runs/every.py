"""Every lever and every policy in few short runs, which must leave the same bits wherever and however they run.

The names come from the registries, so that a new rule or policy is among them at once.
"""

import copy
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

import fedfloor
from fedfloor.scheduling.allocating import ALLOCATIONS, Selecting
from fedfloor.scheduling.registry import make_policy, parse_policy, policy_summaries
from fedfloor.training.aggregation.contract import Gathered, Memory, Step
from fedfloor.training.aggregation.registry import rule_summaries
from tests.conftest import small_table

#: levers beside the rule of the aggregation; those of a group are on at the same time
TOGETHER: tuple[tuple[str, ...], ...] = (
    ("training.momentum=0.8", "precision.upload=8", "aggregation.averaged_decay=0.5"),
    ("training.schedule=cosine", "training.schedule_rounds=4", "training.extra_iterations=3", "precision.upload=16"),
    (
        *("aggregation.weights=fedau", "training.momentum=0.5", "precision.boundary=16"),
        *("training.schedule=step", "training.schedule_rounds=2"),
    ),
    ("aggregation.weights=fedau", "precision.upload=8", "precision.download=16", "training.extra_iterations=2"),
    (
        *("aggregation.averaged_decay=0.9", "precision.boundary=8"),
        *("training.schedule=step", "training.schedule_rounds=1", "training.schedule_factor=0.5"),
    ),
)
#: rules of the aggregation, the last one of our own
RULES: tuple[tuple[str, ...], ...] = (
    *((f"aggregation.rule={name}",) for name in rule_summaries()),
    ("aggregation.rule=tests.runs.every:Slow", "aggregation.settings={share=0.25}"),
)
#: settings with which a policy does in a few rounds what it otherwise does in many
_QUICKER = {
    "tifl": "interval=2",
    "power_of_choice": "d=4",
    "oort": "pacer_step=2,epsilon=0.5",
    "fedcs": "deadline_s=1",
}
_MODELS: tuple[tuple[str, ...], ...] = ((), (), ("model.name=cnn", "model.batch_norm=true"))


@dataclass(frozen=True)
class Case:
    """A policy with levers, on the plant of this file."""

    policy: str
    levers: tuple[str, ...]

    def __str__(self) -> str:
        """The name of the test."""
        return ", ".join([self.policy, *(lever.partition(".")[2] for lever in self.levers)])

    @property
    def one_by_one(self) -> "Case":
        """The same with a network whose devices train one by one, so that several processes have work."""
        return Case(self.policy, (*self.levers, "model.name=cnn"))

    def run(self, plant: Path, rounds: int, out: Path, **options: Any) -> Path:
        """Run rounds of it into a folder, which is returned."""
        options = {"workers": 1, **options}
        fedfloor.run(plant, self.policy, rounds, overrides=self.levers, own=True, out=out, **options)
        return out

    def words(self, plant: Path, rounds: int, out: Path) -> list[str]:
        """The same as words after `fedfloor`."""
        settings = [part for lever in self.levers for part in ("--set", lever)]
        command = ["run", str(plant), "--policy", self.policy, "--rounds", str(rounds), "--out", str(out), "--own"]
        return [*command, "--quiet", *settings]


def _policies() -> list[str]:
    """Every policy with its defaults and, if it leaves the rest to an allocation, with the exact one.

    The other allocations are there once.
    """
    names = [(name, _QUICKER.get(name, "")) for name in policy_summaries()]
    selecting = [pair for pair in names if isinstance(make_policy(parse_policy(pair[0]))[1], Selecting)]
    fixed, *others = ALLOCATIONS
    assert (fixed, others[0]) == ("fixed", "exact")
    more = [(name, f"{settings},allocation=exact") for name, settings in selecting]
    more += [
        (name, f"{settings},allocation={other}")
        for (name, settings), other in zip(reversed(selecting), others[1:], strict=False)
    ]
    return [f"{name}:{settings.strip(',')}".strip(":") for name, settings in [*names, *more]]


CASES = tuple(
    Case(policy, (*rule, *together, *model))
    for policy, rule, together, model in zip(_policies(), cycle(RULES), cycle(TOGETHER), cycle(_MODELS), strict=False)
)
#: all at once, for where one run must do
EVERYTHING = Case(
    f"oort:{_QUICKER['oort']}",
    (
        *("aggregation.rule=fedvarp", "aggregation.weights=fedau", "aggregation.averaged_decay=0.5"),
        *("training.momentum=0.8", "training.schedule=step", "training.schedule_rounds=2"),
        *("training.extra_iterations=3", "precision.upload=8"),
    ),
)


class Slow:
    """A rule of one's own: goes only a part of the way, and counts its steps."""

    def __init__(self, share: float = 0.5) -> None:
        self.share = share

    def step(self, gathered: Gathered, memory: Memory) -> Step:
        """Go a part of the way."""
        count = memory.get("count", np.zeros(1, np.float32)) + np.float32(1.0)
        weights = gathered.weights + self.share * gathered.change / float(count[0])
        return Step(weights.astype(np.float32), {"count": count})


def pictures() -> Any:
    """Few samples of six devices, and a test set: reading the embedded data would take longer than a run."""
    rng = np.random.default_rng(0)
    centres = rng.integers(0, 256, (10, 1, 28, 28))

    def drawn(count: int, classes: range) -> tuple[Any, Any]:
        labels = rng.integers(classes.start, classes.stop, count)
        return np.clip(centres[labels] + rng.normal(0.0, 60.0, (count, 1, 28, 28)), 0, 255).astype(np.uint8), labels

    return [drawn(20 + 10 * n, range(n, n + 3)) for n in range(6)], drawn(50, range(10))


def write_plant(path: Path) -> Path:
    """Five floors that differ in speed, distance and data; three take part in a round, and two are short of energy."""
    table = small_table()
    table["radio"]["channels"] = 3
    press, paint = table["floors"]
    for name, distance, frequency in (("pack", 1500, 0.3), ("ship", 1900, 0.9), ("weld", 1200, 0.4)):
        floor = copy.deepcopy(paint)
        floor["name"], floor["gateway"]["distance_m"] = name, distance
        floor["devices"][0] |= {"name": f"{name}-1", "frequency_ghz": frequency}
        table["floors"].append(floor)
    press["devices"][1]["frequency_ghz"] = 0.2
    for floor in table["floors"][1:3]:
        floor["gateway"]["max_energy_j"] = 0.01
    table["data"] = {"name": "tests.runs.every:pictures", "pictures": True}
    table["training"] = {"checkpoint_every": 2, "evaluate_every": 1, "learning_rate": 0.05, "batch_fraction": 0.2}
    table["model"]["width"] = 0.1
    del table["model"]["layers"]
    path.write_text(tomli_w.dumps(table), encoding="utf-8")
    return path
