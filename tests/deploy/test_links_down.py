"""Links that go down for ten seconds and come back, with real programs in network namespaces."""

import signal
import time
from collections.abc import Iterator

import pytest

from fedfloor.deploy.authority import BASE_STATION
from tests.deploy.namespaces import NetworkedPrograms, why_not
from tests.deploy.programs import of_floor, wait_until

pytestmark = pytest.mark.slow
DOWN_S = 10.0


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkedPrograms]:
    """Two floors with two devices and one, whose rounds take some seconds."""
    if reason := why_not():
        pytest.skip(reason)
    more = ("floors.1.devices.0.count=1", "training.local_iterations=100", "deploy.deadline_margin_s=20")
    with NetworkedPrograms(tmp_path_factory.mktemp("plant"), *more) as made:
        made.start_all()
        made.wait_for_a_whole_round()
        yield made


def down_in_a_round(plant: NetworkedPrograms, name: str, device: str) -> int:
    """Set a link down when a device has begun to train in a round, and up again later; returns the round."""
    decided = plant.log(device).count("Decided")
    wait_until(lambda: plant.log(device).count("Decided") > decided, "a round of the device")
    index = len(plant.records())
    plant.set_link(name, "down")
    time.sleep(DOWN_S)
    plant.set_link(name, "up")
    return index


def test_a_floor_goes_on_while_the_link_of_a_device_is_down(plant: NetworkedPrograms) -> None:
    device = "assembly.camera-2"
    said, before = len(plant.log("assembly")), plant.running[device].pid
    index = down_in_a_round(plant, device, device)
    plant.wait_for_rounds()
    assert f"Round {index}: {device} is left out" in plant.log("assembly")[said:]
    assert all(of_floor(record, "assembly")["completed"] for record in plant.records()[index:])
    wait_until(lambda: f"{device} has joined" in plant.log("assembly")[said:], "that it joins again")
    decided = plant.log(device).count("Decided")
    wait_until(lambda: plant.log(device).count("Decided") >= decided + 3, "its trial and two rounds")
    assert plant.running[device].pid == before
    assert plant.running[device].poll() is None


def test_a_floor_whose_link_is_down_is_lost_and_comes_back(plant: NetworkedPrograms) -> None:
    index = down_in_a_round(plant, "hall-1", "hall-1.camera-1")
    plant.wait_for_rounds()
    lost = plant.records()[index]
    assert of_floor(lost, "hall-1")["failure"] == "lost"
    assert of_floor(lost, "assembly")["completed"]
    assert "hall-1 is gone" in plant.log(BASE_STATION)
    plant.wait_for_a_whole_round()
    assert plant.running["hall-1"].poll() is None


def test_no_round_lasts_longer_than_its_deadline_and_nothing_is_left(plant: NetworkedPrograms) -> None:
    plant.wait_for_rounds()
    for name in list(plant.running):
        assert plant.end(name, signal.SIGTERM) == 0
    assert not plant.late_rounds()
    assert not plant.tracebacks()
    assert not plant.left_behind()
    assert not plant.processes_left()
    records = plant.kept_records()
    assert [record["round"] for record in records] == list(range(len(records)))
