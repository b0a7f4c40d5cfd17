"""One small round is decided without the compiler, with the same answer to the last bit."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedfloor.runs.plan import PlannedRound, export_snapshot
from fedfloor.scheduling.registry import PolicySpec, make_policy
from fedfloor.scheduling.solver.exact import floor_of, least_delay
from fedfloor.scheduling.solver.packing import floor_budget, floor_link, floor_options, pack
from fedfloor.scheduling.solver.solve import solve
from fedfloor.scheduling.state import RoundState
from tests.scheduling.oracle import linked, random_round

ROUNDS = 80
SOLVERS = ("exact", "paper")
SAID = """
import json
from fedfloor.scheduling.solver import compiling
compiling.defer()
from tests.scheduling.test_deferring import answers
print(json.dumps(list(answers())))
"""


def rounds() -> Iterator[RoundState]:
    """Small rounds, half of them with links."""
    for seed in range(ROUNDS):
        rng = np.random.default_rng([11, seed])
        state = random_round(rng)
        yield linked(rng, state) if seed % 2 else state


def answers() -> Iterator[list[Any]]:
    """What is decided in every round, and whether the interpreter did it."""
    from fedfloor.scheduling.solver import compiling

    for state in rounds():
        for solver in SOLVERS:
            if compiling.is_deferred():
                try:
                    with np.errstate(all="ignore"):
                        yield [True, _answer(state, solver, interpreted=True)]
                except compiling.CompilerNeededError:
                    yield [False, None]
            else:
                yield [False, _answer(state, solver)]


def _answer(state: RoundState, solver: str, *, interpreted: bool = False) -> list[Any]:
    from fedfloor.scheduling.solver import solve as solving

    solution = (solving._solution if interpreted else solving.solve)(state, 1.0, solver)
    decision, allocation = solution.decision, solution.decision.allocation
    assert allocation is not None
    arrays = (decision.channel, allocation.cut, allocation.frequency, allocation.power)
    return [solution.objective, solution.gap, list(solution.reasons), *(array.tolist() for array in arrays)]


def run(code: str, *arguments: str) -> str:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]).stdout


def test_the_interpreter_decides_like_compiled_code_to_the_last_bit() -> None:
    interpreted = json.loads(run(SAID))
    assert sum(done for done, _ in interpreted) > 0.9 * len(interpreted)
    for (done, ours), (_, theirs) in zip(interpreted, answers(), strict=True):
        if done:
            assert ours == json.loads(json.dumps(theirs))


def write(state: RoundState, path: Path) -> Path:
    policy = PolicySpec("ddsra", (("v", 1.0),))
    export_snapshot(PlannedRound(state, 1.0, *make_policy(policy)), path)
    return path


PLANNED = """
import sys, json, fedfloor
answers = []
for _ in range(2):
    answers.append(fedfloor.plan(sys.argv[1]))
    answers[-1]["compiler"] = "numba" in sys.modules
print(json.dumps(answers))
"""


def test_the_first_plan_of_a_process_loads_no_compiler_and_the_second_does(tmp_path: Path) -> None:
    first, second = json.loads(run(PLANNED, str(write(next(rounds()), tmp_path / "round.json"))))
    assert (first.pop("compiler"), second.pop("compiler")) == (False, True)
    first.pop("solve_s"), second.pop("solve_s")
    assert first == second


LARGE = """
import sys, fedfloor
from fedfloor.scheduling.policies.ddsra import Ddsra
from fedfloor.scheduling.solver import compiling
fedfloor.plan(sys.argv[1])
print(compiling.is_deferred())
from benchmarks.bench import grown, paper_states
Ddsra().schedule(grown(paper_states(1)[0], 30, 2, 10))
print(compiling.is_deferred())
"""


def test_a_round_after_the_first_is_compiled_however_it_is_decided(tmp_path: Path) -> None:
    assert run(LARGE, str(write(next(rounds()), tmp_path / "round.json"))).split() == ["True", "False"]


THREADS = """
import sys, json, fedfloor
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    answers = list(pool.map(fedfloor.plan, [sys.argv[1]] * 8))
print(json.dumps([answer["objective"] for answer in answers]))
"""


def test_threads_may_plan_at_once(tmp_path: Path) -> None:
    objectives = json.loads(run(THREADS, str(write(next(rounds()), tmp_path / "round.json"))))
    assert len(objectives) == 8
    assert len(set(objectives)) == 1


def test_a_round_that_needs_a_search_is_compiled_at_once(tmp_path: Path) -> None:
    tight = next(state for seed in range(100) if needs_search(state := crowded(seed)))
    first, second = json.loads(run(PLANNED, str(write(tight, tmp_path / "round.json"))))
    assert first.pop("compiler")
    assert second.pop("compiler")
    first.pop("solve_s"), second.pop("solve_s")
    assert first == second
    assert first["objective"] == pytest.approx(solve(tight, 1.0).objective)


def crowded(seed: int) -> RoundState:
    return random_round(np.random.default_rng([13, seed]), most_floors=1, devices=(3, 4), least_layers=4)


def needs_search(state: RoundState) -> bool:
    """Whether cuts depend on each other: without the limits that they share, the floor would be faster."""
    packed, _ = pack(state)
    options, budget, link = floor_options(packed, 0), floor_budget(packed, 0), floor_link(packed, 0, 0)
    scratch = np.zeros(options.many.size, np.int64), np.empty(options.many.size), np.empty(options.many.size)
    if not options.many.all():
        return False
    alone = budget._replace(memory=np.inf, max_frequency=np.inf)
    delay = least_delay(floor_of(options, budget), link, *scratch)[0]
    return bool(least_delay(floor_of(options, alone), link, *scratch)[0] < delay < np.inf)
