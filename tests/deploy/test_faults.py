"""Programs of a plant that are killed, stopped and started again while the others go on."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedfloor.deploy.authority import BASE_STATION
from tests.deploy.plants import settings
from tests.deploy.programs import Programs, descendants, is_listened_on, is_running, of_floor, wait_until

pytestmark = pytest.mark.slow
MARGIN = 6.0  #: [s] of a deadline


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """Two floors with two devices and one, whose rounds take about a second; every test leaves it whole."""
    more = ("floors.1.devices.0.count=1", "training.local_iterations=20", f"deploy.deadline_margin_s={MARGIN}")
    made = Programs(tmp_path_factory.mktemp("plant"), *more)
    try:
        made.start_all()
        made.wait_for_rounds()
        yield made
    finally:
        made.close()


def middle_of_a_round(plant: Programs) -> None:
    """Wait until a round is under way."""
    plant.wait_for_rounds()
    time.sleep(0.4)


def test_a_floor_goes_on_without_a_device_that_is_killed_and_takes_it_back(plant: Programs) -> None:
    device = "assembly.camera-2"
    middle_of_a_round(plant)
    plant.end(device, signal.SIGKILL)
    first = len(plant.records())
    plant.wait_for_rounds(3)
    assert all(of_floor(record, "assembly")["completed"] for record in plant.records()[first:])
    assert f"{device} is gone" in plant.log("assembly")
    steps = plant.log(device).count("Decided")
    plant.start_device("assembly", device)
    wait_until(lambda: plant.log(device).count("Decided") >= steps + 3, "its trial and two rounds")
    assert of_floor(plant.records()[-1], "assembly")["completed"]


def test_a_gateway_that_is_killed_loses_its_round_and_comes_back(plant: Programs) -> None:
    middle_of_a_round(plant)
    plant.end("hall-1", signal.SIGKILL)
    lost = plant.wait_for_record(lambda record: of_floor(record, "hall-1")["failure"] == "lost")
    assert of_floor(lost, "assembly")["completed"]
    plant.start_gateway("hall-1")
    plant.wait_for_record(lambda record: of_floor(record, "hall-1")["completed"])


@pytest.mark.parametrize("name", ["hall-1", "hall-1.camera-1"])
def test_a_floor_that_stands_still_is_lost_by_its_deadline_and_comes_back(plant: Programs, name: str) -> None:
    middle_of_a_round(plant)
    plant.send(name, signal.SIGSTOP)
    try:
        lost = plant.wait_for_record(lambda record: of_floor(record, "hall-1")["failure"] == "lost")
        plant.wait_for_rounds(2)
    finally:
        plant.send(name, signal.SIGCONT)
    floor = of_floor(lost, "hall-1")
    assert of_floor(lost, "assembly")["completed"]
    assert floor["delay_s"] <= 3.0 * floor["predicted_s"] + MARGIN + 0.5
    plant.wait_for_record(lambda record: of_floor(record, "hall-1")["completed"])


def test_a_base_station_that_is_killed_resumes_and_loses_no_round(plant: Programs) -> None:
    middle_of_a_round(plant)
    plant.end(BASE_STATION, signal.SIGKILL)
    before = plant.records()
    plant.start_server("--resume")
    plant.wait_for_rounds(2)
    records = plant.records()
    assert [record["round"] for record in records] == list(range(len(records)))
    assert records[: len(before)] == before
    plant.wait_for_record(lambda record: all(entry["completed"] for entry in record["gateways"]))


def test_programs_end_as_they_are_told_and_leave_no_process_and_no_port(plant: Programs) -> None:
    plant.wait_for_rounds()
    assert plant.end("hall-1.camera-1", signal.SIGTERM) == 0
    assert plant.end("assembly.camera-1", signal.SIGINT) == 130
    assert plant.end("hall-1", signal.SIGTERM) == 0
    assert plant.end("assembly", signal.SIGINT) == 130
    assert plant.end(BASE_STATION, signal.SIGTERM) == 0
    assert not any(map(is_listened_on, plant.ports.values()))
    plant.start_server("--resume")
    wait_until(lambda: is_listened_on(plant.ports[BASE_STATION]))
    assert plant.end(BASE_STATION, signal.SIGINT) == 130
    assert not is_listened_on(plant.ports[BASE_STATION])
    for name in ("hall-1", "assembly", "assembly.camera-1", BASE_STATION):
        assert "Traceback" not in plant.log(name), plant.log(name)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_local_plant_takes_its_machines_with_it(tmp_path: Path, number: signal.Signals, code: int) -> None:
    arguments = ["local-plant", "quick", "--policy", "random", "--rounds", "10000", "--together", "--workers", "1"]
    command = [sys.executable, "-m", "fedfloor", *arguments, "--out", str(tmp_path / "run"), *settings()]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            wait_until((tmp_path / "run" / "rounds.jsonl").exists)
            below = descendants(process.pid)
            assert len(below) >= 4
        finally:
            process.send_signal(number)
            process.wait(60)
    assert process.returncode == code, (tmp_path / "log").read_text()
    wait_until(lambda: not any(map(is_running, below)), "the end of all machines")
