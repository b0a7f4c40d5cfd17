"""The loop, the simulated plant, the baselines and the log they leave."""

import dataclasses
import gc
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.errors import PolicyError, RunLogError
from fedfloor.rounds.lines import json_line
from fedfloor.rounds.loop import next_queue, run_rounds
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.rounds.record import RoundRecord
from fedfloor.rounds.summary import summarise
from fedfloor.runs.planned import planned_run, resolve, with_folders
from fedfloor.scenario.resolved import Scenario
from fedfloor.scheduling.allocating import floor_delays
from fedfloor.scheduling.checking import check_decision
from fedfloor.scheduling.history import no_history
from fedfloor.scheduling.registry import make_policy, parse_policy, policy_summaries
from fedfloor.scheduling.state import IDLE, Decision, RoundState, fixed_allocation
from fedfloor.scheduling.traits import needs_training
from tests.conftest import Table, known, small_table

POLICIES = sorted(policy_summaries())
GATEWAY_KEYS = {
    "name", "selected", "channel", "completed", "failure", "delay_s", "download_s", "train_s", "upload_s", "power_w",
    "energy_j", "energy_budget_j", "queue", "target_rate",
}  # fmt: skip


def observed(preset: str = "quick") -> RoundState:
    plant = fedfloor.load(preset)
    return first_round(plant)


def first_round(plant: Scenario) -> RoundState:
    state = SimulatedPlant(plant, simulated_rates(plant)).observe()
    return dataclasses.replace(state, history=no_history(state.queue.size))


def test_serving_a_gateway_never_raises_its_queue() -> None:  # Eq. (14)
    rng = np.random.default_rng(0)
    queue, rate = rng.uniform(0, 9, 100), rng.uniform(0, 1, 100)
    assert np.all(next_queue(queue, np.ones(100, dtype=bool), rate) <= queue)


def test_a_queue_grows_by_its_rate_and_never_below_zero() -> None:  # Eq. (14)
    queue = next_queue(np.array([0.0, 0.0]), np.array([False, True]), np.array([0.4, 0.4]))
    assert queue == pytest.approx([0.4, 0.0])


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("channels", [1, 3, 9])
def test_no_policy_gives_a_channel_to_two_gateways(name: str, channels: int) -> None:  # C1-C3
    plant = fedfloor.load("quick", [f"radio.channels={channels}"])
    state = first_round(plant)
    channel = make_policy(parse_policy(name))[1].schedule(state).channel
    used = channel[channel != IDLE]
    assert len(set(used)) == len(used) <= min(channels, 6)
    assert name in ("participation", "lyapunov") or len(used) == min(channels, 6)
    assert set(used) <= set(range(channels))


@pytest.mark.parametrize("name", POLICIES)
def test_the_same_state_gets_the_same_decision(name: str) -> None:
    state, policy = observed(), make_policy(parse_policy(name))[1]
    assert np.array_equal(policy.schedule(state).channel, policy.schedule(state).channel)


def test_random_serves_every_floor_alike() -> None:
    run = fedfloor.simulate("quick", policy="random", rounds=600)
    rates = [floor.selected_rate for floor in summarise(run.records).floors]
    assert rates == pytest.approx([0.5] * 6, abs=0.07)


def test_round_robin_serves_every_floor_once_in_a_cycle() -> None:  # ceil(M/J) groups
    run = fedfloor.simulate("quick", "round_robin", rounds=4)
    chosen = [[g.name for g in record.gateways if g.selected] for record in run.records]
    assert chosen[0] == chosen[2]
    assert chosen[1] == chosen[3]
    assert sorted(chosen[0] + chosen[1]) == sorted(floor.name for floor in run.scenario.floors)


def test_round_robin_fills_its_last_group_with_what_is_left() -> None:
    run = fedfloor.simulate("quick", "round_robin", rounds=2, overrides=["radio.channels=4"])
    assert fedfloor.read(run)["selected"] == [4, 2]


def run_small(change: Callable[[Table], Any], write: Callable[[Table], Path], **more: Any) -> list[RoundRecord]:
    table = small_table()
    change(table)
    return list(fedfloor.simulate(write(table), "round_robin", **more).records)


