"""One round decided: snapshots in and out, logged rounds replayed, wrong snapshots named."""

import copy
import io
import json
import math
import os
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.costs.compute import split_of
from fedfloor.errors import FailedRunError, PolicyError, RunLogError, SnapshotError
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.runs.logged import logged_round
from fedfloor.runs.plan import PlannedRound, export_snapshot, snapshot_round
from fedfloor.runs.tradeoff import STEPS, measure_tradeoff
from fedfloor.scheduling.conversion import snapshot_of, state_of
from fedfloor.scheduling.registry import PolicySpec, make_policy
from fedfloor.scheduling.snapshot import parse_snapshot
from fedfloor.scheduling.solver.solve import solve
from fedfloor.theory.theorems import drift_constant, participation_gap, utility_gap
from tests.conftest import known

EXAMPLE: dict[str, Any] = {
    "tradeoff_v": 1000.0, "local_iterations": 5, "model_bits": 2.95e8, "min_cut": 0,
    "radio": {
        "uplink_bandwidth_hz": 1e6, "downlink_bandwidth_hz": 2e7, "noise_w_per_hz": 3.98e-21,
        "base_station_power_w": 1.0,
    },
    "layers": [{"name": "conv1", "flops_per_sample": 7.1e6, "fixed_bytes": 13824, "bytes_per_sample": 274432}],
    "gateways": [{
        "name": "floor-1", "flops_per_cycle": 32, "switched_capacitance": 1e-27, "min_frequency_hz": 0,
        "max_frequency_hz": 4e9, "memory_bytes": 4e9, "energy_j": 21.5, "max_power_w": 0.2, "queue": 0.7,
        "last_loss": None, "uplink_gain": [4.4e-10], "downlink_gain": [4.1e-10], "uplink_interference_w": [1e-13],
        "downlink_interference_w": [1e-13],
        "devices": [{"name": "press-7", "batch": 50, "flops_per_cycle": 16, "switched_capacitance": 1e-27,
                     "frequency_hz": 6e8, "memory_bytes": 2e9, "energy_j": 3.1}],
    }],
}  # fmt: skip


def test_the_documented_example_is_answered() -> None:
    found = fedfloor.plan(EXAMPLE)
    assert (found["policy"], found["solver"], found["optimality_gap"]) == ("ddsra", "exact", 0.0)
    (gateway,) = found["gateways"]
    assert (gateway["channel"], gateway["reason"], gateway["devices"][0]["name"]) == (0, None, "press-7")
    assert gateway["delay_s"] == pytest.approx(gateway["download_s"] + gateway["train_s"] + gateway["upload_s"])
    assert found["objective"] == pytest.approx(1000 * found["delay_s"] - 0.7)
    assert gateway["energy_j"] <= 21.5 * (1 + 1e-9)


def test_fewer_bits_shorten_their_own_direction_in_proportion() -> None:
    (full,), (half,), (quarter,) = (
        fedfloor.plan({**EXAMPLE, **bits}, "random")["gateways"]
        for bits in ({}, {"download_bits": 2.95e8 / 2}, {"upload_bits": 2.95e8 / 4})
    )
    assert half["download_s"] == pytest.approx(full["download_s"] / 2)
    assert half["upload_s"] == full["upload_s"]
    assert quarter["upload_s"] == pytest.approx(full["upload_s"] / 4)
    assert quarter["download_s"] == full["download_s"]


def test_a_snapshot_names_the_bits_of_a_direction_only_if_they_are_not_the_models() -> None:
    for overrides, keys in (
        ([], set()),
        (["precision.boundary=8"], set()),
        (["precision.upload=8"], {"upload_bits"}),
        (["precision.upload=16", "precision.download=16"], {"upload_bits", "download_bits"}),
    ):
        plant = fedfloor.load("quick", overrides)
        data = snapshot_of(SimulatedPlant(plant, simulated_rates(plant)).observe(), 1.0)
        assert {key for key in data if key.endswith("load_bits")} == keys


