"""A third plant, made here of nothing but the contract: it is logged, resumed, planned and reported like the others."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.arrays import Floats
from fedfloor.costs.plant import arrays_of
from fedfloor.errors import RunLogError
from fedfloor.rounds.events import Event, Tell, silent
from fedfloor.rounds.listeners.checkpoint import load_checkpoint, signed
from fedfloor.rounds.loop import run_rounds
from fedfloor.rounds.outcome import Outcome
from fedfloor.rounds.plants.contract import Plant, PlantState, numbers_from
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_outcome, simulated_rates
from fedfloor.runs.driving import Driven, claimed_folder, drive, earlier_rounds
from fedfloor.runs.planned import planned_run
from fedfloor.scenario import Scenario, resolved_toml
from fedfloor.scheduling.policies.ddsra import Ddsra
from fedfloor.scheduling.state import Decision, RoundState
from fedfloor.weather.draws import Weather

ROUNDS = 6
OVERRIDES = ("training.checkpoint_every=2",)


class Playback:
    """Gains and energies that were measured on a real radio, round by round; no seed gives them again."""

    redraws_weather = False

    def __init__(self, scenario: Scenario, recording: tuple[Weather, ...]) -> None:
        self.scenario, self.index = scenario, 0
        self._recording, self._arrays = recording, arrays_of(scenario)
        self._queue: Floats = np.zeros(len(scenario.floors))

    def observe(self) -> RoundState:
        self._state = RoundState(
            index=self.index,
            seed=self.scenario.seed,
            plant=self._arrays,
            weather=self._recording[self.index],
            queue=self._queue,
            target_rate=simulated_rates(self.scenario),
            last_loss=np.full(len(self.scenario.floors), np.nan),
            baseline=self.scenario.baseline,
        )
        return self._state

    def execute(self, decision: Decision) -> Outcome:
        return simulated_outcome(self._state, decision)

    def settle(self, queue: Floats) -> None:
        self._queue = queue
        self.index += 1

    def snapshot(self) -> PlantState:
        return PlantState(self.index, {"queue": self._queue.tolist(), "recorded": len(self._recording)}, {})

    def restore(self, state: PlantState) -> None:
        if state.values.get("recorded") != len(self._recording):
            raise ValueError(f"recorded must be {len(self._recording)}, got {state.values.get('recorded')}")
        self._queue = numbers_from(state.values, "queue", len(self.scenario.floors))
        self.index = state.index


def recording() -> tuple[Weather, ...]:
    """What somebody measured in a hall with 6 gateways, 3 channels and 18 cameras."""
    rng = np.random.default_rng(20260301)

    def gain() -> Floats:
        return 4e-10 * rng.exponential(1.0, (6, 3))

    def noise() -> Floats:
        return np.abs(rng.normal(0.0, 1e-13, (6, 3)))

    return tuple(
        Weather(
            uplink_gain=gain(),
            downlink_gain=gain(),
            uplink_interference=noise(),
            downlink_interference=noise(),
            gateway_energy=rng.uniform(0.05, 0.3, 6),
            device_energy=rng.uniform(0.0, 0.2, 18),
        )
        for _ in range(ROUNDS)
    )


def play(folder: Path, rounds: int = ROUNDS, *, resume: bool = False, tell: Tell = silent) -> Driven:
    """Run a new plant in a folder, as `fedfloor.runs.train` does with its own."""
    planned = planned_run("quick", "ddsra:v=1", rounds, overrides=OVERRIDES)
    planned = dataclasses.replace(planned, folder=folder)
    scenario_toml = resolved_toml(planned.file)
    plant: Plant = Playback(planned.scenario, recording())
    with claimed_folder(planned, checkpoints=True, resume=resume) as opened:
        assert opened is not None
        earlier = earlier_rounds(planned, scenario_toml) if resume else None
        if earlier is not None:
            earlier.checkpoint.restore(plant)
        opened.begin(scenario_toml, plant.index)
        return Driven.of(drive(plant, planned, opened, earlier=earlier, tell=tell), earlier)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("playback") / "run"
    play(folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """What must be equal of equal runs: everything but the wall clock."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "timings.jsonl")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_the_plant_leaves_a_log_and_a_checkpoint(whole: Path) -> None:
    assert sorted(contents(whole)) == [
        "checkpoint/state.json", "checkpoint/weights-000006.safetensors", "rounds.jsonl", "scenario.toml",
    ]  # fmt: skip
    assert fedfloor.read(whole)["round"] == list(range(ROUNDS))
    assert any(fedfloor.read(whole)["completed"])
    checkpoint = load_checkpoint(whole)
    assert checkpoint is not None
    assert (checkpoint.round, checkpoint.clock) == (ROUNDS, fedfloor.read(whole)["clock_s"][-1])


def test_every_round_of_the_log_carries_its_weather(whole: Path) -> None:
    for line, measured in zip((whole / "rounds.jsonl").read_text().splitlines(), recording(), strict=True):
        weather = json.loads(line)["weather"]
        assert weather["uplink_gain"] == measured.uplink_gain.tolist()
        assert weather["device_energy_j"] == measured.device_energy.tolist()


def test_a_simulation_does_not_log_weather_that_its_seed_gives_again(tmp_path: Path) -> None:
    fedfloor.simulate("quick", "random", rounds=1, out=tmp_path / "run")
    assert "weather" not in json.loads((tmp_path / "run" / "rounds.jsonl").read_text())


