"""Records: what is written reads back equal, and what is wrong in a log is refused with its path and value."""

import dataclasses
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.errors import RunLogError
from fedfloor.rounds.columns import columns_of
from fedfloor.rounds.lines import json_line, parse_record, parse_timing
from fedfloor.rounds.placing import misplaced
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_outcome, simulated_rates
from fedfloor.rounds.record import ABSENT, DeviceRecord, GatewayRecord, RoundRecord
from fedfloor.rounds.recording import record_of
from fedfloor.runs.folder import scenario_of
from fedfloor.scheduling.policies.random import RandomScheduler
from tests.runs.small import small_run


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Rounds with floors that fail, so that every key has a value somewhere."""
    return fedfloor.simulate("quick", "round_robin", rounds=6, out=tmp_path_factory.mktemp("log") / "run")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Rounds with losses, evaluations, and divergences that are measured in some rounds only."""
    folder = tmp_path_factory.mktemp("log") / "run"
    return small_run(folder, "participation.observe_every=2", rounds=3)


@pytest.fixture(scope="module", params=["simulated", "trained"])
def run(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def lines(folder: Path, name: str) -> list[str]:
    return (folder / name).read_text(encoding="utf-8").splitlines()


def test_every_round_reads_back_equal(run: Any) -> None:
    for record in run.records:
        assert parse_record(json_line(record)) == record
    for timing in run.timings:
        assert parse_timing(json_line(timing)) == timing


def test_the_log_holds_the_records_byte_for_byte(run: Any) -> None:
    assert lines(run.folder, "rounds.jsonl") == [json_line(record) for record in run.records]
    assert lines(run.folder, "timings.jsonl") == [json_line(timing) for timing in run.timings]


def test_a_line_that_was_read_is_written_byte_for_byte(run: Any) -> None:
    for line in lines(run.folder, "rounds.jsonl"):
        assert json_line(parse_record(line)) == line
    for line in lines(run.folder, "timings.jsonl"):
        assert json_line(parse_timing(line)) == line


def test_keys_are_the_names_of_the_fields_in_their_order(trained: Any) -> None:
    line = json.loads(json_line(trained.records[0]))
    absent = ("raw_accuracy", "weather")
    assert list(line) == [field.name for field in dataclasses.fields(RoundRecord) if field.name not in absent]
    selected = next(gateway for gateway in line["gateways"] if gateway["selected"])
    off = ("predicted", "iterations", "rms_loss", "weight")  # beginnings of keys that such a run has no use for
    keys = [field.name for field in dataclasses.fields(GatewayRecord)]
    assert list(selected) == [key for key in keys if not key.startswith(off)]
    names = [field.name for field in dataclasses.fields(DeviceRecord) if field.name != "link_s"]  # without links
    assert list(selected["devices"][0]) == names


def test_weather_that_cannot_be_drawn_again_reads_back_equal() -> None:
    for overrides in ([], ["limits=false"]):  # without limits energy is endless, which JSON does not know
        scenario = fedfloor.load("quick", overrides)
        plant = SimulatedPlant(scenario, simulated_rates(scenario))
        state = plant.observe()
        decision = RandomScheduler().schedule(state)
        outcome = plant.execute(decision)
        record = record_of(state, decision, outcome, policy="random", delay=1.0, clock=1.0, with_weather=True)
        again = parse_record(json_line(record))
        assert again == record
        assert again.weather is not None
        for field in dataclasses.fields(state.weather):
            read, drawn = getattr(again.weather.weather, field.name), getattr(state.weather, field.name)
            assert np.array_equal(read, drawn), field.name
    assert np.isinf(state.weather.device_energy).all()


def test_an_absent_key_stays_absent_and_a_null_stays_null(simulated: Any, trained: Any) -> None:
    never = simulated.records[0].gateways[0]
    assert never.divergence is ABSENT
    assert never.divergence_bound is ABSENT
    written = json.loads(json_line(simulated.records[0]))
    assert not {"divergence", "divergence_bound"} & set(written["gateways"][0])
    assert "weather" not in written
    measured, unmeasured = (record.gateways[0].divergence for record in trained.records[:2])
    assert isinstance(measured, float)
    assert unmeasured is None
    assert json.loads(json_line(trained.records[1]))["gateways"][0]["divergence"] is None


def test_a_floor_that_was_not_selected_has_no_key_for_devices(simulated: Any) -> None:
    for record in simulated.records:
        for gateway, written in zip(record.gateways, json.loads(json_line(record))["gateways"], strict=True):
            assert ("devices" in written) == gateway.selected
            assert len(gateway.devices) == (3 if gateway.selected else 0)


def test_times_without_end_are_null_and_read_back_as_endless(simulated: Any) -> None:
    endless = dataclasses.replace(simulated.records[0], delay_s=None, clock_s=None)
    again = parse_record(json_line(endless))
    assert (again.delay, again.clock) == (math.inf, math.inf)


Change = Callable[[Any], Any]


def changed(record: RoundRecord, change: Change) -> str:
    """The line of a record after a change of its JSON."""
    written = json.loads(json_line(record))
    change(written)
    return json.dumps(written)


def test_keys_of_later_versions_are_ignored(trained: Any) -> None:
    record = trained.records[0]
    selected = next(m for m, gateway in enumerate(record.gateways) if gateway.selected)

    def add(written: Any) -> None:
        written["carbon_g"] = [1]
        written["gateways"][selected]["colour"] = "blue"
        written["gateways"][selected]["devices"][0]["wheels"] = {}

    assert parse_record(changed(record, add)) == record
    timing = trained.timings[0]
    assert parse_timing(json.dumps({**json.loads(json_line(timing)), "more": 1})) == timing


def test_a_later_version_is_told_before_what_it_has_changed(simulated: Any) -> None:
    with pytest.raises(ValueError, match=r"^version must be 1, got 3$"):
        parse_record(json.dumps({"version": 3, "rounds": []}))
    line = changed(simulated.records[0], at("gateways", 0, "name", value="version"))
    assert parse_record(line.encode()).gateways[0].name == "version"


def test_keys_that_may_be_left_out_have_a_default(trained: Any) -> None:
    def drop(written: Any) -> None:
        for gateway in written["gateways"]:
            for key in ("channel", "download_s", "energy_budget_j", "divergence", "divergence_bound"):
                del gateway[key]

    read = parse_record(changed(trained.records[0], drop))
    assert (read.gateways[0].channel, read.gateways[0].energy_budget_j) == (None, None)
    assert read.gateways[0].divergence is ABSENT


def at(*path: Any, value: Any) -> Change:
    """Sets one value of a record's JSON."""

    def change(written: Any) -> None:
        *steps, last = path
        for step in steps:
            written = written[step]
        written[last] = value

    return change


def without(*path: Any) -> Change:
    """Removes one key of a record's JSON."""

    def change(written: Any) -> None:
        *steps, last = path
        for step in steps:
            written = written[step]
        del written[last]

    return change


FLOOR = ("gateways", 0)
DEVICE = (*FLOOR, "devices", 1)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (at("version", value=2), "version must be 1, got 2"),
        (at("version", value="new"), "version must be 1, got 'new'"),
        (without("round"), "has no 'round'"),
        (without("gateways"), "has no 'gateways'"),
        (without(*FLOOR, "queue"), "has no 'gateways[0].queue'"),
        (without(*DEVICE, "cut"), "has no 'gateways[0].devices[1].cut'"),
        (at("round", value=1.5), "round: must be a whole number, got 1.5"),
        (at("round", value="1"), "round: must be a whole number, got '1'"),
        (at("round", value=-1), "round: must be >= 0, got -1"),
        (at("policy", value=""), "policy: must not be empty, got ''"),
        (at("accuracy", value=1.2), "accuracy: must be <= 1.0, got 1.2"),
        (at("accuracy", value=math.nan), "accuracy: must be <= 1.0, got nan"),
        (at("delay_s", value=-0.5), "delay_s: must be >= 0.0, got -0.5"),
        (at("loss", value=math.nan), "loss: must be finite, got nan"),
        (at("clock_s", value=math.inf), "clock_s: must be finite, got inf"),
        (at("gateways", value={}), "gateways: must be a list, got {}"),
        (at(*FLOOR, value=None), "gateways[0]: must be a table, got None"),
        (at(*FLOOR, "name", value=5), "gateways[0].name: must be a string, got 5"),
        (at(*FLOOR, "selected", value=1), "gateways[0].selected: must be true or false, got 1"),
        (at(*FLOOR, "failure", value=""), "gateways[0].failure: must not be empty, got ''"),
        (at(*FLOOR, "energy_j", value="much"), "gateways[0].energy_j: must be a number, got 'much'"),
        (at(*FLOOR, "energy_j", value=True), "gateways[0].energy_j: must be a number, got True"),
        (at(*FLOOR, "queue", value=-1), "gateways[0].queue: must be >= 0.0, got -1"),
        (at(*FLOOR, "target_rate", value=None), "gateways[0].target_rate: must be a number, got None"),
        (at(*FLOOR, "divergence", value=-1.0), "gateways[0].divergence: must be >= 0.0, got -1.0"),
        (at(*FLOOR, "divergence", value="absent"), "gateways[0].divergence: must be a number, got 'absent'"),
        (at(*DEVICE, "cut", value=-1), "gateways[0].devices[1].cut: must be >= 0, got -1"),
        (at(*DEVICE, "energy_j", value=math.nan), "gateways[0].devices[1].energy_j: must be finite, got nan"),
        (at("weather", value={"uplink_gain": [[1, "x"]]}), "weather.uplink_gain[0][1]: must be a number, got 'x'"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_what_is_wrong_is_refused_with_its_path_and_value(change: Change, expected: str, simulated: Any) -> None:
    record = next(record for record in simulated.records if record.gateways[0].selected)
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        parse_record(changed(record, change))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", "is not JSON: EOF while parsing a value at line 1 column 0"),
        ('{"round": 0', "is not JSON: EOF while parsing an object at line 1 column 11"),
        ("[]", "must be a table, got []"),
        ("null", "must be a table, got None"),
    ],
)
def test_a_line_that_holds_no_record_is_refused(line: str, expected: str) -> None:
    for parse in (parse_record, parse_timing):
        with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
            parse(line)