@pytest.mark.parametrize("overrides", [[], ["precision.upload=8", "precision.download=16"]], ids=str)
@pytest.mark.parametrize("preset", ["quick", "paper-cifar10-random", "factory", "line"])
def test_an_exported_round_is_decided_alike(preset: str, overrides: list[str], tmp_path: Path) -> None:
    plant = fedfloor.load(preset, overrides)
    state = SimulatedPlant(plant, simulated_rates(plant)).observe()
    export_snapshot(PlannedRound(state, 2.0, *make_policy(PolicySpec("ddsra"))), tmp_path / "round.json")
    found, direct = fedfloor.plan(tmp_path / "round.json"), solve(state, 2.0)
    assert found["objective"] == pytest.approx(direct.objective, rel=1e-12)
    chosen = [-1 if gateway["channel"] is None else gateway["channel"] for gateway in found["gateways"]]
    assert chosen == direct.decision.channel.tolist()


def test_a_round_without_limits_can_be_exported() -> None:
    plant = fedfloor.load("quick", ["limits=false"])
    state = SimulatedPlant(plant, simulated_rates(plant)).observe()
    data = json.loads(json.dumps(snapshot_of(state, 1.0), default=float, allow_nan=False))
    assert fedfloor.plan(data)["delay_s"] == pytest.approx(solve(state, 1.0).delay)


@pytest.mark.parametrize("policy", ["ddsra:v=0.5", "random", "participation", "delay_driven", "round_robin"])
def test_a_logged_round_is_decided_again_as_it_was(policy: str, tmp_path: Path) -> None:
    run = fedfloor.simulate("quick", policy, rounds=6, out=tmp_path / "run")
    for index, record in enumerate(run.records):
        found = fedfloor.plan(tmp_path / "run", round=index)
        assert [g["channel"] for g in found["gateways"]] == [g.channel for g in record.gateways]
        assert found["delay_s"] == pytest.approx(record.delay_s)


def test_a_policy_argument_goes_before_the_snapshot() -> None:
    assert fedfloor.plan(EXAMPLE, "ddsra:v=5")["objective"] == pytest.approx(
        5 * fedfloor.plan(EXAMPLE)["delay_s"] - 0.7
    )
    assert fedfloor.plan(EXAMPLE, solver="paper")["solver"] == "paper"
    assert fedfloor.plan(EXAMPLE, solver="paper")["optimality_gap"] is None
    assert fedfloor.plan(EXAMPLE, "random")["solver"] is None


def test_a_solver_named_twice_is_refused() -> None:
    with pytest.raises(PolicyError, match="names a solver too"):
        fedfloor.plan(EXAMPLE, "ddsra:solver=exact", solver="paper")
    with pytest.raises(PolicyError, match="solver paper: the policy 'random' has no solver to choose"):
        fedfloor.plan(EXAMPLE, "random", solver="paper")


def changed(path: str, value: Any) -> dict[str, Any]:
    data = copy.deepcopy(EXAMPLE)
    place: Any = data
    *keys, last = path.split(".")
    for key in keys:
        place = place[int(key)] if key.isdigit() else place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return data


WRONG = [
    ("gateways.0.devices.0.batch", -1, "gateways[0].devices[0].batch: must be >= 1, got -1"),
    ("gateways.0.devices.0.batch", 1.5, "gateways[0].devices[0].batch: must be a whole number"),
    ("gateways.0.energy_j", math.nan, "gateways[0].energy_j: must be"),
    ("gateways.0.energy_j", math.inf, "gateways[0].energy_j: must be"),
    ("gateways.0.energy", 5, "gateways[0].energy: the unit is missing"),
    ("gateways.0.queu", 5, "gateways[0].queu: unknown key. Did you mean 'queue'?"),
    ("gateways.0.queue", None, "gateways[0].queue: is missing"),
    ("radio", None, "radio: is missing"),
    ("gateways", [], "gateways: must not be empty"),
    ("gateways.0.devices", [], "gateways[0].devices: must not be empty"),
    ("gateways.0.downlink_gain", [1e-9, 1e-9], "gateways[0].downlink_gain: has 2 channels"),
    ("gateways.0.uplink_gain", [90.0], "gateways[0].uplink_gain: a gain is a power ratio <= 10, not dB, got 90"),
    ("gateways.0.min_frequency_hz", 5e9, "gateways[0].min_frequency_hz: must be <= max_frequency_hz"),
    ("upload_bits", 0, "upload_bits: must be >= 1e-30, got 0. Change it; docs/plan.md describes every key"),
    ("download_bits", "few", "download_bits: must be a number, got 'few'"),
    ("min_cut", 2, "min_cut: must be <= 1, the number of layers, got 2"),
    ("gateways.0.devices.1", "twice", "gateways[0].devices[1].name: duplicate name, got 'press-7' twice"),
    ("tradeoff_v", "much", "tradeoff_v: must be a number, got 'much'"),
]


