"""Ray: the same logs and weights as on this machine, whatever is killed; on a real cluster of two nodes."""

import gc
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fedfloor
from fedfloor.errors import ScenarioError
from tests.runs.every import CASES, Case, write_plant
from tests.runs.small import SMALL, assert_equal_runs, small_run

pytest.importorskip("ray", reason="ray is not installed: pip install 'fedfloor[ray]'")

#: ray warns of its own
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    cluster.add_node(num_cpus=1, include_dashboard=False, object_store_memory=200_000_000)
    cluster.add_node(num_cpus=1, object_store_memory=200_000_000)
    yield cluster.address
    cluster.shutdown()
    with warnings.catch_warnings(action="ignore"):  # ray leaves files open, which other tests would be blamed for
        del cluster
        gc.collect()


@pytest.mark.slow
def test_a_cluster_of_this_machine_cannot_be_reached_from_others() -> None:
    import ray  # before psutil, which it brings along

    import psutil  # type: ignore[import-untyped]  # isort: skip

    from fedfloor.workers.cluster import connected

    with connected():
        assert ray.get(ray.remote(lambda: True).remote())  # so that there is a worker
        this = psutil.Process()
        listening = {
            (process.name(), connection.laddr.ip)
            for process in (this, *this.children(recursive=True))
            for connection in process.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        }
    assert {name for name, _ in listening} >= {"gcs_server", "raylet"}
    assert {ip.removeprefix("::ffff:") for _, ip in listening} <= {"127.0.0.1", "::1"}, listening


def workers_doing(what: str) -> list[int]:
    """Processes of Ray that are at something, by the title that Ray gives them."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            title = (folder / "cmdline").read_bytes() if folder.name.isdigit() else b""
        except OSError:
            continue
        if title.startswith(f"ray::{what}".encode()):
            found.append(int(folder.name))
    return found


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("participation.observe_every=2",), marks=pytest.mark.slow, id="measuring"),
        pytest.param(
            ("precision.upload=8", "precision.boundary=8", "baseline.cut=2"), marks=pytest.mark.slow, id="few bits"
        ),
    ],
)
def test_a_run_on_a_cluster_is_the_run_on_this_machine(address: str, options: tuple[str, ...], tmp_path: Path) -> None:
    small_run(tmp_path / "here", *options, rounds=4)
    small_run(tmp_path / "there", *options, rounds=4, workers=2, engine="ray", ray_address=address)
    assert_equal_runs(tmp_path / "here", tmp_path / "there")


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_solver")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_lever_and_policy_gives_the_same_bits_on_a_cluster(case: Case, address: str, tmp_path: Path) -> None:
    plant = write_plant(tmp_path / "plant.toml")
    here = case.one_by_one.run(plant, 4, tmp_path / "here")
    there = case.one_by_one.run(plant, 4, tmp_path / "there", workers=2, engine="ray", ray_address=address)
    assert_equal_runs(here, there)


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_a_run_is_replaced(address: str, tmp_path: Path) -> None:
    killed: list[int] = []

    def kill_one(event: object) -> None:
        if not killed and (found := workers_doing("_Hand")):
            killed.append(found[0])
            os.kill(found[0], signal.SIGKILL)

    small_run(tmp_path / "there", workers=2, engine="ray", ray_address=address, on_event=kill_one)
    assert killed
    small_run(tmp_path / "here")
    assert_equal_runs(tmp_path / "here", tmp_path / "there")


@pytest.mark.slow
def test_a_comparison_on_a_cluster_is_the_same_and_survives_a_kill(address: str, tmp_path: Path) -> None:
    from fedfloor.runs.compare import Watch

    killed: list[int] = []
    trouble: list[str] = []

    def kill_one(_: object, done: int) -> None:
        if done >= 3 and not killed and (found := workers_doing("_tells")):
            killed.append(found[0])
            os.kill(found[0], signal.SIGKILL)

    done = fedfloor.compare(
        "quick",
        ["random", "round_robin"],
        seeds=1,
        overrides=SMALL,
        out=tmp_path / "there",
        engine="ray",
        ray_address=address,
        watch=Watch(on_round=kill_one, on_trouble=lambda _, problem: trouble.append(problem)),
    )
    assert killed
    assert trouble
    assert not done.failed
    for policy in ("random", "round_robin"):
        small_run(tmp_path / policy, policy=policy)
        assert_equal_runs(tmp_path / policy, tmp_path / "there" / f"quick-{policy}-7")


def test_more_workers_than_cores_are_not_waited_for(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedfloor.workers import cluster

    waited_for: list[int] = []
    ready = cluster._ready

    def noted(hands: list[Any]) -> list[Any]:
        waited_for.append(len(hands))
        return ready(hands)

    monkeypatch.setattr(cluster, "_ready", noted)
    small_run(None, "participation.rates=uniform", rounds=1, workers=9, engine="ray", ray_address=address)
    assert waited_for == [2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("run", r"a training process of the cluster was lost.*[^.]\. Continue with --resume"),
        ("compare", r"the Ray cluster was lost: .*[^.]\. Run the same command again to continue"),
    ],
)
def test_a_cluster_that_is_lost_ends_the_command_with_a_sentence(command: str, expected: str, tmp_path: Path) -> None:
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    head = cluster.add_node(num_cpus=1, include_dashboard=False, object_store_memory=200_000_000)
    asked = [sys.executable, "-m", "fedfloor", command, "quick", "--policy", "random", "--rounds", "60", "--out", "run"]
    asked += ["--set", "training.checkpoint_every=2", "--set", "participation.rates=uniform", "--engine", "ray"]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen([*asked, "--ray-address", cluster.address], cwd=tmp_path, stderr=said)
        try:
            for _ in range(1500):
                if list(tmp_path.glob("run/**/checkpoint/state.json")):
                    break
                time.sleep(0.1)
            cluster.remove_node(head, allow_graceful=False)
            assert process.wait(120) == 1
        finally:
            process.kill()
            cluster.shutdown()
    last = (tmp_path / "said").read_text().strip().splitlines()[-1]
    assert re.match(f"error: {expected}", last), last
    assert list(tmp_path.glob("run/**/checkpoint/state.json")), "what there was is kept"


def test_an_address_where_no_cluster_answers_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"ray_address 127.0.0.1:9: no cluster answers"):
        small_run(tmp_path / "run", engine="ray", ray_address="127.0.0.1:9")