def test_a_floor_without_room_fails_at_once(write: Callable[[Table], Path]) -> None:
    records = run_small(lambda t: t["floors"][0]["gateway"].update(memory_gb=1e-9), write)
    for record in records:
        press, paint = record.gateways
        assert (press.failure, press.completed, paint.failure) == ("memory", False, None)
        assert press.delay_s == known(press.download_s) > 0
        assert press.energy_j == 0
        assert all(device.energy_j == 0 for device in press.devices)


def test_a_floor_short_of_energy_spends_its_budget_and_its_full_delay_counts(write: Callable[[Table], Path]) -> None:
    records = run_small(lambda t: t["floors"][0]["gateway"].update(max_energy_j=1e-6), write)
    for record in records:
        press = record.gateways[0]
        assert (press.failure, press.completed) == ("energy", False)
        assert press.energy_j == pytest.approx(press.energy_budget_j)
        assert press.delay_s == pytest.approx(known(press.download_s) + known(press.train_s) + known(press.upload_s))
        assert record.delay_s == max(known(gateway.delay_s) for gateway in record.gateways)


def test_without_limits_nobody_fails(write: Callable[[Table], Path]) -> None:
    def change(table: Table) -> None:
        table["limits"] = False
        table["floors"][0]["gateway"].update(max_energy_j=0.0, memory_gb=1e-9)

    for record in run_small(change, write):
        assert all(gateway.completed for gateway in record.gateways if gateway.selected)
        assert record.gateways[0].energy_budget_j is None


def test_only_completed_rounds_pay_off_the_queue(write: Callable[[Table], Path]) -> None:
    records = run_small(lambda t: t["floors"][0]["gateway"].update(max_energy_j=0.0), write)
    assert [record.gateways[0].queue for record in records] == pytest.approx([0, 1, 2, 3, 4])
    assert [record.gateways[1].queue for record in records] == [0] * 5