def test_a_time_that_is_negative_is_refused(trained: Any) -> None:
    written = json.loads(json_line(trained.timings[0]))
    with pytest.raises(ValueError, match=r"^solve_s: must be >= 0.0, got -1$"):
        parse_timing(json.dumps({**written, "solve_s": -1}))


def test_a_number_that_json_does_not_know_is_never_written(simulated: Any) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_line(dataclasses.replace(simulated.records[0], clock_s=math.inf))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (at("round", value=3), "round: must be 2, because rounds are logged one after the other, got 3"),
        (at("clock_s", value=0.0), "clock_s: must be >= 0.1, the clock of the round before, got 0"),
        (lambda written: written["gateways"].pop(), "gateways: must be the 6 floors of the scenario, got 5"),
        (
            lambda written: written["gateways"].reverse(),
            "gateways[0].name: must be 'assembly', the floor of the scenario, got 'hall-5'",
        ),
        (without(*FLOOR, "devices"), "gateways[0].devices: must be the 3 devices of the floor, got 0"),
        (
            at(*DEVICE, "cut", value=7),
            "gateways[0].devices: cut: must be <= 6, the number of layers, got 7",
        ),
    ],
)
def test_a_record_that_does_not_belong_where_it_is_is_named(change: Change, expected: str, simulated: Any) -> None:
    record = simulated.records[2]
    assert record.gateways[0].selected
    assert misplaced(record, 2, 0.1, simulated.scenario) == ""
    assert misplaced(parse_record(changed(record, change)), 2, 0.1, simulated.scenario) == expected


