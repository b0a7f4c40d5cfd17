"""What machines say on joining: what reaches the run folder, and what may not be said."""

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

from fedfloor.deploy.actuators.choosing import make_actuator
from fedfloor.deploy.device import Device, serve_device
from fedfloor.deploy.fields import LinkError
from fedfloor.deploy.joining import JoiningProfile, joining_text
from fedfloor.deploy.link import Listener
from fedfloor.deploy.machines import MachineFiles, class_counts, device_profile, gateway_profile
from fedfloor.deploy.messages import Hello, Profile, Welcome
from fedfloor.deploy.session import Session
from fedfloor.deploy.tasks import floor_tasks, task_text
from fedfloor.errors import DeploymentError
from fedfloor.reports.beside import holding_from
from fedfloor.runs.planned import planned_run
from tests.conftest import known
from tests.deploy.floors import some_data
from tests.deploy.plants import OVERRIDES

TASKS = floor_tasks(
    planned_run("quick", "random", 1, overrides=[*OVERRIDES, "deploy.allow_class_counts=true"]).scenario
)
SILENT = floor_tasks(planned_run("quick", "random", 1, overrides=OVERRIDES).scenario)
NAME, OTHER = (task.name for task in TASKS[0].devices)
COUNTS = (3, 0, 2, *[0] * 7)


def profile(name: str, counts: tuple[int, ...] | None = None, cores: int = 4) -> JoiningProfile:
    return JoiningProfile(name=name, cores=cores, processor="A72", memory_bytes=10**9, torch="2", fedfloor="1",
                          samples=sum(counts or ()), class_counts=counts)  # fmt: skip


def test_every_class_is_counted_also_one_without_samples() -> None:
    assert class_counts(np.array([0, 2, 2, 0, 0]), 4) == (3, 0, 2, 0)


def test_a_device_says_what_the_scenario_allows() -> None:
    text = joining_text(profile(NAME, COUNTS))
    assert device_profile(text, TASKS[0].devices).class_counts == COUNTS
    with pytest.raises(LinkError, match="tells its class counts, which the scenario does not allow"):
        device_profile(text, SILENT[0].devices)
    with pytest.raises(LinkError, match="tells 2 classes, not 10"):
        device_profile(joining_text(profile(NAME, (1, 2))), TASKS[0].devices)
    with pytest.raises(LinkError, match="'nobody' is no device of this floor"):
        device_profile(joining_text(profile("nobody")), TASKS[0].devices)
    with pytest.raises(LinkError, match=r"Profile: cores: "):
        device_profile(text.replace('"cores":4', '"cores":0'), TASKS[0].devices)


@pytest.mark.parametrize("scenario_allows", [True, False])
@pytest.mark.parametrize("device_allows", [True, False])
def test_class_counts_leave_a_device_only_if_both_allow_it(scenario_allows: bool, device_allows: bool) -> None:
    task = (TASKS if scenario_allows else SILENT)[0].devices[0]
    told: list[JoiningProfile] = []

    async def welcome(session: Session, _: Hello) -> None:
        await session.send(Welcome(task_text(task)))
        message = (await session.receive(Profile)).message
        assert isinstance(message, Profile)
        told.append(device_profile(message.profile, [task]))

    async def scene() -> None:
        async with Listener("127.0.0.1:0", welcome, lambda *_: "") as door:
            device = Device(
                name=task.name,
                gateway=f"127.0.0.1:{door.port}",
                data=lambda task: some_data(task, 30),
                actuator=make_actuator("log"),
                credentials=None,
                allow_class_counts=device_allows,
            )
            serving = asyncio.create_task(serve_device(device))
            while not told:
                await asyncio.sleep(0.02)
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(asyncio.wait_for(scene(), 60.0))
    assert told[0].samples == 30
    expected = class_counts(some_data(task, 30).labels, 10) if scenario_allows and device_allows else None
    assert told[0].class_counts == expected


def test_a_gateway_whose_profile_cannot_be_read_is_only_not_written_down() -> None:
    assert known(gateway_profile(joining_text(profile("assembly")), "assembly")).cores == 4
    assert gateway_profile(joining_text(profile("paint")), "assembly") is None
    assert gateway_profile("{}", "assembly") is None


def test_the_folder_keeps_what_machines_said_also_after_a_restart(tmp_path: Path) -> None:
    machines = MachineFiles(tmp_path, TASKS, "own", 7)
    machines.keep([profile("assembly")], [profile(NAME, COUNTS)])
    again = MachineFiles(tmp_path, TASKS, "own", 7)
    again.keep([], [profile(OTHER, cores=8)])
    table = json.loads((tmp_path / "machines.json").read_text())
    assert table["gateways"]["assembly"]["processor"] == "A72"
    assert {name: entry["cores"] for name, entry in table["devices"].items()} == {NAME: 4, OTHER: 8}
    assert "class_counts" not in table["devices"][OTHER]
    (held,) = known(holding_from(tmp_path / "holding.json")).devices  # the report reads it
    assert (held.name, held.floor, held.classes) == (NAME, "assembly", COUNTS)


def test_without_class_counts_nothing_says_who_holds_what(tmp_path: Path) -> None:
    MachineFiles(tmp_path, TASKS, "own", 7).keep([], [profile(NAME)])
    assert [path.name for path in tmp_path.iterdir()] == ["machines.json"]


def test_a_file_that_was_damaged_is_named(tmp_path: Path) -> None:
    (tmp_path / "machines.json").write_text("[]")
    with pytest.raises(DeploymentError, match=r"machines\.json: must be a table of gateways and devices"):
        MachineFiles(tmp_path, TASKS, "own", 7)
