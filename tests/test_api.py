"""The Python functions: examples in their docs, lazy imports, and policies that others bring."""

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

import fedfloor
import fedfloor.api
from fedfloor.errors import PolicyError, ScenarioError

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("module", [fedfloor, fedfloor.api])
def test_the_examples_in_the_docs_hold(module: object) -> None:
    tried = doctest.testmod(module)  # type: ignore[arg-type]
    assert tried.attempted > 0
    assert tried.failed == 0


def test_help_and_import_load_nothing_heavy() -> None:
    code = "import sys, fedfloor, fedfloor.cli; "
    code += "print([m for m in ('numpy', 'pydantic', 'rich', 'torch', 'scipy', 'numba') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_policy_in_the_docs_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    (tmp_path / "mine.py").write_text(text.split("```python\n")[1].split("```")[0])
    command = [sys.executable, "-m", "fedfloor", "simulate", "quick", "--policy", "mine:Nearest", "--rounds", "3"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "mine:Nearest" in done.stdout


def test_a_policy_that_fails_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("class Bad:\n    def schedule(self, state):\n        state.queue[:] = 0\n")
    command = [sys.executable, "-m", "fedfloor", "simulate", "quick", "--policy", "bad:Bad", "--rounds", "3"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "schedule failed in round 0: ValueError: assignment destination is read-only" in done.stderr
    assert "bad.py, line 3" in done.stderr


@pytest.mark.parametrize("wrong", [5, None])
def test_other_types_than_names_are_refused(wrong: object) -> None:
    with pytest.raises(ScenarioError, match="must be a path or a preset's name"):
        fedfloor.load(wrong)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match=r"must be NAME\[:key=value"):
        fedfloor.simulate("quick", policy=3.5)  # type: ignore[arg-type]


def test_a_run_prints_itself_in_a_line() -> None:
    assert repr(fedfloor.simulate("quick", "random", rounds=2)) == "Run(quick, random, 2 rounds, folder=None)"
    assert {"load", "read", "simulate"} <= set(dir(fedfloor))
