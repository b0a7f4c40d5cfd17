"""Every lever and every policy leaves the same bits with any number of workers, and after being killed and resumed.

`tests/workers/test_cluster.py` compares the same cases on Ray.
"""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel

import fedfloor
from fedfloor.rounds.listeners.checkpoint import checkpoint_round
from fedfloor.scenario.file import Aggregation, Precision, Training
from fedfloor.scenario.writing import _OPTIONAL, _OPTIONAL_KEYS
from fedfloor.scheduling.allocating import ALLOCATIONS
from fedfloor.scheduling.registry import policy_summaries
from fedfloor.training.aggregation.registry import rule_summaries
from tests.conftest import known
from tests.runs.every import CASES, EVERYTHING, RULES, TOGETHER, Case, write_plant
from tests.runs.small import assert_equal_runs

ROOT = Path(__file__).parents[2]
LONG = 1000  #: rounds of a run that is killed long before

every_case = pytest.mark.parametrize("case", CASES, ids=str)
#: the first cases have every policy and rule once; the others differ in the allocation
first_cases = pytest.mark.parametrize(
    "case",
    [
        case if index < len(policy_summaries()) else pytest.param(case, marks=pytest.mark.slow)
        for index, case in enumerate(CASES)
    ],
    ids=str,
)
compiled = pytest.mark.usefixtures("compiled_solver")


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_plant(tmp_path_factory.mktemp("plant") / "plant.toml")


@pytest.fixture(scope="module")
def prepared() -> ForkServerContext:
    """Starts processes that have imported what a run needs, because that takes longer than a short run."""
    context = get_context("forkserver")
    heavy = ("fedfloor.runs.train", "fedfloor.scheduling.solver.solve", "scipy.optimize", "torch._dynamo")
    context.set_forkserver_preload(["tests.runs.every", *heavy])
    return context


def logged_rounds(folder: Path) -> int:
    try:
        return (folder / "rounds.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def wait_for_rounds(folder: Path, is_running: Callable[[], bool]) -> None:
    """Wait until three rounds are logged, of which a checkpoint has at least two."""
    while logged_rounds(folder) < 3 and is_running():
        time.sleep(0.005)


@compiled
@first_cases
def test_every_lever_and_policy_goes_on_after_a_kill_and_replans_to_the_last_bit(
    case: Case, plant: Path, prepared: ForkServerContext, tmp_path: Path
) -> None:
    killed = tmp_path / "killed"
    process = prepared.Process(target=case.run, args=(plant, LONG, killed))
    process.start()
    wait_for_rounds(killed, process.is_alive)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL, "it ended by itself"
    rounds = logged_rounds(killed) + 1
    assert 2 <= known(checkpoint_round(killed)) < rounds
    case.run(plant, rounds, killed, resume=True)
    whole = case.run(plant, rounds, tmp_path / "whole")
    assert_equal_runs(whole, killed)
    for name in ("scenario.toml", "bounds.json", "holding.json"):
        assert (whole / name).read_bytes() == (killed / name).read_bytes()
    logged = fedfloor.read(whole, per="gateway")["channel"]
    for index in (1, 3):
        answer = fedfloor.plan(whole, round=index)
        assert [gateway["channel"] for gateway in answer["gateways"]] == logged[5 * index : 5 * index + 5]


@pytest.mark.slow
def test_a_command_with_three_workers_that_is_killed_and_resumed_with_two_gives_the_bits_of_one(
    plant: Path, tmp_path: Path
) -> None:
    case, killed = EVERYTHING.one_by_one, tmp_path / "killed"
    words = [*case.words(plant, LONG, killed), "--workers", "3"]
    process = subprocess.Popen([sys.executable, "-m", "fedfloor", *words], cwd=ROOT)
    wait_for_rounds(killed, lambda: process.poll() is None)
    process.kill()
    assert process.wait() == -signal.SIGKILL, "it ended by itself"
    rounds = logged_rounds(killed) + 1
    case.run(plant, rounds, killed, resume=True, workers=2)
    assert_equal_runs(case.run(plant, rounds, tmp_path / "whole"), killed)


@pytest.mark.slow
@compiled
@every_case
def test_every_lever_and_policy_gives_the_same_bits_with_any_number_of_workers(
    case: Case, plant: Path, tmp_path: Path
) -> None:
    alone = case.one_by_one.run(plant, 4, tmp_path / "1")
    for workers in (2, 3):
        assert_equal_runs(alone, case.one_by_one.run(plant, 4, tmp_path / f"{workers}", workers=workers))


# What the cases are worth


def values_in_cases(key: str) -> set[str]:
    """What cases give a key."""
    levers = [lever.partition("=") for case in CASES for lever in case.levers]
    return {value for name, _, value in levers if name == key}


def test_every_policy_allocation_and_rule_is_in_a_case() -> None:
    words = [re.split("[:,]", case.policy) for case in CASES]
    assert {name for name, *_ in words} == set(policy_summaries())
    assert {f"allocation={name}" for name in ALLOCATIONS[1:]} <= {word for _, *settings in words for word in settings}
    assert set(rule_summaries()) <= values_in_cases("aggregation.rule")


def test_every_lever_is_in_a_case_with_each_of_its_choices() -> None:
    """A lever is a key that counts as absent while it has its default; those of `deploy` are for real machines."""
    assert (set(_OPTIONAL), set(_OPTIONAL_KEYS)) == ({"aggregation", "precision", "deploy"}, {"training"})
    sections: list[tuple[str, type[BaseModel], Iterable[str]]] = [
        ("aggregation", Aggregation, Aggregation.model_fields),
        ("precision", Precision, Precision.model_fields),
        ("training", Training, [key for key in _OPTIONAL_KEYS["training"] if key != "task"]),  # which is no lever
    ]
    for section, table, names in sections:
        for name in names:
            field, values = table.model_fields[name], values_in_cases(f"{section}.{name}")
            assert values - {str(field.default)}, f"{section}.{name}"
            if get_origin(field.annotation) is Literal:
                choices = {str(choice) for choice in get_args(field.annotation)}
                assert values >= choices - {str(field.default)}, f"{section}.{name}"


@compiled
def test_every_lever_changes_a_run_on_this_plant(plant: Path) -> None:
    def records(*levers: str) -> Any:
        return fedfloor.run(plant, "random:allocation=exact", 3, overrides=levers, own=True, workers=1).records

    schedules = {tuple(lever for lever in group if ".schedule" in lever) for group in TOGETHER} - {()}
    others = {(lever,) for group in TOGETHER for lever in group if ".schedule" not in lever}
    plain = records()
    for levers in sorted(schedules | others | set(RULES) - {("aggregation.rule=mean",)}):
        assert records(*levers) != plain, levers
