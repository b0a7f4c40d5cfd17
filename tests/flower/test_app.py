"""`fedfloor flower new`: the app that it writes, as files, and in Flower's simulation runtime."""

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import fedfloor
from fedfloor.errors import FedfloorError
from fedfloor.flower.writing import app_files
from fedfloor.training.network.description import describe
from tests.flower.test_strategy import log_without_losses

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower"
BIN = Path(sys.executable).parent


def test_the_example_is_what_the_command_writes() -> None:
    """The example is checked as code, and so is the template with it."""
    written = {path.relative_to(EXAMPLE) for path in EXAMPLE.rglob("*") if path.suffix in {".py", ".toml", ".md"}}
    texts = app_files("shop-floor")
    assert written == set(texts)
    for place, text in texts.items():
        assert (EXAMPLE / place).read_text(encoding="utf-8") == text, place


def test_the_strategy_is_at_most_five_lines() -> None:
    server = app_files("shop-floor")[Path("shop_floor/server_app.py")]
    added = [line for line in server.splitlines() if "FedFloor" in line or "Path" in line]
    assert len([line for line in added if not line.startswith(('"""', "    #"))]) <= 5


def test_the_plant_describes_what_the_app_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    task = importlib.import_module("shop_floor.task")
    scenario = fedfloor.load(EXAMPLE / "shop_floor" / "plant.toml")
    config = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["flwr"]["app"]["config"]
    assert scenario.layers == tuple(describe(task.make_network(), (1, 16, 16)))
    assert {device.samples for device in scenario.devices} == {task.SAMPLES}
    batches = {device.batch(scenario.training.batch_fraction) for device in scenario.devices}
    assert batches == {config["batch-size"]}
    assert scenario.training.local_iterations * config["batch-size"] == task.SAMPLES * config["local-epochs"]
    assert scenario.training.min_cut == len(scenario.layers)


Command = Callable[..., subprocess.CompletedProcess[str]]


def test_new_writes_an_app_once(fedfloor_process: Command, tmp_path: Path) -> None:
    done = fedfloor_process("flower", "new", "my-app")
    assert (done.returncode, done.stdout) == (0, "wrote my-app; next: cd my-app, and follow its README.md\n")
    for place, text in app_files("my-app").items():
        assert (tmp_path / "my-app" / place).read_text(encoding="utf-8") == text
    refused = fedfloor_process("flower", "new", "my-app")
    assert refused.returncode == 2
    assert refused.stderr == "error: my-app: exists already. Name another app, or remove the folder\n"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("../up", "NAME: must be letters, digits and single hyphens"),
        ("my_app", "NAME: must be letters, digits and single hyphens"),
        ("my-", "NAME: must be letters, digits and single hyphens"),
        ("a--b", "NAME: must be letters, digits and single hyphens"),
        ("torch", "NAME: 'torch' is the name of a module of Python or of an installed package"),
        ("logging", "NAME: 'logging' is the name of a module of Python or of an installed package"),
        ("pydantic", "NAME: 'pydantic' is the name of a module of Python or of an installed package"),
        ("SciPy", "NAME: 'SciPy' is the name of a module of Python or of an installed package"),
        ("numba", "NAME: 'numba' is the name of a module of Python or of an installed package"),
        ("typing-extensions", "NAME: 'typing-extensions' is the name of a module of Python or of an installed"),
        ("import", "NAME: must not be a word of Python, got 'import'"),
    ],
)
def test_names_that_are_no_package_are_refused(name: str, problem: str) -> None:
    with pytest.raises(FedfloorError, match=f"^{problem}"):
        app_files(name)


@dataclass(frozen=True)
class Flower:
    """A SuperLink of Flower's simulation runtime, and how to run an app on it."""

    env: dict[str, str]

    def run(self, app: Path, nodes: int, **config: object) -> str:
        """What `flwr run` prints until the run has ended."""
        settings = " ".join(f"{key.replace('_', '-')}={json.dumps(value)}" for key, value in config.items())
        command = [str(BIN / "flwr"), "run", str(app), "--stream", "--federation-config", f"num-supernodes={nodes}"]
        command += ["--run-config", settings]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=400, check=False)
        return done.stdout + done.stderr


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def flower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flower]:
    folder, port, control = tmp_path_factory.mktemp("superlink"), free_port(), free_port()
    env = {**os.environ, "FLWR_HOME": str(folder), "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1"}
    env |= {"FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(port), "FLWR_LOCAL_CONTROL_API_PORT": str(control)}
    env["PATH"] = f"{BIN}{os.pathsep}{env.get('PATH', '')}"
    source = str(Path(fedfloor.__file__).parents[1])
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [source, env.get("PYTHONPATH")]))
    command = [str(BIN / "flower-superlink"), "--insecure", "--simulation", "--isolation", "subprocess"]
    command += ["--control-api-address", f"127.0.0.1:{control}", "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "superlink.log").open("wb") as log:
        link = subprocess.Popen(command, env=env, cwd=folder, stdout=log, stderr=log, start_new_session=True)
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1)
                break
            except OSError:
                assert link.poll() is None, (folder / "superlink.log").read_text()
                time.sleep(0.2)
        yield Flower(env)
    finally:
        os.killpg(link.pid, signal.SIGTERM)
        try:
            link.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(link.pid, signal.SIGKILL)
            link.wait(20)


@pytest.mark.slow
def test_flwr_run_decides_as_a_simulation_and_learns(flower: Flower, fedfloor_process: Command, tmp_path: Path) -> None:
    fedfloor_process("flower", "new", "my-app")
    app, out = tmp_path / "my-app", tmp_path / "runs" / "first"
    said = flower.run(app, 6, out=str(out))
    assert f"fedfloor: next: fedfloor report {out}" in said
    fedfloor.simulate(app / "my_app" / "plant.toml", rounds=10, out=tmp_path / "simulated")
    assert log_without_losses(out) == log_without_losses(tmp_path / "simulated")
    accuracy = fedfloor.read(out)["accuracy"]
    assert len(accuracy) == 10
    assert accuracy[0] < 0.4
    assert max(accuracy[-3:]) > 0.8
    report = fedfloor_process("report", str(out))
    assert report.returncode == 0, report.stderr


@pytest.mark.slow
def test_flwr_run_fails_in_one_line_of_ours(flower: Flower, fedfloor_process: Command, tmp_path: Path) -> None:
    fedfloor_process("flower", "new", "my-app")
    app, out = tmp_path / "my-app", tmp_path / "runs"
    said = flower.run(app, 8, out=str(out))
    plant = "plant.toml: has 6 floors, but the federation has 8 nodes. Run it with --federation-config"
    assert [line for line in said.splitlines() if "fedfloor: error:" in line and plant in line], said[-3000:]
    assert not out.exists()