def flattened(written: Any, per: str) -> list[dict[str, Any]]:
    """The rows of one round, taken from its JSON without the code under test."""
    head = {key: written[key] for key in ("round", "policy")}
    if per == "gateway":
        return [{**head, "gateway": g["name"], **_rest(g, "name", "devices")} for g in written["gateways"]]
    if per == "device":
        return [
            {**head, "gateway": gateway["name"], "device": device["name"], **_rest(device, "name")}
            for gateway in written["gateways"]
            for device in gateway.get("devices", ())
        ]
    gateways = written["gateways"]
    losses = [gateway["loss"] for gateway in gateways if gateway["completed"] and gateway["loss"] is not None]
    spent = [gateway["energy_j"] for gateway in gateways]
    spent += [device["energy_j"] for gateway in gateways for device in gateway.get("devices", ())]
    trained = [gateway for gateway in gateways if gateway["failure"] != "memory"]
    return [
        {
            **_rest(written, "gateways"),
            "selected": sum(gateway["selected"] for gateway in gateways),
            "completed": sum(gateway["completed"] for gateway in gateways),
            "energy_j": pytest.approx(sum(spent)),
            "training_loss": pytest.approx(sum(losses) / len(losses)) if losses else None,
            "raw_devices": sum(part["cut"] == 0 for gateway in trained for part in gateway.get("devices", ())),
        }
    ]