def test_the_log_has_what_the_interface_promises(tmp_path: Path) -> None:
    run = fedfloor.simulate("quick", rounds=3, out=tmp_path / "run")
    lines = (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert lines == [json_line(record) for record in run.records]
    assert all({"round", "policy", "delay_s", "clock_s", "accuracy", "loss", "gateways"} <= set(r) for r in records)
    for gateway in records[0]["gateways"]:
        assert set(gateway) >= GATEWAY_KEYS
        assert ("devices" in gateway) == gateway["selected"]
    device = next(g for g in records[0]["gateways"] if g["selected"])["devices"][0]
    assert set(device) >= {"name", "cut", "gateway_frequency_hz", "energy_j", "memory_bytes"}
    assert records[-1]["clock_s"] == pytest.approx(sum(record["delay_s"] for record in records))


def test_equal_runs_leave_equal_logs(tmp_path: Path) -> None:
    for name in ("one", "two"):
        fedfloor.simulate("quick", rounds=10, out=tmp_path / name)
    assert (tmp_path / "one" / "rounds.jsonl").read_bytes() == (tmp_path / "two" / "rounds.jsonl").read_bytes()


def test_a_simulation_with_a_folder_keeps_no_round_in_memory(tmp_path: Path) -> None:
    def kept() -> int:
        return sum(type(entry) is RoundRecord for entry in gc.get_objects())

    before, counts = kept(), list[int]()
    run = fedfloor.simulate("quick", "random", 20, out=tmp_path / "run", on_round=lambda _: counts.append(kept()))
    assert max(counts) - before <= 2  # the round that has ended, and the one before it
    assert kept() == before
    assert len(run.records) == len(run.timings) == 20
    assert run.records is run.records
    assert run.records == fedfloor.simulate("quick", "random", rounds=20).records


@pytest.mark.parametrize("name", ["random", "delay_driven"])
def test_rounds_that_are_counted_as_they_come_have_the_summary_of_all_of_them(name: str) -> None:
    run = fedfloor.simulate("quick", name, rounds=50, overrides=["floors.0.gateway.max_energy_j=0.0"])
    summary, records = run.summary, run.records
    floors = list(zip(*(record.gateways for record in records), strict=True))
    delays = sorted(record.delay for record in records)
    assert summary == summarise(records)
    assert (summary.policy, summary.rounds, summary.clock) == (name, 50, records[-1].clock)
    assert summary.mean_delay == np.mean([record.delay for record in records])
    assert summary.p95_delay == delays[47]  # the least that is no less than 95 % of all
    assert summary.mean_energy == sum(entry.floor_energy for floor in floors for entry in floor) / 50
    assert summary.completed == sum(entry.completed for floor in floors for entry in floor)
    for floor, entries in zip(summary.floors, floors, strict=True):
        causes = [entry.failure for entry in entries if entry.failure]
        assert floor.failures == {cause: causes.count(cause) for cause in causes}
        assert floor.target_rate == sum(entry.target_rate for entry in entries) / 50
        assert floor.selected_rate == sum(entry.selected for entry in entries) / 50
        assert floor.completed_rate == sum(entry.completed for entry in entries) / 50


def test_the_scenario_of_a_run_reruns_it(tmp_path: Path) -> None:
    run = fedfloor.simulate("quick", rounds=5, out=tmp_path / "run")
    again = fedfloor.simulate(tmp_path / "run" / "scenario.toml")
    assert again.records == run.records


def test_a_traced_scenario_reruns_from_its_run_folder(write: Callable[[Table], Path], tmp_path: Path) -> None:
    rows = [f"{t},{m},1.5" for t in range(5) for m in ("press", "paint")]
    (tmp_path / "e.csv").write_text("\n".join(["round,floor,energy_j", *rows]) + "\n")
    run = fedfloor.simulate(
        write({**small_table(), "traces": {"gateway_energy": "e.csv"}}), out=tmp_path / "deep" / "run"
    )
    assert fedfloor.simulate(tmp_path / "deep" / "run" / "scenario.toml").records == run.records


def test_every_policy_meets_the_same_weather() -> None:
    names = [name for name in POLICIES if not needs_training(make_policy(parse_policy(name))[1])]
    plants = [SimulatedPlant(fedfloor.load("quick"), np.full(6, 0.5)) for _ in names]
    for plant, name in zip(plants, names, strict=True):
        list(run_rounds(plant, make_policy(parse_policy(name))[1], 4))
    weathers = [plant.observe().weather for plant in plants]
    for field in dataclasses.fields(weathers[0]):
        values = [getattr(weather, field.name) for weather in weathers]
        assert all(np.array_equal(value, values[0]) for value in values)


def test_a_policy_that_needs_training_is_refused() -> None:
    with pytest.raises(PolicyError, match="'loss_driven': needs training"):
        fedfloor.simulate("quick", "loss_driven")


@pytest.mark.parametrize("per", ["round", "gateway", "device"])
def test_columns_have_equal_length(per: Any, tmp_path: Path) -> None:
    run = fedfloor.simulate("quick", rounds=4, out=tmp_path / "run")
    columns = fedfloor.read(tmp_path / "run", per=per)
    assert {len(column) for column in columns.values()} == {{"round": 4, "gateway": 24, "device": 36}[per]}
    assert columns == fedfloor.read(run, per=per)


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    fedfloor.simulate("quick", rounds=3, out=tmp_path / "run")
    log = tmp_path / "run" / "rounds.jsonl"
    log.write_text(log.read_text()[:-40])
    assert fedfloor.read(tmp_path / "run")["round"] == [0, 1]


def test_a_damaged_log_names_its_line(tmp_path: Path) -> None:
    fedfloor.simulate("quick", rounds=3, out=tmp_path / "run")
    log = tmp_path / "run" / "rounds.jsonl"
    log.write_text("{broken\n" + log.read_text())
    with pytest.raises(
        RunLogError,
        match=r"rounds\.jsonl: line 1: is not JSON: key must be a string at line 1 column 2\. It is damaged",
    ):
        fedfloor.read(tmp_path / "run")


def test_folders_that_are_no_run_are_named(tmp_path: Path) -> None:
    with pytest.raises(RunLogError, match=r"has no rounds\.jsonl"):
        fedfloor.read(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(RunLogError, match="is a file, not a run folder"):
        fedfloor.read(tmp_path / "file")


def test_a_folder_with_content_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunLogError, match=r"is not empty\. Name another folder"):
        fedfloor.simulate("quick", rounds=1, out=tmp_path)
    (tmp_path / "plain").touch()
    with pytest.raises(RunLogError, match="cannot be written"):
        fedfloor.simulate("quick", rounds=1, out=tmp_path / "plain" / "run")


class Favourite:
    """Serves one floor only: a policy as a user would write it."""

    def __init__(self, floor: int = 0) -> None:
        self.floor = floor

    def schedule(self, state: RoundState) -> Decision:
        channel = np.full(state.gain_up.shape[0], IDLE)
        channel[self.floor] = 0
        return Decision(channel=channel)


def test_a_users_policy_needs_no_change_to_the_package() -> None:
    run = fedfloor.simulate("quick", "tests.rounds.test_rounds:Favourite:floor=2", rounds=3)
    assert [[g.selected for g in record.gateways].index(True) for record in run.records] == [2, 2, 2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("randm", "unknown. Did you mean 'random'?"),
        ("random:v=1", "unknown setting 'v'"),
        ("random:v", "settings are key=value"),
        ("no.such.module:Policy", "cannot import 'no.such.module'"),
        ("tests.rounds.test_rounds:Missing", "has no 'Missing'"),
        ("tests.rounds.test_rounds:POLICIES", "is a list, not a class"),
        ("tests.rounds.test_rounds:Path", "has no method schedule"),
    ],
)
def test_policies_that_do_not_work_are_named(text: str, expected: str) -> None:
    with pytest.raises(PolicyError) as caught:
        make_policy(parse_policy(text))
    assert expected in str(caught.value)