@pytest.mark.parametrize(("path", "value", "expected"), WRONG, ids=lambda part: str(part)[:40])
def test_wrong_snapshots_name_the_path(path: str, value: Any, expected: str, tmp_path: Path) -> None:
    if value == "twice":
        data = copy.deepcopy(EXAMPLE)
        data["gateways"][0]["devices"] *= 2
    else:
        data = changed(path, value)
    file = tmp_path / "round.json"
    file.write_text(json.dumps(data))
    with pytest.raises(SnapshotError) as caught:
        fedfloor.plan(file)
    assert str(caught.value).startswith(f"{file}: {expected}")


def linked() -> dict[str, Any]:
    """A round of a network of two layers, whose device has a link."""
    data = copy.deepcopy(EXAMPLE)
    data["traffic"] = {"input_per_sample": 784}
    data["layers"] = [
        {**EXAMPLE["layers"][0], "name": name, "parameters": 160, "boundary_per_sample": values}
        for name, values in (("conv1", 100), ("conv2", 0))
    ]
    data["gateways"][0]["devices"][0]["link"] = {"up_bps": 1e7, "down_bps": 1e7}
    return data


@pytest.mark.parametrize(
    ("layer", "key", "value", "expected"),
    [
        (1, "boundary_per_sample", 5, "layers[1].boundary_per_sample: must be 0, because nothing crosses"),
        (0, "boundary_per_sample", 0, "layers[0].boundary_per_sample: must be > 0 for all layers but the last, got 0"),
        (0, "parameters", None, "layers[0].parameters: is missing, but gateways[0].devices[0].link needs it. Say how"),
    ],
)
def test_layers_of_linked_rounds_say_what_crosses(layer: int, key: str, value: Any, expected: str) -> None:
    assert fedfloor.plan(linked())["gateways"][0]["devices"][0]["link_s"] > 0
    data = linked()
    data["layers"][layer][key] = value
    with pytest.raises(SnapshotError) as caught:
        fedfloor.plan(data)
    assert str(caught.value).startswith(f"snapshot: {expected}")


def test_samples_of_linked_rounds_have_numbers() -> None:
    data = linked()
    data["traffic"]["input_per_sample"] = 0
    with pytest.raises(SnapshotError, match=r"traffic\.input_per_sample: must be > 0, got 0\. Say how many"):
        fedfloor.plan(data)


def test_counters_of_a_layer_are_sent_and_exported(tmp_path: Path) -> None:
    data = linked()
    data["min_cut"], data["layers"][0]["counters"] = 2, 3
    counted, plain = fedfloor.plan(data), fedfloor.plan(linked() | {"min_cut": 2})
    (more,), (less,) = counted["gateways"][0]["devices"], plain["gateways"][0]["devices"]
    assert more["link_s"] == pytest.approx(less["link_s"] + 2 * 3 * 32 / 1e7)
    export_snapshot(snapshot_round(parse_snapshot(data, "snapshot")), tmp_path / "round.json")
    layers = json.loads((tmp_path / "round.json").read_text())["layers"]
    assert [layer.get("counters") for layer in layers] == [3.0, None]


def test_one_device_may_have_measured_cycles_without_bytes() -> None:
    data = copy.deepcopy(EXAMPLE)
    counted = state_of(parse_snapshot(data, "snapshot")).plant
    first = data["gateways"][0]["devices"][0]
    data["gateways"][0]["devices"] = [
        first | {"cycles": {"device": [0, 7e8], "gateway": [9e8, 0]}},
        first | {"name": "b"},
    ]
    plant = state_of(parse_snapshot(data, "snapshot")).plant
    halves, cut = split_of(plant, np.array([1, 1])), np.array([1])
    expected = split_of(counted, cut)
    assert halves.bottom_flop.tolist() == [16 * 7e8, pytest.approx(expected.bottom_flop[0])]
    assert halves.bottom_bytes.tolist() == [expected.bottom_bytes[0]] * 2
    data["gateways"][0]["devices"][1]["bytes"] = {"device": [0, 5.0], "gateway": [6.0, 0]}
    plant = state_of(parse_snapshot(data, "snapshot")).plant
    assert split_of(plant, np.array([1, 1])).bottom_bytes.tolist() == [expected.bottom_bytes[0], 5.0]
    data["gateways"][0]["devices"][0]["cycles"]["device"] = [0]
    with pytest.raises(SnapshotError, match=r"devices\[0\]\.cycles\.device: must have 2 values, got 1\. Give one for"):
        fedfloor.plan(data)


