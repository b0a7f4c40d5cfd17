"""What several test files share."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: memory and times are those of one thread
os.environ["FLWR_TELEMETRY_ENABLED"] = os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # tests tell nobody of themselves
os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"
os.environ.pop("COLUMNS", None)  # processes of pytest inherit the width of the terminal, which tables would keep to

import io
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

import pytest
import tomli_w

import fedfloor
from fedfloor.cli import main
from fedfloor.scenario.reading import preset_names

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what it starts in the background ignore Ctrl-C

_SLOWEST = {"deploy", "flower", "testbed", "workers"}  #: folders of tests that start programs and wait for them

Table = dict[str, Any]
Kind = TypeVar("Kind")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take minutes, so that at the end no process has one left while the others wait."""
    items.sort(key=lambda item: item.path.parent.name not in _SLOWEST)


def known(value: Kind | None) -> Kind:
    """A value that the test expects to be there."""
    assert value is not None
    return value


def small_table() -> Table:
    """A valid scenario with two floors that needs no torch, as a table to be changed."""
    device = {"samples": 100, "frequency_ghz": 0.5, "flops_per_cycle": 16, "switched_capacitance": 1e-27}
    device |= {"memory_gb": 1.0, "max_energy_j": 1.0}
    gateway = {"distance_m": 1000, "flops_per_cycle": 32, "switched_capacitance": 1e-27, "max_frequency_ghz": 4.0}
    gateway |= {"memory_gb": 2.0, "max_energy_j": 5.0, "max_power_mw": 200}
    layers = [
        {"name": "linear1", "kind": "linear", "input": [784], "output": [16], "attached": ["activation"]},
        {"name": "linear2", "kind": "linear", "input": [16], "output": [10]},
    ]
    return {
        "name": "small",
        "rounds": 5,
        "model": {"name": "mlp", "input": [1, 28, 28], "layers": layers},
        "radio": {"channels": 2},
        "floors": [
            {
                "name": "press",
                "gateway": dict(gateway),
                "devices": [{**device, "name": "p1"}, {**device, "name": "p2"}],
            },
            {"name": "paint", "gateway": dict(gateway), "devices": [{**device, "name": "q1"}]},
        ],
        "baseline": {"cut": 1, "frequency_share": 0.5},
    }


@pytest.fixture
def table() -> Table:
    return small_table()


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Table], Path]:
    """Write a table as a scenario file."""

    def to_file(table: Table, name: str = "plant.toml") -> Path:
        path = tmp_path / name
        path.write_text(tomli_w.dumps(table), encoding="utf-8")
        return path

    return to_file


@pytest.fixture(scope="session")
def compiled_solver() -> None:
    """The solver is on disk, so that no command has to say that it compiles it."""
    fedfloor.simulate("quick", rounds=1)


@pytest.fixture
def fedfloor_command(
    tmp_path: Path, compiled_solver: None, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line in a folder of its own, in this process: starting Python again takes longer than most do."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
        with monkeypatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
            patched.chdir(tmp_path)
            patched.setattr(sys, "argv", ["fedfloor", *arguments])
            with pytest.raises(SystemExit) as ended:
                main()
        for stream in (out, err):
            stream.seek(0)
        return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), out.read(), err.read())

    return run


@pytest.fixture
def fedfloor_process(tmp_path: Path, compiled_solver: None) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line in a folder and a process of its own: for code of the user's, and for what Python prints."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "fedfloor", *arguments]
        # Named, because pytest's readline puts COLUMNS into an environment that is merely inherited.
        env = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=300, env=env)

    return run


PRESETS = preset_names()
