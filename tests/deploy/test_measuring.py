"""Machines that measure their layers before the first round: what a run predicts with, and what it keeps."""

import asyncio
import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fedfloor
from fedfloor.costs.hardware import HardwareProfile, profile_text
from fedfloor.costs.plant import arrays_of
from fedfloor.deploy.actuators.choosing import make_actuator
from fedfloor.deploy.authority import BASE_STATION, make_authority, parties_of
from fedfloor.deploy.certificates import Role
from fedfloor.deploy.device import Device, serve_device
from fedfloor.deploy.fields import LinkError
from fedfloor.deploy.gateway import Gateway, serve_gateway
from fedfloor.deploy.holdings import data_source
from fedfloor.deploy.identity import Credentials
from fedfloor.deploy.joining import joining_text, this_machine
from fedfloor.deploy.machines import device_profile, floor_profile
from fedfloor.deploy.measuring import CostMeter
from fedfloor.deploy.serving import DeployedRun, Serving, serve_planned
from fedfloor.deploy.tasks import floor_tasks, task_text
from fedfloor.errors import DeploymentError, ProfileError
from fedfloor.rounds.listeners.checkpoint import load_checkpoint
from fedfloor.runs import measure as measuring
from fedfloor.runs.deployable import refuse_undeployable
from fedfloor.runs.folder import scenario_of
from fedfloor.runs.measure import representative
from fedfloor.runs.measured import MeasuredBy, with_kept_costs, with_measured_costs
from fedfloor.runs.planned import PlannedRun, planned_run
from fedfloor.scenario import resolved_toml
from tests.conftest import known
from tests.costs.profiles import profile_of
from tests.deploy.floors import Loop, lines_of_log
from tests.deploy.plants import OVERRIDES, distance, simulated
from tests.deploy.test_plant import deployed

SMALL = ("floors.0.devices.0.count=1", "floors.1.devices.0.count=1", "deploy.measure=true")


def small_plant(rounds: int = 1, *more: str) -> PlannedRun:
    return planned_run("quick", "random", rounds, overrides=[*OVERRIDES, *SMALL, *more], training=True)


PLANT = small_plant()
ASKED, AFTER = floor_tasks(PLANT.scenario, measure=True), floor_tasks(PLANT.scenario)
NAMES = [device.name for device in PLANT.scenario.devices]


def costs(frequency: float = 2e9, batches: Sequence[int] = (10, 50)) -> HardwareProfile:
    """Made-up costs of the plant's network."""
    return profile_of(PLANT.scenario.layers, batches, frequency=frequency)


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


class SmallPlant:
    """Gateways and devices of the small plant in an event loop, over mutual TLS; each measures for a moment."""

    def __init__(self, loop: Loop, place: Path) -> None:
        self.loop, self.port, self.place = loop, 0, place
        make_authority(place / "certs", parties_of(PLANT.scenario))
        (place / "plant.toml").write_text(resolved_toml(PLANT.file), encoding="utf-8")

    def credentials(self, role: Role, name: str) -> Credentials:
        return Credentials(self.place / "certs" / role / name, role)

    def start(self, port: int) -> None:
        """Start all of them, unless they run already."""
        if self.port:
            return
        self.port = port
        for task in AFTER:
            ports: asyncio.Queue[int] = asyncio.Queue()
            gateway = Gateway(
                name=task.floor,
                station=f"127.0.0.1:{port}",
                listen="127.0.0.1:0",
                actuator=lambda: make_actuator("log"),
                credentials=self.credentials(Role.GATEWAY, task.floor),
                processes=1,
                meter_of_costs=CostMeter(1.5e9, 0.01),
                on_listening=ports.put_nowait,
            )
            self.loop.start(serve_gateway(gateway))
            listening = self.loop.run(ports.get())
            for device in task.devices:
                options = Device(
                    name=device.name,
                    gateway=f"127.0.0.1:{listening}",
                    data=data_source(f"scenario:{self.place / 'plant.toml'}"),
                    actuator=make_actuator("log"),
                    credentials=self.credentials(Role.DEVICE, device.name),
                    meter_of_costs=CostMeter(1.5e9, 0.01),
                )
                self.loop.start(serve_device(options))

    def serve(self, planned: PlannedRun, *, resume: bool = False) -> DeployedRun:
        options = Serving(
            listen=f"127.0.0.1:{self.port}",
            credentials=self.credentials(Role.SERVER, BASE_STATION),
            resume=resume,
            workers=1,
            wait=60.0,
            on_listening=self.start,
        )
        return serve_planned(planned, options)