@pytest.mark.parametrize("stop", [2, 3, 5])
def test_a_run_that_was_stopped_and_resumed_is_the_run_in_one_go(stop: int, whole: Path, tmp_path: Path) -> None:
    assert len(play(tmp_path / "run", stop).records) == stop
    assert contents(tmp_path / "run") != contents(whole)
    driven = play(tmp_path / "run", resume=True)
    assert (len(driven.records), len(driven.timings)) == (ROUNDS, ROUNDS - stop)
    assert contents(tmp_path / "run") == contents(whole)


def stopping_after(rounds: int) -> Tell:
    def stop(event: Event) -> None:
        if event.record is not None and event.record.round == rounds - 1:
            raise KeyboardInterrupt

    return stop


@pytest.mark.parametrize("stop", [1, 2, 5])  # before the first checkpoint, at it, and one round after the second
def test_rounds_after_the_last_checkpoint_are_run_again(stop: int, whole: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        play(tmp_path / "run", tell=stopping_after(stop))
    assert len((tmp_path / "run" / "rounds.jsonl").read_text().splitlines()) == stop
    driven = play(tmp_path / "run", resume=True)
    assert len(driven.timings) == ROUNDS - stop // 2 * 2
    assert contents(tmp_path / "run") == contents(whole)


def test_a_finished_run_that_is_resumed_stays_as_it_is(whole: Path) -> None:
    before = contents(whole)
    assert play(whole, resume=True).timings == ()
    assert contents(whole) == before


def test_a_logged_round_is_decided_again_on_the_weather_of_its_record(whole: Path) -> None:
    for record in (json.loads(line) for line in (whole / "rounds.jsonl").read_text().splitlines()):
        decided = fedfloor.plan(whole, round=record["round"])
        assert decided["delay_s"] == record["delay_s"]
        for planned, logged in zip(decided["gateways"], record["gateways"], strict=True):
            assert planned["channel"] == logged["channel"]
            assert planned["energy_budget_j"] == logged["energy_budget_j"]
            assert planned["upload_s"] == logged["upload_s"]
            cuts = [device["cut"] for device in logged.get("devices", ())]
            assert [device["cut"] for device in planned["devices"]] == cuts


def test_a_record_that_lost_its_weather_is_not_decided_on_another(whole: Path, tmp_path: Path) -> None:
    record = json.loads((whole / "rounds.jsonl").read_text().splitlines()[0])
    del record["weather"]
    (tmp_path / "scenario.toml").write_bytes((whole / "scenario.toml").read_bytes())
    (tmp_path / "rounds.jsonl").write_text(json.dumps(record) + "\n")
    with pytest.raises(RunLogError, match=r"scenario\.toml and rounds\.jsonl disagree about the energy of round"):
        fedfloor.plan(tmp_path, round=0)


def test_the_run_is_reported_like_any_other(whole: Path, tmp_path: Path) -> None:
    report = fedfloor.report(whole, out=tmp_path / "report", csv=tmp_path / "rounds.csv")
    assert tuple(report.collection.problems) == ()
    table = report.tables[0]
    assert table.rows[0][table.columns.index("rounds")] == str(ROUNDS)
    assert report.page.stat().st_size > 10_000
    assert len((tmp_path / "rounds.csv").read_text().splitlines()) > ROUNDS


Change = Callable[[dict[str, Any]], Any]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda state: state.pop("queue"), "queue must be 6 numbers >= 0, got None"),
        (lambda state: state.update(queue=[0.0] * 5), "queue must be 6 numbers >= 0, got [0.0, 0.0, 0.0, 0.0, 0.0]"),
        (lambda state: state.update(queue="long"), "queue must be 6 numbers >= 0, got 'long'"),
        (lambda state: state.update(recorded=7), "recorded must be 6, got 7"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_in_one_line_and_changes_nothing(
    change: Change, expected: str, tmp_path: Path
) -> None:
    play(tmp_path / "run", 2)
    path = tmp_path / "run" / "checkpoint" / "state.json"
    state = json.loads(path.read_text())
    change(state)
    path.write_bytes(signed(state))
    before = contents(tmp_path / "run")
    with pytest.raises(RunLogError) as caught:
        play(tmp_path / "run", resume=True)
    problem = f"{path}: does not fit the scenario: {expected}"
    assert str(caught.value) == f"{problem}. Start a new run in another folder"
    assert contents(tmp_path / "run") == before


def test_a_simulated_plant_continues_from_its_snapshot() -> None:
    battery = ["battery.gateway_capacity_j=0.3", "battery.device_capacity_j=0.05"]
    scenario = fedfloor.load("quick", battery)
    whole, half = (SimulatedPlant(scenario, simulated_rates(scenario)) for _ in range(2))
    policy = Ddsra(v=1.0)
    expected = [ended.record for ended in run_rounds(whole, policy, 8)]
    assert [ended.record for ended in run_rounds(half, policy, 3)] == expected[:3]
    state = half.snapshot()
    resumed = SimulatedPlant(scenario, np.full(6, 0.5))
    resumed.restore(PlantState(state.index, json.loads(json.dumps(dict(state.values))), {}))
    rest = run_rounds(resumed, policy, 5, clock=expected[2].clock)
    assert [ended.record for ended in rest] == expected[3:]
