"""Files of the working folder never take the place of a library; code that the user names is still found there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: modules that commands import, and one that no command has to
TRAPS = ("json", "typing", "difflib", "csv", "html", "random", "numpy", "pydantic", "rich", "plotly", "torch", "ray")
SCRIPT = Path(sys.executable).with_name("fedfloor")


@pytest.fixture
def received(tmp_path: Path, compiled_solver: None) -> Path:
    """A folder whose modules leave a file behind when they are imported."""
    for name in TRAPS:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'trapped')!r}, 'a').write({name!r} + '\\n')\n")
    return tmp_path


def ended(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(SCRIPT), *command], capture_output=True, text=True, cwd=folder, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert not (folder / "trapped").exists(), (folder / "trapped").read_text()
    return done


@pytest.mark.slow
def test_no_file_of_the_working_folder_is_imported(received: Path) -> None:
    ended(received, "list")
    ended(received, "simulate", "quick", "--policy", "random", "--rounds", "2", "--out", "simulated")
    ended(received, "report", "simulated", "--csv", "rounds.csv")
    few = ("--set", "training.batch_fraction=0.02", "--set", "participation.rates=uniform")
    ended(received, "run", "quick", "--policy", "random", "--rounds", "1", "--workers", "2", "--out", "run", *few)
    runs = ("--seeds", "1", "--rounds", "1", "--workers", "1", "--out", "compared")
    ended(received, "compare", "quick", "--policy", "random", *runs, *few)


@pytest.mark.slow
def test_a_policy_in_the_working_folder_is_found_after_everything_else(received: Path) -> None:
    (received / "mine.py").write_text(
        "import json\nimport helping\nfrom fedfloor.scheduling.policies.random import RandomScheduler\n"
        "class Mine(RandomScheduler):\n    '''A policy.'''\n"
    )
    (received / "helping.py").write_text("")
    done = ended(received, "simulate", "quick", "--policy", "mine:Mine", "--rounds", "2")
    assert "mine:Mine" in done.stdout
    few = ("--set", "training.batch_fraction=0.02", "--set", "participation.rates=uniform")
    runs = ("--seeds", "1", "--rounds", "1", "--workers", "1", "--out", "compared")
    ended(received, "compare", "quick", "--policy", "mine:Mine", *runs, *few)


def test_python_m_drops_the_working_folder(received: Path) -> None:
    (received / "typing.py").unlink()  # Python itself needs these before any line of ours runs
    (received / "difflib.py").unlink()
    command = [sys.executable, "-m", "fedfloor", "list"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=received, check=False, timeout=300)
    assert (done.returncode, (received / "trapped").exists()) == (0, False), done.stderr


def test_a_module_that_is_not_found_leaves_the_search_path_alone(tmp_path: Path) -> None:
    code = "import sys; from fedfloor.references import find_reference; before = list(sys.path)\n"
    code += "try:\n    find_reference('nowhere:Mine', 'policy', ValueError)\n"
    code += "except ValueError as error:\n    print(error, before == sys.path)\n"
    env = {**os.environ, "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True, env=env
    )
    assert done.stdout.endswith("Check that it is in the working folder or on PYTHONPATH True\n")