@pytest.mark.parametrize("path", ["tradeoff_v", "radio", "radio.noise_w_per_hz", "layers", "gateways"])
def test_one_missing_key_is_one_finding(path: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        fedfloor.plan(changed(path, None))
    assert str(caught.value) == f"snapshot: {path}: is missing. Add it; docs/plan.md describes every key."


@pytest.mark.parametrize("path", ["layers.0.name", "gateways.0.queue", "gateways.0.devices.0.batch"])
def test_one_missing_key_of_the_only_entry_is_one_finding(path: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        fedfloor.plan(changed(path, None))
    written = path.replace(".0", "[0]")
    assert str(caught.value) == f"snapshot: {written}: is missing. Add it; docs/plan.md describes every key."


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"{", "not valid JSON"),
        (b"", "not valid JSON"),
        (b"\xff", "not UTF-8"),
        (b"[]", "must be a table"),
        (b"5", "must be a table"),
    ],
)
def test_files_that_are_no_snapshot_are_named(content: bytes, expected: str, tmp_path: Path) -> None:
    (tmp_path / "round.json").write_bytes(content)
    with pytest.raises(SnapshotError) as caught:
        fedfloor.plan(tmp_path / "round.json")
    assert expected in str(caught.value)


class Received(io.TextIOWrapper):
    """Standard input with given bytes."""

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content))


def test_a_snapshot_is_read_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Received(b"\xef\xbb\xbf" + json.dumps(EXAMPLE).encode()))
    answer, expected = fedfloor.plan("-", "random"), fedfloor.plan(EXAMPLE, "random")
    assert {**answer, "solve_s": 0.0} == {**expected, "solve_s": 0.0}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "standard input: is empty. Send the JSON of a snapshot"),
        (b"\xff\xfe", "standard input: not UTF-8. Send the snapshot as UTF-8"),
        (b'{"a": }', "standard input: not valid JSON: Expecting value: line 1 column 7"),
        (json.dumps({**EXAMPLE, "tradeoff_v": -1}).encode(), "standard input: tradeoff_v: must be >= 0, got -1"),
        (json.dumps({**EXAMPLE, "round": 3}).encode(), "standard input: gateways[0].history: is missing"),
    ],
)
def test_what_is_wrong_on_standard_input_is_named(
    content: bytes, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Received(content))
    with pytest.raises(SnapshotError) as refused:
        fedfloor.plan("-", "loss_driven")
    assert str(refused.value).startswith(expected)


def test_standard_input_has_no_rounds_and_may_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SnapshotError, match="standard input: a round is chosen of a run folder only, got"):
        fedfloor.plan("-", round=3)
    with pytest.raises(SnapshotError, match="standard input: is closed"):
        fedfloor.plan("-")


def test_places_that_hold_no_round_are_named(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="does not exist"):
        fedfloor.plan(tmp_path / "none.json")
    with pytest.raises(RunLogError, match="the round is needed"):
        fedfloor.plan(tmp_path)
    fedfloor.simulate("quick", "random", rounds=2, out=tmp_path / "run")
    with pytest.raises(RunLogError, match="got 5; the last one is 1"):
        fedfloor.plan(tmp_path / "run", round=5)
    (tmp_path / "round.json").write_text(json.dumps(EXAMPLE))
    with pytest.raises(SnapshotError, match="is a file, and a round is chosen of a run folder only, got"):
        fedfloor.plan(tmp_path / "round.json", round=1)


def test_the_command_prints_a_table_and_writes_snapshots(fedfloor_command: Callable[..., Any], tmp_path: Path) -> None:
    fedfloor.simulate("quick", "ddsra:v=1", rounds=2, out=tmp_path / "run")
    done = fedfloor_command("plan", "run", "--round", "1", "--export", "out.json")
    assert done.returncode == 0, done.stderr
    for part in ("3 of 6 floors", "selected", "devices", "not selected", "proven optimal"):
        assert part in done.stdout
    again = json.loads(fedfloor_command("plan", "out.json", "--format", "json").stdout)
    assert len(again["gateways"]) == 6
    wrong = fedfloor_command("plan", "out.json", "--solver", "gurobi")
    assert (wrong.returncode, len(wrong.stderr.splitlines())) == (2, 1)
    assert "solver must be exact or paper, got 'gurobi'" in wrong.stderr
    for digits in (30, 5000):
        wrong = fedfloor_command("plan", "run", "--round", "9" * digits)
        assert (wrong.returncode, len(wrong.stderr.splitlines())) == (2, 1)
        assert "'--round': " in wrong.stderr
        assert len(wrong.stderr) < 300


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    fedfloor.simulate("quick", "random", rounds=1, out=tmp_path / "run")
    return tmp_path / "run"