def _rest(table: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in keys}


@pytest.mark.parametrize("per", ["round", "gateway", "device"])
def test_columns_are_the_log_turned_on_its_side(per: Any, run: Any) -> None:
    rows = [row for line in lines(run.folder, "rounds.jsonl") for row in flattened(json.loads(line), per)]
    columns = columns_of(run.records, per)
    assert list(columns) == list(rows[0])
    assert [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)] == rows


def test_columns_of_no_record_are_none() -> None:
    assert columns_of([]) == {}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda weather: weather["uplink_interference_w"][1].pop(), "weather.uplink_interference_w[1]: must have "),
        (lambda weather: weather["downlink_interference_w"].pop(), "weather.downlink_interference_w: must have 6 entr"),
        (lambda weather: weather["device_energy_j"].pop(), "weather.device_energy_j: must have "),
    ],
)
def test_weather_of_other_lengths_is_refused_with_its_line(
    change: Callable[[Any], object], problem: str, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    fedfloor.simulate("quick", "random", 2, out=folder)
    scenario = scenario_of(folder)
    state = SimulatedPlant(scenario, simulated_rates(scenario)).observe()
    log = folder / "rounds.jsonl"
    records = [json.loads(line) for line in log.read_text().splitlines()]
    decision = RandomScheduler().schedule(state)
    outcome = simulated_outcome(state, decision)
    record = record_of(state, decision, outcome, policy="random", delay=1.0, clock=1.0, with_weather=True)
    records[0]["weather"] = json.loads(json_line(record))["weather"]
    log.write_text("".join(f"{json.dumps(entry)}\n" for entry in records))
    fedfloor.plan(folder, round=0)
    change(records[0]["weather"])
    log.write_text("".join(f"{json.dumps(entry)}\n" for entry in records))
    for read in (lambda: fedfloor.plan(folder, round=0), lambda: fedfloor.report(folder, out=tmp_path / "report")):
        with pytest.raises(RunLogError, match=re.escape(f"rounds.jsonl: line 1: {problem}")):
            read()


def test_weather_is_no_column(simulated: Any) -> None:
    links = ("uplink_gain", "downlink_gain", "uplink_interference_w", "downlink_interference_w")
    energies = {"gateway_energy_j": [None] * 6, "device_energy_j": [None] * 18}
    weather = {**dict.fromkeys(links, [[0.5] * 3] * 6), **energies}
    carrying = parse_record(changed(simulated.records[0], at("weather", value=weather)))
    assert carrying.weather is not None
    assert columns_of([carrying]) == columns_of(simulated.records[:1])


def test_an_unknown_grain_is_refused() -> None:
    with pytest.raises(RunLogError, match="per must be one of round, gateway, device, got 'floor'"):
        columns_of([], per="floor")  # type: ignore[arg-type]


def test_what_only_some_rounds_measure_is_a_column_with_gaps(simulated: Any, trained: Any) -> None:
    for records in ([*simulated.records, *trained.records], [*trained.records, *simulated.records]):
        columns = columns_of(records, "gateway")
        assert {len(column) for column in columns.values()} == {sum(len(record.gateways) for record in records)}
        assert sum(bound is None for bound in columns["divergence_bound"]) == 6 * len(simulated.records)


def test_reading_what_is_no_run_is_refused() -> None:
    with pytest.raises(RunLogError, match="run: must be a run or its folder, got "):
        fedfloor.read(7)  # type: ignore[arg-type]