def test_policy_specs_read_as_written() -> None:
    spec = parse_policy("ddsra:v=1000.0,solver=exact,fast=true")
    assert (str(spec), spec.slug) == ("ddsra:v=1000,solver=exact,fast=true", "ddsra-v1000-exact-fasttrue")
    assert parse_policy("a.b:C:x=1").name == "a.b:C"
    assert parse_policy("mine:Nearest").name == "mine:Nearest"


def test_a_policy_keeps_every_digit_of_its_settings() -> None:
    spec, policy = make_policy(parse_policy("ddsra:v=0.123456789"))
    again = make_policy(parse_policy(str(spec)))[1]
    assert again == policy


def test_delay_driven_minimises_the_delay_of_the_round() -> None:
    for index in range(30):
        plant = fedfloor.load("paper-cifar10-random", seed=index)
        state = SimulatedPlant(plant, simulated_rates(plant)).observe()
        delay, chosen = floor_delays(state), make_policy(parse_policy("delay_driven"))[1].schedule(state).channel
        best = min(
            max(delay[m, j] for m, j in zip(group, places, strict=True))
            for group in itertools.combinations(range(6), 3)
            for places in itertools.permutations(range(3))
        )
        assert max(delay[m, chosen[m]] for m in np.flatnonzero(chosen >= 0)) == pytest.approx(best)


def test_participation_draws_floors_at_their_rates() -> None:
    summary = summarise(fedfloor.simulate("paper-cifar10-random", "participation", rounds=1500).records)
    assert [floor.selected_rate for floor in summary.floors] == pytest.approx(
        [0.9, 0.5, 0.5, 0.37, 0.37, 0.36], abs=0.04
    )


def test_loss_driven_takes_new_floors_and_then_the_lowest_loss() -> None:
    state = dataclasses.replace(observed(), last_loss=np.array([0.9, 0.1, np.nan, 0.5, 0.2, 0.8]))
    chosen = make_policy(parse_policy("loss_driven"))[1].schedule(state).channel
    assert np.flatnonzero(chosen >= 0).tolist() == [1, 2, 4]


def test_rates_for_simulations_come_from_the_scenario() -> None:
    assert simulated_rates(fedfloor.load("paper-cifar10-random")).tolist() == [0.9, 0.5, 0.5, 0.37, 0.37, 0.36]
    assert simulated_rates(fedfloor.load("factory")).tolist() == [0.3] * 20


def test_the_resolved_file_keeps_overrides(tmp_path: Path) -> None:
    assert resolve("quick", ["radio.channels=2"], seed=3).radio.channels == 2