def test_an_exported_round_replaces_nothing_but_a_snapshot(logged: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("my notes")
    (tmp_path / "other.json").write_text('{"tradeoff_v": 1.0}')
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "link").symlink_to(logged / "rounds.jsonl")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    wrong = {
        logged / "scenario.toml": "belongs to a run",
        logged / "rounds.jsonl": "belongs to a run",
        tmp_path / "link": "belongs to a run",
        tmp_path / "folder": r"is a folder. Name a file in it, such as .*round\.json",
        tmp_path / "pipe": "is a pipe or a device",
        Path("/dev/null"): "is a pipe or a device",
        tmp_path / "nowhere" / "round.json": "there is no folder .*nowhere. Make it",
        tmp_path / "notes.txt": "exists, but is not a snapshot. Name another file",
        tmp_path / "other.json": "exists, but is not a snapshot. Name another file",
        tmp_path / "list.json": "exists, but is not a snapshot. Name another file",
    }
    planned = logged_round(logged, 0)
    for path, expected in wrong.items():
        with pytest.raises(RunLogError, match=expected):
            export_snapshot(planned, path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    (tmp_path / "round.json").write_text(json.dumps({**EXAMPLE, "tradeoff_v": -1.0}))
    export_snapshot(planned, tmp_path / "round.json")
    assert len(fedfloor.plan(tmp_path / "round.json")["gateways"]) == 6


def test_a_full_disk_leaves_the_old_snapshot(logged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "round.json"
    file.write_text(json.dumps(EXAMPLE))
    before = sorted(tmp_path.iterdir())

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        FailedRunError, match=r"round\.json: cannot be written: No space left on device. Make room, then"
    ):
        export_snapshot(logged_round(logged, 0), file)
    assert (json.loads(file.read_text()), sorted(tmp_path.iterdir())) == (EXAMPLE, before)


def test_theorem_2_with_its_corrections() -> None:  # Eq. (32), (33)
    rates = np.array([0.9, 0.5, 0.6])
    assert drift_constant(rates) == pytest.approx(2.5)
    assert utility_gap(rates, 10.0) == pytest.approx(0.25)
    assert utility_gap(rates, 0.0) == math.inf
    gap = participation_gap(rates, 2.0, 50, best_delay=40.0, least_delay=30.0)
    assert gap == pytest.approx(math.sqrt(2 * (2.5 + 2 * 10) / 50))


def test_the_tradeoff_is_measured_between_its_bounds() -> None:
    plant = fedfloor.load("paper-cifar10-random", rounds=150)
    points = measure_tradeoff(plant, (0.0, 0.01, 1.0, 1000.0))
    assert any(point.delay_bound_s is not None and math.isfinite(point.delay_bound_s) for point in points)
    assert any(point.shortfall_bound is not None for point in points)
    delays = [known(point.mean_delay_s) for point in points]
    assert delays[0] > delays[2] > delays[3]
    assert points[0].shortfall < points[3].shortfall
    for point in points:
        assert point.delay_bound_s is None or known(point.mean_delay_s) <= point.delay_bound_s + 1e-9
        assert point.shortfall_bound is None or point.shortfall <= point.shortfall_bound


def test_the_sweep_has_the_steps_of_the_paper_and_more() -> None:
    assert STEPS[0] == 0.0
    assert STEPS[1:10] == pytest.approx([10 ** (k / 2) for k in range(-6, 3)], rel=1e-3)
    assert STEPS[10:] == (1e2, 1e3, 1e4, 1e5)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda rounds: rounds.pop(1), "line 2: round: must be 1, because .*, got 2"),
        (
            lambda rounds: rounds[1]["gateways"].reverse(),
            r"gateways\[0\]\.name: must be 'assembly', the floor of the scenario, got 'hall-5'",
        ),
        (lambda rounds: rounds[1].pop("gateways"), "line 2: has no 'gateways'"),
        (lambda rounds: rounds[1]["gateways"].pop(), "gateways: must be the 6 floors of the scenario, got 5"),
        (lambda rounds: rounds[1]["gateways"][0].update(queue="x"), r"gateways\[0\]\.queue: must be a number, got 'x'"),
        (lambda rounds: rounds[1]["gateways"][0].update(queue=-5), r"gateways\[0\]\.queue: must be >= 0\.0, got -5"),
        (
            lambda rounds: rounds[1]["gateways"][0].update(target_rate=None),
            r"gateways\[0\]\.target_rate: must be a number, got None",
        ),
        (lambda rounds: rounds[1]["gateways"][0].update(energy_budget_j=1.0), "disagree about the energy"),
        (lambda rounds: rounds.__setitem__(1, 5), "line 2: must be a table, got 5"),
    ],
)
def test_a_changed_log_is_not_replayed(change: Callable[[Any], Any], expected: str, tmp_path: Path) -> None:
    fedfloor.simulate("quick", "random", rounds=4, out=tmp_path / "run")
    log = tmp_path / "run" / "rounds.jsonl"
    rounds = [json.loads(line) for line in log.read_text().splitlines()]
    change(rounds)
    log.write_text("".join(json.dumps(entry) + "\n" for entry in rounds))
    with pytest.raises(RunLogError, match=expected):
        fedfloor.plan(tmp_path / "run", round=1)