@pytest.mark.slow
def test_a_run_predicts_with_what_its_machines_measured_also_after_a_stop(loop: Loop, tmp_path: Path) -> None:
    machines, folder = SmallPlant(loop, tmp_path), tmp_path / "run"
    with lines_of_log() as lines:
        done = machines.serve(replace(small_plant(2), folder=folder))
    assert "Costs rest on measurements of 2 of 2 devices and 2 of 2 gateways." in lines
    profiles = {path.name: path.read_text() for path in (folder / "profiles").iterdir()}
    assert len(profiles) == 4
    assert {json.loads(text)["frequency_hz"] for text in profiles.values()} == {1.5e9}
    kept = scenario_of(folder)
    used = [folder / known(device.profile) for device in done.scenario.devices]
    assert [device.profile for device in kept.devices] == used
    assert arrays_of(kept).measured is not None
    assert "costs" not in (folder / "machines.json").read_text()
    for record in done.records:  # the folder alone gives the same prediction
        answer: Any = fedfloor.plan(folder, "random", round=record.round)
        assert [gateway.predicted_s for gateway in record.gateways] == [
            entry["delay_s"] for entry in answer["gateways"]
        ]
    before = (folder / "rounds.jsonl").read_bytes()
    with lines_of_log() as lines:
        machines.serve(replace(small_plant(3), folder=folder), resume=True)
    assert not any("Measured" in line for line in lines)  # nobody is asked again
    assert {path.name: path.read_text() for path in (folder / "profiles").iterdir()} == profiles
    assert (folder / "rounds.jsonl").read_bytes().startswith(before)
    assert tomllib.loads((folder / "scenario.toml").read_text())["deploy"]["measure"] is True
    weights, _ = simulated(folder, 3, SMALL)  # costs change times, not what is learnt
    for name, tensor in known(load_checkpoint(folder)).state.weights.items():
        assert distance(tensor, weights[name]) < 1e-5, name


@pytest.mark.slow
def test_real_processes_measure_and_resume_with_what_they_measured(tmp_path: Path) -> None:
    deployed(tmp_path / "run", "deploy.measure=true")
    names = sorted(path.name for path in (tmp_path / "run" / "profiles").iterdir())
    assert len(names) == 6
    before = (tmp_path / "run" / "scenario.toml").read_bytes()
    deployed(tmp_path / "run", "deploy.measure=true", resume=True)
    assert (tmp_path / "run" / "scenario.toml").read_bytes() == before
    assert sorted(path.name for path in (tmp_path / "run" / "profiles").iterdir()) == names


def test_a_network_is_measured_once_for_all_devices_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    meter, task = CostMeter(1.5e9, 1e-6), AFTER[0].devices[0]

    async def scene() -> None:
        first, again, other = await asyncio.gather(
            meter.costs(task.model, [4]), meter.costs(task.model, [4]), meter.costs(task.model, [4, 8])
        )
        assert known(first) is again
        assert known(first).batches == (4,)
        assert known(other).batches == (4, 8)
        assert known(first).frequency_source == "given"
        assert [layer.kind for layer in known(first).specs] == [layer.kind for layer in PLANT.scenario.layers]

    asyncio.run(scene())
    monkeypatch.setattr(measuring, "read_frequency", lambda: None)
    with lines_of_log() as lines:
        assert asyncio.run(CostMeter(None, 1e-6).costs(task.model, [4])) is None
    assert "--frequency-ghz: is missing, and this machine does not say" in lines[0]


def test_only_machines_without_a_profile_are_asked_to_measure(tmp_path: Path) -> None:
    (tmp_path / "machine.json").write_text(profile_text(costs()))
    named = f"floors.0.devices.0.profile={tmp_path / 'machine.json'}"
    first, second = floor_tasks(small_plant(1, named).scenario, measure=True)
    assert [device.measure for floor in (first, second) for device in floor.devices] == [None, True]
    assert (first.measure, second.measure) == (True, True)
    assert all(task.measure is None for task in AFTER)
    assert "measure" not in task_text(AFTER[0])


def told(name: str, of: HardwareProfile | None = None, role: Any = None) -> str:
    return joining_text(this_machine(name, role=role, samples=0 if role else 5, costs=of))


