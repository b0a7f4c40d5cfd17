"""What users' own code prints: on standard error, so that standard output has the result and nothing else."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fedfloor.workers.processes import start_process

Command = Callable[..., subprocess.CompletedProcess[str]]

#: a policy that prints when it is imported, made and asked
TALKING = """
from dataclasses import dataclass
import numpy as np
from fedfloor.scheduling.state import Decision
print("talking: imported")
@dataclass(frozen=True)
class Talking:
    def __post_init__(self):
        print("talking: made")
    def schedule(self, state):
        print("talking: round", state.index)
        channel = np.full(state.queue.size, -1)
        channel[0] = 0
        return Decision(channel)
"""


@pytest.fixture
def talking(tmp_path: Path) -> str:
    (tmp_path / "talking.py").write_text(TALKING)
    return "talking:Talking"


def check_apart(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    for part in ("imported", "made", "round 0"):
        assert f"talking: {part}" in done.stderr


def test_a_policy_that_prints_leaves_json_whole(fedfloor_process: Command, talking: str) -> None:
    out = ("--out", "a", "--format", "json")
    check_apart(fedfloor_process("simulate", "quick", "--policy", talking, "--rounds", "2", *out))
    check_apart(fedfloor_process("plan", "a", "--round", "0", "--own", "--format", "json"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [("run", "--workers", "2"), ("compare", "--seeds", "1")], ids=lambda words: words[0]
)
def test_a_policy_that_prints_leaves_json_whole_in_training(
    command: tuple[str, ...], fedfloor_process: Command, talking: str
) -> None:
    name, *more = command
    check_apart(
        fedfloor_process(name, "quick", "--policy", talking, "--rounds", "1", "--format", "json", "--quiet", *more)
    )


def test_what_other_processes_print_goes_to_standard_error(tmp_path: Path) -> None:
    code = "from fedfloor.workers.processes import start_process; start_process(['-c', 'print(\"hello\")']).wait()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("", "hello\n")
    closed = f"import os; os.close(2); {code}"
    done = subprocess.run([sys.executable, "-c", closed], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_process_prints_where_it_is_told_to() -> None:
    process = start_process(["-c", "print('hello')"], stdout=subprocess.PIPE)
    assert process.communicate()[0] == b"hello\n"