def changed(state: RoundState, **fields: Any) -> Decision:
    """A valid decision with some of it replaced."""
    allocation = fixed_allocation(state)
    parts = {key: fields.pop(key) for key in ("cut", "frequency", "power") if key in fields}
    channel = np.array([0, 1, IDLE, IDLE, IDLE, 2])
    return dataclasses.replace(Decision(channel=channel, allocation=dataclasses.replace(allocation, **parts)), **fields)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"channel": np.array([0, 0, IDLE, IDLE, IDLE, IDLE])}, "a channel serves one floor"),
        ({"channel": np.array([3, IDLE, IDLE, IDLE, IDLE, IDLE])}, "a channel must be from 0 to 2"),
        ({"channel": np.array([0, 1])}, "channel must be an array of 6 integers"),
        ({"channel": [0, 1, 2, -1, -1, -1]}, "channel must be an array of 6 integers"),
        ({"channel": np.zeros(6)}, "channel must be an array of 6 integers"),
        ({"cut": np.full(18, 7)}, "a cut must be a whole number from 0 to 6, got 7"),
        ({"cut": np.full(18, 1.5)}, "cut must be an array of 18 integers, got float64 of shape (18,)"),
        ({"frequency": np.full(18, 2e9)}, "assembly: frequencies add up to 6e+09 Hz, above the maximum of 4e+09 Hz"),
        ({"frequency": np.full(18, -1.0)}, "frequency must be finite and >= 0 everywhere, got -1"),
        ({"frequency": np.full(18, np.nan)}, "frequency must be finite and >= 0 everywhere, got nan"),
        ({"power": np.full(6, 0.3)}, "the power is 0.3 W, above the maximum of 0.2 W"),
        ({"power": np.zeros(6)}, "the power must be > 0, got 0 W"),
        ({"frequency": np.zeros(18)}, "the frequency must be > 0 because the gateway trains layers of this device"),
        ({"frequency": np.full(18, 1j)}, "frequency must be an array of 18 numbers, got complex128"),
        ({"cut": [0] * 18}, "cut must be an array of 18 integers, got a list"),
        ({"allocation": {"cut": 0}}, "allocation must be an Allocation, got a dict"),
    ],
)
def test_decisions_that_are_none_are_refused(fields: dict[str, Any], expected: str) -> None:
    state = observed()
    decision = changed(state, **fields)
    with pytest.raises(PolicyError) as caught:
        check_decision(state, decision)
    assert expected in str(caught.value)


@dataclasses.dataclass(frozen=True)
class Odd:
    """Settings that text cannot carry."""

    limit: float | None = None
    tag: str = "007"
    names: tuple[str, ...] = ("a",)
    counted: int = dataclasses.field(init=False, default=0)

    def schedule(self, state: RoundState) -> Decision:
        """Serve one floor, if the settings came as they are."""
        channel = np.full(state.queue.size, IDLE)
        channel[0 if (self.limit, self.tag, self.names) == (None, "007", ("a",)) else 1] = 0
        return Decision(channel)


def test_settings_of_any_kind_survive_the_run_folder(tmp_path: Path) -> None:
    run = fedfloor.simulate("quick", "tests.rounds.test_rounds:Odd", rounds=2, out=tmp_path / "run")
    found = fedfloor.plan(tmp_path / "run", round=1, own=True)
    assert found["gateways"][0]["channel"] == run.records[1].gateways[0].channel == 0
    again = fedfloor.simulate(tmp_path / "run" / "scenario.toml", own=True)
    assert again.records == run.records


class Broken:
    """A policy that fails at once."""

    def schedule(self, state: RoundState) -> Decision:
        """Fail."""
        raise RuntimeError("no")


def test_a_run_without_a_round_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"RuntimeError: no \(.*test_rounds.py, line"):
        fedfloor.simulate("quick", "tests.rounds.test_rounds:Broken", rounds=2, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_valid_decision_passes() -> None:
    state = observed()
    check_decision(state, changed(state))


def test_an_unknown_grain_is_refused() -> None:
    with pytest.raises(RunLogError, match="per must be one of round, gateway, device, got 'floor'"):
        fedfloor.read(fedfloor.simulate("quick", rounds=1), per="floor")  # type: ignore[arg-type]


def test_runs_are_checked_before_the_first_one_starts(tmp_path: Path) -> None:
    (tmp_path / "quick-random-7").mkdir()
    (tmp_path / "quick-random-7" / "notes.txt").touch()
    planned = [planned_run("quick", policy) for policy in ("round_robin", "random")]
    with pytest.raises(RunLogError, match="quick-random-7: is not empty"):
        with_folders(planned, tmp_path)
    with pytest.raises(PolicyError, match="'round_robin': is given twice"):
        with_folders([planned[0], planned[0]], tmp_path)
