"""Whole runs on a shaped network: real programs, and nothing of them stays behind, however the testbed ends."""

import csv
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from testbed.layout import DeviceHop, Layout
from testbed.namespaces import Namespaces, refuse_without_namespaces
from testbed.shaping import Rates
from testbed.sweeper import Sweeper

from fedfloor.errors import DeploymentError
from fedfloor.workers.processes import environment
from tests.deploy.programs import descendants, is_running

ROOT = Path(__file__).parents[2]
MOST_S = 400.0  #: that a run of a test may take before it counts as stuck


def why_no_namespaces() -> str:
    try:
        refuse_without_namespaces()
    except DeploymentError as error:
        return str(error)
    probe = f"testbed-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "delete", probe], capture_output=True, check=False)
    return "" if made.returncode == 0 else "this machine does not let root make network namespaces"


NO_NAMESPACES = why_no_namespaces()
needs_namespaces = pytest.mark.skipif(bool(NO_NAMESPACES), reason=NO_NAMESPACES)
KINDS = [pytest.param("--namespaces", marks=needs_namespaces), "--proxy"]


def namespaces() -> set[str]:
    """Namespaces of testbeds."""
    if shutil.which("ip") is None:
        return set()
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout.split("\n")
    return {line.split()[0] for line in listed if line.startswith("testbed-")}


def temporary_folders() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob("fedfloor-testbed-*"))


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + MOST_S
    while not is_so():
        assert time.monotonic() < end, f"{what} never happened"
        time.sleep(0.1)


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A testbed of two floors with two devices each; it has ended after the block."""
    small = ["--set", "floors.0.count=2", "--set", "participation.rates=uniform", "--policy", "random"]
    command = [sys.executable, "-m", "testbed", "--out", str(folder), *small, *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_rounds_on_the_testbed_are_compared_and_nothing_stays_behind(kind: str, tmp_path: Path) -> None:
    before = namespaces()
    with started(tmp_path / "out", kind, "--rounds", "2") as process:
        text, _ = process.communicate(timeout=MOST_S)
    assert process.returncode == 0, text
    assert "of 2 rounds took at most" in text
    assert namespaces() <= before
    with (tmp_path / "out" / "comparison.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["round"] for row in rows] == ["0", "0", "1", "1"]  # two floors, two channels
    for row in rows:
        for part in ("download", "upload"):  # a hop cannot be faster than its rate, but for what its bucket holds
            assert float(row[f"real_{part}_s"]) > 0.9 * float(row[f"predicted_{part}_s"])
        assert float(row["real_total_s"]) > 0.9 * float(row["predicted_total_s"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "number"),
    [
        pytest.param("--namespaces", signal.SIGINT, marks=needs_namespaces),
        pytest.param("--namespaces", signal.SIGKILL, marks=needs_namespaces),
        ("--proxy", signal.SIGTERM),
        ("--proxy", signal.SIGKILL),
    ],
)
def test_a_testbed_that_is_stopped_leaves_nothing_behind(kind: str, number: int, tmp_path: Path) -> None:
    before, folders = namespaces(), {*temporary_folders()}
    with started(tmp_path / "out", kind, "--rounds", "1000") as process:
        wait_until(lambda: len(list(tmp_path.rglob("*camera*.log"))) == 4 or process.poll() is not None, "the start")
        below = descendants(process.pid)
        process.send_signal(number)
        text, _ = process.communicate(timeout=MOST_S)
    assert process.returncode == (-number if number == signal.SIGKILL else 130), text
    wait_until(lambda: not any(map(is_running, below)), "the end of all programs")
    wait_until(lambda: namespaces() <= before, "the end of all namespaces")
    wait_until(lambda: {*temporary_folders()} <= folders, "the end of the folder")


@needs_namespaces
def test_a_network_that_cannot_be_built_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    before = namespaces()
    layout = Layout(("press",), (DeviceHop("camera", 0, Rates(1e6, 1e6)),))
    monkeypatch.setattr("testbed.namespaces.tbf_arguments", lambda _: ["unheard-of"])
    with (
        pytest.raises(DeploymentError, match=r"tc .* unheard-of: .*Use --proxy"),
        Sweeper() as sweeper,
        Namespaces(layout, sweeper),
    ):
        pass
    assert namespaces() <= before


@needs_namespaces
def test_the_hops_of_namespaces_have_their_rates_and_reach_each_other() -> None:
    layout = Layout(("press",), (DeviceHop("camera", 0, Rates(3e6, 2e6)),))
    with Sweeper() as sweeper, Namespaces(layout, sweeper) as network:
        network.set_backhaul("press", Rates(7e6, 5e6))
        switch = f"{network.prefix}-switch"
        for command, rates in (
            (["tc", "-n", switch, "qdisc", "show"], ("rate 7Mbit", "rate 3Mbit")),
            ([*network.within("press"), "tc", "qdisc", "show"], ("rate 5Mbit",)),
            ([*network.within("camera"), "tc", "qdisc", "show"], ("rate 2Mbit",)),
        ):
            shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            assert all(rate in shown for rate in rates), shown
        serve = "import socket; s = socket.create_server((HOST, 5000)); print('up', flush=True); s.accept()"
        for listener, host, dialler in (("", network.station_host, "press"), ("press", network.gateway_host, "camera")):
            code = serve.replace("HOST", repr(host))
            other = subprocess.Popen([*network.within(listener), sys.executable, "-c", code], stdout=subprocess.PIPE)
            assert other.stdout is not None
            assert other.stdout.readline() == b"up\n"
            dial = f"import socket; socket.create_connection(({host!r}, 5000), 10)"
            subprocess.run([*network.within(dialler), sys.executable, "-c", dial], check=True, timeout=MOST_S)
            other.communicate(timeout=MOST_S)
        network.free_backhaul()
    assert not [name for name in namespaces() if name.startswith(network.prefix)]
