"""The Python functions: examples in their docs, lazy imports, and policies that others bring."""

import doctest
import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import fedfloor
import fedfloor.api
from fedfloor.errors import FedfloorError, PolicyError, ScenarioError

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "name",
    [
        "fedfloor",
        "fedfloor.policies",
        "fedfloor.api.plans",
        "fedfloor.api.runs",
        "fedfloor.api.grids",
        pytest.param("fedfloor.api.comparisons", marks=pytest.mark.slow),
    ],
)
def test_the_examples_in_the_docs_hold(name: str) -> None:
    tried = doctest.testmod(importlib.import_module(name))
    assert tried.attempted > 0
    assert tried.failed == 0


def test_help_and_import_load_nothing_heavy() -> None:
    code = "import sys, fedfloor, fedfloor.cli; "
    code += "print([m for m in ('numpy', 'pydantic', 'rich', 'torch', 'scipy', 'numba') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_policies_in_the_docs_run(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in text.split("```python\n")[1:]]
    (tmp_path / "mine.py").write_text("".join(block for block in blocks if "class " in block))
    command = [sys.executable, "-m", "fedfloor", "simulate", "quick", "--rounds", "3", "--out", "both"]
    command += ["--policy", "mine:Nearest", "--policy", "mine:LongestWait"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "mine:Nearest" in done.stdout
    assert "mine:LongestWait" in done.stdout
    assert "keeps state" not in done.stderr


@pytest.mark.slow
def test_the_split_and_the_network_in_the_docs_run(tmp_path: Path) -> None:
    for file, name, begins in (("data.md", "splits.py", "import numpy"), ("training.md", "nets.py", "from torch")):
        blocks = (ROOT / "docs" / file).read_text(encoding="utf-8").split("```python\n")[1:]
        (code,) = [block.split("```")[0] for block in blocks if block.startswith(begins)]
        (tmp_path / name).write_text(code)
    command = [
        sys.executable,
        "-m",
        "fedfloor",
        "run",
        "quick",
        "--policy",
        "random",
        "--rounds",
        "1",
        "--workers",
        "1",
    ]
    command += ["--set", "data.name=splits:by_brightness", "--set", "model.name=nets:small", "--out", "run"]
    command += ["--set", "participation.rates=uniform", "--set", "training.batch_fraction=0.02"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    export = [sys.executable, "-m", "fedfloor", "evaluate", "run", "--own", "--export", "model.safetensors"]
    subprocess.run(export, capture_output=True, cwd=tmp_path, check=True)
    blocks = (ROOT / "docs" / "training.md").read_text(encoding="utf-8").split("```python\n")[1:]
    (code,) = [block.split("```")[0] for block in blocks if block.startswith("import fedfloor, torch")]
    code = code.replace(
        'load_model("model.safetensors")', 'load_model("model.safetensors", own=True)'
    )  # as is said above it
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert loaded.stdout.startswith("tensor(0."), loaded.stderr


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


def test_overrides_written_as_one_text_are_refused_with_the_list_to_write() -> None:
    expected = r"overrides: must be a list of section\.key=value, got a string\. Write \['radio\.channels=2'\]"
    for function in (fedfloor.load, fedfloor.simulate, fedfloor.run, fedfloor.compare, fedfloor.api.check):
        with pytest.raises(ScenarioError, match=expected):
            function("quick", overrides="radio.channels=2")


@pytest.mark.parametrize(
    "call",
    [
        lambda: fedfloor.simulate("quick", rounds=1, out=5),  # type: ignore[arg-type]
        lambda: fedfloor.simulate("quick", rounds=1, overrides=[5]),  # type: ignore[list-item]
        lambda: fedfloor.simulate("quick", rounds=1, overrides=None),  # type: ignore[arg-type]
        lambda: fedfloor.compare("quick", 5),  # type: ignore[arg-type]
        lambda: fedfloor.load_model(None),  # type: ignore[arg-type]
        lambda: fedfloor.read("\0"),
    ],
)
def test_arguments_of_the_wrong_type_are_refused_with_our_errors(call: Callable[[], object]) -> None:
    with pytest.raises(FedfloorError, match="must be"):
        call()