def test_costs_are_refused_unless_they_were_asked_for_and_are_of_the_plants_network() -> None:
    floor, device = ASKED[0], ASKED[0].devices[0]
    own = costs(batches=[device.batch])
    assert device_profile(told(device.name, own), [device]).costs == own
    assert floor_profile(told(device.name, own), floor).costs == own
    of_floor = costs(batches=representative([entry.batch for entry in floor.devices]))
    assert floor_profile(told(floor.floor, of_floor, "gateway"), floor).role == "gateway"
    with pytest.raises(LinkError, match=rf"has measured batches of '10, 50', not of {device.batch}"):
        device_profile(told(device.name, costs()), [device])
    with pytest.raises(LinkError, match="tells costs, but was not asked to measure them"):
        device_profile(told(device.name, costs()), AFTER[0].devices)
    with pytest.raises(LinkError, match="tells costs, but was not asked to measure them"):
        floor_profile(told(floor.floor, costs(), "gateway"), AFTER[0])
    with pytest.raises(LinkError, match=r"has measured another network than the plant trains: '\w+' with \d+ layers"):
        device_profile(told(device.name, profile_of()), [device])
    fewer = profile_of(PLANT.scenario.layers[:-1])
    with pytest.raises(LinkError, match="has measured another network"):
        floor_profile(told(floor.floor, fewer, "gateway"), floor)
    with pytest.raises(LinkError, match="is not the gateway of this floor"):
        floor_profile(told("hall-9", costs(), "gateway"), floor)
    with pytest.raises(LinkError, match="is no device of this floor"):
        device_profile(told(device.name, costs(), "gateway"), [device])


def test_measured_costs_are_those_of_a_profile_that_the_scenario_names(tmp_path: Path) -> None:
    (tmp_path / "machine.json").write_text(profile_text(costs()))
    path = tmp_path / "machine.json"
    named = [f"floors.0.devices.0.profile={path}", f"floors.1.devices.0.profile={path}"]
    expected = known(arrays_of(small_plant(1, *named).scenario).measured)
    planned = with_measured_costs(PLANT, MeasuredBy({}, dict.fromkeys(NAMES, costs())))
    found = known(arrays_of(planned.scenario).measured)
    for key in ("bottom_cycles", "top_cycles", "bottom_bytes", "top_bytes"):
        assert (getattr(found, key) == getattr(expected, key)).all(), key
    other = small_plant(1, *named)
    kept = with_measured_costs(other, MeasuredBy({}, dict.fromkeys(NAMES, costs(3e9))))
    assert kept.scenario == other.scenario  # what the scenario names counts


def test_a_lost_or_changed_copy_is_named(tmp_path: Path) -> None:
    planned = replace(with_measured_costs(PLANT, MeasuredBy({}, {NAMES[0]: costs()})), folder=tmp_path)
    assert with_kept_costs(replace(PLANT, folder=tmp_path)) is None  # no run has begun
    (tmp_path / "scenario.toml").write_text(resolved_toml(planned.file))
    (text,) = planned.scenario.profiles.values()
    copy = tmp_path / known(planned.scenario.devices[0].profile)
    with pytest.raises(ProfileError, match=r"no such file\. A run wrote it: restore the file"):
        with_kept_costs(replace(PLANT, folder=tmp_path))
    copy.parent.mkdir()
    copy.write_text(text + " ")
    with pytest.raises(ProfileError, match="was changed since the run wrote it"):
        with_kept_costs(replace(PLANT, folder=tmp_path))
    copy.write_text(text)
    again = known(with_kept_costs(replace(PLANT, folder=tmp_path)))
    assert again.file == planned.file
    assert again.scenario.profiles == planned.scenario.profiles


def test_switched_off_the_key_is_absent() -> None:
    plain = planned_run("quick", "random", 1, overrides=[*OVERRIDES, "deploy.allow_samples=true"]).file
    off = planned_run("quick", "random", 1, overrides=[*OVERRIDES, "deploy.allow_samples=true", "deploy.measure=false"])
    assert resolved_toml(off.file) == resolved_toml(plain)
    assert "measure" not in tomllib.loads(resolved_toml(plain))["deploy"]


def test_costs_of_another_width_cannot_be_measured() -> None:
    overrides = [*OVERRIDES, "deploy.measure=true", "costs.width=0.5"]
    scenario = planned_run("quick", "random", 1, overrides=overrides).scenario
    with pytest.raises(DeploymentError, match=r"costs\.width: must be model\.width = 1 with deploy\.measure, got 0\.5"):
        refuse_undeployable(scenario, "plant.toml")
