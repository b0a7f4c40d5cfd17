"""Programs of a plant that are killed, stopped and started again while the others go on."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedfloor.deploy.authority import BASE_STATION
from tests.deploy.plants import settings
from tests.deploy.programs import SLACK, Programs, descendants, is_listened_on, is_running, of_floor, wait_until
from tests.deploy.relay import Relay

pytestmark = pytest.mark.slow
MARGIN = 30.0  #: [s] of a deadline: the machine may be busy, and deadlines are not what these tests are about
HALL, CAMERA, SECOND = "hall-1", "hall-1.camera-1", "assembly.camera-2"


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """Two floors with two devices and one, whose rounds take about a second; every test leaves it whole.

    Nearly all weights are below the cut, so that those of a device are as many as those of its gateway: 421 kB. Its
    activations are 7 kB or 10 kB in each of 20 iterations.
    """
    more = ("floors.1.devices.0.count=1", "training.local_iterations=20", "baseline.cut=5")
    made = Programs(tmp_path_factory.mktemp("plant"), *more, f"deploy.deadline_margin_s={MARGIN}", relayed=True)
    try:
        made.start_all()
        made.wait_for_a_whole_round()
        yield made
    finally:
        made.close()


def begin_of_an_order(plant: Programs, floor: str) -> None:
    """Stop the link of a gateway where an order has begun to arrive: its devices have nothing to do yet."""
    plant.relays[floor].hold("down", 1000, message=True)
    wait_until(lambda: plant.relays[floor].is_held, "an order")


def middle_of(plant: Programs, phase: str, *, floor: str, device: str, of_device: bool) -> Relay:
    """Stop a link in the middle of a phase of the floor, or of one of its devices; returns that link."""
    order, link = plant.relays[floor], plant.relays[device if of_device or phase == "training" else floor]
    begin_of_an_order(plant, floor)
    if phase == "training":
        link.hold("up", 50_000)  # some iterations
    elif of_device:
        link.hold(*(("down", 200_000) if phase == "download" else ("up", 420_000)))  # at most 200 kB are activations
    order.release()
    if not of_device and phase != "training":
        link.hold("down" if phase == "download" else "up", 200_000)
    wait_until(lambda: link.is_held, f"the middle of the {phase}")
    return link


PHASES = ("download", "training", "upload")  #: killed there, the link is cut: what the kernel still has does not arrive


@pytest.mark.parametrize("phase", PHASES)
def test_a_floor_goes_on_without_a_device_that_is_killed_and_takes_it_back(plant: Programs, phase: str) -> None:
    said = len(plant.log("assembly"))
    link, index = middle_of(plant, phase, floor="assembly", device=SECOND, of_device=True), len(plant.records())
    plant.end(SECOND, signal.SIGKILL)
    link.cut()
    plant.wait_for_rounds(2)
    assert all(of_floor(record, "assembly")["completed"] for record in plant.records()[index:])
    assert f"Round {index}: {SECOND} is left out" in plant.log("assembly")[said:]
    plant.start(SECOND)
    decided = plant.log(SECOND).count("Decided")
    wait_until(lambda: plant.log(SECOND).count("Decided") >= decided + 3, "its trial and two rounds")
    plant.wait_for_a_whole_round()
    assert not plant.late_rounds()


@pytest.mark.parametrize("phase", PHASES)
def test_a_gateway_that_is_killed_loses_its_round_and_comes_back(plant: Programs, phase: str) -> None:
    link, index = middle_of(plant, phase, floor=HALL, device=CAMERA, of_device=False), len(plant.records())
    plant.end(HALL, signal.SIGKILL)
    link.cut()
    plant.wait_for_rounds(2)
    lost = plant.records()[index]
    assert of_floor(lost, HALL)["failure"] == "lost"
    seconds = [of_floor(lost, HALL)[key] for key in ("download_s", "train_s", "upload_s")]
    assert [each > 0.0 for each in seconds] == [PHASES.index(phase) >= k for k in range(3)]  # it was that phase
    assert all(of_floor(record, "assembly")["completed"] for record in plant.records()[index:])
    plant.start(HALL)
    plant.wait_for_a_whole_round()
    assert not plant.late_rounds()


@pytest.mark.parametrize("phase", PHASES)
def test_a_base_station_that_is_killed_resumes_and_loses_no_round(plant: Programs, phase: str) -> None:
    link = middle_of(plant, phase, floor=HALL, device=CAMERA, of_device=False)
    plant.end(BASE_STATION, signal.SIGKILL)
    link.cut()
    before, records = plant.kept_records(), plant.records()
    assert before == records  # nothing is written in the middle of a round
    plant.start(BASE_STATION)
    plant.wait_for_a_whole_round()
    records = plant.records()
    assert [record["round"] for record in records] == list(range(len(records)))
    assert records[: len(before)] == before
    assert not plant.late_rounds()


@pytest.mark.parametrize("name", ["hall-1", "hall-1.camera-1"])
def test_a_floor_that_stands_still_is_lost_by_its_deadline_and_comes_back(plant: Programs, name: str) -> None:
    link = middle_of(plant, "training", floor=HALL, device=CAMERA, of_device=True)
    plant.send(name, signal.SIGSTOP)
    link.release()
    try:
        lost = plant.wait_for_record(lambda record: of_floor(record, "hall-1")["failure"] == "lost")
        plant.wait_for_rounds(2)
    finally:
        plant.send(name, signal.SIGCONT)
    floor = of_floor(lost, "hall-1")
    assert of_floor(lost, "assembly")["completed"]
    assert floor["delay_s"] <= 3.0 * floor["predicted_s"] + MARGIN + SLACK
    plant.wait_for_record(lambda record: of_floor(record, "hall-1")["completed"])


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
    assert plant.end(SECOND, signal.SIGTERM) == 0
    assert not plant.left_behind()
    assert not plant.tracebacks()
    assert len(plant.kept_records()) == len(plant.records())


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