def test_a_preset_in_the_run_folder_is_no_resolved_scenario(tmp_path: Path) -> None:
    fedfloor.simulate("quick", "random", rounds=1, out=tmp_path / "run")
    preset = files("fedfloor.scenario") / "presets" / "quick.toml"
    (tmp_path / "run" / "scenario.toml").write_text(preset.read_text())
    with pytest.raises(RunLogError, match=r"scenario\.toml: .*Restore the file that the run wrote"):
        fedfloor.plan(tmp_path / "run", round=0)


def test_a_replay_says_which_floors_failed(tmp_path: Path) -> None:
    run = fedfloor.simulate("quick", "round_robin", rounds=6, out=tmp_path / "run")
    failures = 0
    for record in run.records:
        found = fedfloor.plan(tmp_path / "run", round=record.round)
        for logged, planned in zip(record.gateways, found["gateways"], strict=True):
            assert planned["failure"] == logged.failure
            assert planned["energy_budget_j"] == logged.energy_budget_j
            failures += logged.failure is not None
    assert failures > 0


def test_a_short_upload_after_long_training_keeps_within_the_energy() -> None:
    slow = copy.deepcopy(EXAMPLE)
    gateway = slow["gateways"][0]
    gateway |= {"energy_j": 0.06, "max_power_w": 10.0}
    gateway["devices"][0] |= {"frequency_hz": 1e-4, "energy_j": 1e9}
    slow["min_cut"] = 1  # all on a device that takes ages
    (found,) = fedfloor.plan(slow)["gateways"]
    assert found["train_s"] > 1e8 * found["upload_s"]
    assert found["energy_j"] <= 0.06 * (1 + 1e-9)
    assert found["failure"] is None


def test_minus_zero_is_a_dead_link() -> None:
    dead = copy.deepcopy(EXAMPLE)
    dead["gateways"][0]["downlink_gain"] = [-0.0]
    (found,) = fedfloor.plan(dead)["gateways"]
    assert found["channel"] is None


def test_a_snapshot_baseline_keeps_the_least_frequency() -> None:
    odd = copy.deepcopy(EXAMPLE)
    odd["gateways"][0]["min_frequency_hz"] = 3e9
    odd["baseline"] = {"cut": 0, "frequency_share": 0.1, "power_share": 1.0}
    with pytest.raises(
        SnapshotError, match=r"baseline\.frequency_share: is below min_frequency_hz / max_.* of 'floor-1', got"
    ):
        fedfloor.plan(odd)


def test_a_key_given_twice_is_named(tmp_path: Path) -> None:
    (tmp_path / "twice.json").write_text('{"tradeoff_v": 1, "tradeoff_v": 2}')
    with pytest.raises(SnapshotError, match="key 'tradeoff_v' is given twice"):
        fedfloor.plan(tmp_path / "twice.json")
    with pytest.raises(PolicyError, match="'v' is given twice"):
        fedfloor.plan(EXAMPLE, "ddsra:v=1,v=2")
