"""A log that is read while it is written: what is new, what is torn, what is cut back, and how much is kept."""

import json
import math
import os
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedfloor.reports.arrays import lay_out_run
from fedfloor.reports.live import watched as watched_module
from fedfloor.reports.live.keeping import KeptRounds, picked
from fedfloor.reports.live.watched import Watched
from fedfloor.reports.reading import collect
from fedfloor.rounds.lines import parse_record
from fedfloor.runs.folder import scenario_of
from tests.reports.live.growing import ROUNDS, Growing, as_of_a_real_plant


def state_of(watched: Watched, run: str = "", log: int = 0, after: int = 0) -> dict[str, Any]:
    """The state after everything was read."""
    while True:
        state: dict[str, Any] = json.loads(watched.state(run, log, after))
        if not any(entry["status"] == "reading" for entry in state["runs"]):
            return state


def run_of(watched: Watched) -> dict[str, Any]:
    (run,) = state_of(watched)["runs"]
    assert isinstance(run, dict)
    return run


def numbers(state: dict[str, Any]) -> list[int]:
    return [entry[0] for entry in state["shown"]["rounds"]]


def test_rounds_are_seen_as_they_are_logged(growing: Growing) -> None:
    watched = Watched(growing.folder)
    assert run_of(watched)["status"] == "waiting"
    growing.write(0, 3)
    first = state_of(watched)
    assert first["runs"][0]["rounds"] == 3
    assert first["runs"][0]["status"] == "going"
    assert numbers(first) == [0, 1, 2]
    growing.write(3, 5)
    log = first["shown"]["log"]
    assert numbers(state_of(watched, ".", log, 3)) == [3, 4]
    assert numbers(state_of(watched, ".", log + 7, 3)) == [0, 1, 2, 3, 4]  # another log: everything is new
    growing.write(5, ROUNDS)
    assert run_of(watched)["status"] == "ended"


def test_the_numbers_are_those_of_the_report(growing: Growing) -> None:
    growing.change(as_of_a_real_plant)
    growing.write(0, ROUNDS)
    run = run_of(Watched(growing.folder))
    summary = collect([growing.folder]).runs[0].summary
    assert run["failures"] == summary.failures != {}
    assert (run["selected"], run["completed"]) == (summary.selected, summary.completed)
    assert run["clock"] == pytest.approx(summary.clock, rel=1e-4)
    assert run["mean"] == pytest.approx(summary.mean_delay, rel=1e-4)
    assert run["tested"] == [40, 0.89]
    assert run["best"] == [40, 0.89]
    assert run["predicted"] == pytest.approx(0.9 * run["delay"], rel=1e-4)
    assert run["measured"] is True


def test_causes_that_somebody_made_up_do_not_fill_the_memory(growing: Growing) -> None:
    def fail(at: int, record: dict[str, Any]) -> None:
        next(entry for entry in record["gateways"] if entry["selected"]).update(completed=False, failure=f"cause {at}")

    growing.change(fail)
    growing.write(0, ROUNDS)
    watched = Watched(growing.folder)
    assert sum(run_of(watched)["failures"].values()) == ROUNDS
    results = watched._results([])
    assert results is not None
    run = results.series[0].runs[0]
    assert (len(run.causes), run.causes[-1]) == (21, "other")
    assert (run.failure >= 0).sum() == ROUNDS


def test_a_run_that_predicts_numbers_has_an_error_and_the_least_is_the_best(growing: Growing) -> None:
    growing.predict_numbers([9.0, 4.0, 6.25])
    growing.write(0, 15)
    watched = Watched(growing.folder)
    state = state_of(watched)
    (run,) = state["runs"]
    assert (run["problem"], run["error"]) == ("", True)
    assert (run["tested"], run["best"]) == ([15, 2.5], [10, 2.0])
    assert state["shown"]["tested"] == [[5, 3.0], [10, 2.0], [15, 2.5]]
    assert [entry[3] for entry in state["shown"]["rounds"] if entry[3] is not None] == [3.0, 2.0, 2.5]
    figures = json.loads(watched.figures())
    assert "fig-error-rounds" in figures["sections"]
    assert "fig-accuracy-rounds" not in figures["sections"]


def test_a_loss_of_a_run_that_predicts_classes_is_no_result(growing: Growing) -> None:
    growing.change(lambda _, record: record.update(loss=1.5))
    growing.write(0, 10)
    state = state_of(Watched(growing.folder))
    (run,) = state["runs"]
    assert (run["tested"], run["best"], state["shown"]["tested"]) == (None, None, [])
    assert {entry[3] for entry in state["shown"]["rounds"]} == {None}


def test_predictions_are_absent_where_nothing_is_measured(growing: Growing) -> None:
    growing.write(0, 4)
    state = state_of(Watched(growing.folder))
    assert state["runs"][0]["predicted"] is None
    assert state["runs"][0]["measured"] is False


def test_a_folder_says_that_a_run_ended_early_and_that_its_times_are_modelled(growing: Growing) -> None:
    growing.change(as_of_a_real_plant)
    growing.write(0, 4)
    watched, about = Watched(growing.folder), growing.folder / "about.json"
    assert run_of(watched)["status"] == "going"
    about.write_text('{"ended": "until_clock=1", "clock": "modelled"}')
    run = run_of(watched)
    assert (run["status"], run["measured"], run["modelled"]) == ("ended", False, True)
    assert collect([growing.folder]).clock_name == "modelled time"
    about.write_text('{"ended": 3}')
    assert run_of(watched)["status"] == "going"
    assert "about.json: ended" in json.loads(watched.figures())["problems"][0]
    assert "about.json: ended" in collect([growing.folder]).problems[0]


def test_arrays_are_those_of_the_report(growing: Growing) -> None:
    growing.change(as_of_a_real_plant)
    growing.write(0, 20)
    watched = Watched(growing.folder)
    state_of(watched)
    growing.write(20, ROUNDS)
    state_of(watched)
    results = watched._results([])
    assert results is not None
    ours, theirs = results.series[0].runs[0], lay_out_run(collect([growing.folder]).runs[0])
    for name in ("rounds", "clock", "tested", "completed", "upload", "cut", "device_energy", "target", "failure"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)


def test_a_torn_line_waits_for_its_end(growing: Growing) -> None:
    watched = Watched(growing.folder)
    growing.write(0, 2)
    half = len(growing.lines[2]) // 2
    growing.append(growing.lines[2][:half])
    assert run_of(watched)["rounds"] == 2
    assert run_of(watched)["problem"] == ""
    growing.append(growing.lines[2][half:-1])
    assert run_of(watched)["rounds"] == 2
    growing.append(b"\n")
    assert run_of(watched)["rounds"] == 3


def test_a_log_that_is_cut_back_is_read_again(growing: Growing) -> None:
    watched = Watched(growing.folder)
    growing.write(0, 10)
    before = state_of(watched)
    growing.cut(4)
    after = state_of(watched, ".", before["shown"]["log"], 10)
    assert after["runs"][0]["rounds"] == 4
    assert after["shown"]["log"] != before["shown"]["log"]
    assert numbers(after) == [0, 1, 2, 3]
    growing.write(4, ROUNDS)
    assert run_of(watched)["rounds"] == ROUNDS


def test_a_log_that_was_cut_back_and_grew_past_the_old_end_is_read_again(growing: Growing) -> None:
    watched = Watched(growing.folder)
    growing.write(0, 10)
    before = run_of(watched)
    growing.cut(4)

    def fail(_: int, record: dict[str, Any]) -> None:
        for gateway in record["gateways"]:
            gateway.update(completed=False, failure="lost" if gateway["selected"] else None)

    growing.change(fail)
    growing.write(4, 30)
    after = run_of(watched)
    assert after["rounds"] == 30
    assert after["log"] != before["log"]
    assert after["failures"]["lost"] == 26


def test_another_run_in_the_same_folder_takes_the_place_of_the_first(growing: Growing, finished: Path) -> None:
    watched = Watched(growing.folder)
    growing.write(0, 10)
    before = run_of(watched)
    text = (finished / "scenario.toml").read_text(encoding="utf-8")
    (growing.folder / "scenario.toml").write_text(text.replace('"small"', '"other"'), encoding="utf-8")
    growing.log.unlink()
    growing.write(0, 2)
    after = run_of(watched)
    assert (after["scenario"], after["rounds"]) == ("other", 2)
    assert after["log"] != before["log"]


def test_more_rounds_for_the_same_run_do_not_start_it_again(growing: Growing, finished: Path) -> None:
    watched = Watched(growing.folder)
    growing.write(0, 10)
    before = run_of(watched)
    text = (finished / "scenario.toml").read_text(encoding="utf-8")
    (growing.folder / "scenario.toml").write_text(text.replace(f"rounds = {ROUNDS}", "rounds = 10"), encoding="utf-8")
    after = run_of(watched)
    assert (after["of"], after["status"], after["log"]) == (10, "ended", before["log"])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (b'{"round": 2}\n', "line 3: has no 'policy'"),
        (b"\0\0\0\0\n", "line 3: is not JSON"),
        (b"[]\n", "line 3"),
        (b"\xff\xfe\n", "line 3"),
    ],
)
def test_damage_is_named_and_passes_when_it_is_mended(damage: bytes, message: str, growing: Growing) -> None:
    watched = Watched(growing.folder)
    growing.write(0, 2)
    assert run_of(watched)["status"] == "going"
    growing.append(damage)
    for _ in range(2):
        run = run_of(watched)
        assert run["status"] == "problem"
        assert message in run["problem"]
        assert run["rounds"] == 2  # what was read stays
    growing.cut(2)
    growing.write(2, 5)
    assert (run_of(watched)["status"], run_of(watched)["rounds"]) == ("going", 5)


def test_a_round_of_another_plant_is_damage(growing: Growing) -> None:
    growing.write(0, 2)
    growing.write(7, 8)
    assert "round: must be 2" in run_of(Watched(growing.folder))["problem"]


def test_a_folder_that_disappears_is_named_and_may_come_back(growing: Growing) -> None:
    watched = Watched(growing.folder)
    growing.write(0, 5)
    assert run_of(watched)["rounds"] == 5
    aside = growing.folder.with_name("aside")
    growing.folder.rename(aside)
    run = run_of(watched)
    assert (run["status"], run["rounds"]) == ("problem", 5)
    assert "has disappeared" in run["problem"]
    aside.rename(growing.folder)
    growing.write(5, 6)
    assert (run_of(watched)["problem"], run_of(watched)["rounds"]) == ("", 6)
    growing.log.unlink()
    assert "rounds.jsonl: has disappeared" in run_of(watched)["problem"]


def test_a_log_that_is_a_pipe_is_refused(growing: Growing) -> None:
    os.mkfifo(growing.log)
    assert "is a folder, a pipe or a device" in run_of(Watched(growing.folder))["problem"]


def test_a_damaged_scenario_is_named_and_passes_when_it_is_mended(growing: Growing) -> None:
    watched = Watched(growing.folder)
    growing.write(0, 2)
    text = (growing.folder / "scenario.toml").read_text(encoding="utf-8")
    (growing.folder / "scenario.toml").write_text("rounds = ", encoding="utf-8")
    assert "scenario.toml" in run_of(watched)["problem"]
    (growing.folder / "scenario.toml").write_text(text, encoding="utf-8")
    assert run_of(watched)["rounds"] == 2


def test_an_empty_folder_waits_for_its_run(tmp_path: Path, finished: Path) -> None:
    watched = Watched(tmp_path)
    state = state_of(watched)
    assert (state["runs"], state["shown"]) == ([], None)
    assert "is empty" in state["problems"][0]
    assert json.loads(watched.figures())["data"] is None
    shutil.copytree(finished, tmp_path / "run")
    assert state_of(watched)["runs"][0]["rounds"] == ROUNDS
    assert json.loads(watched.figures())["data"] is not None


def test_runs_of_a_comparison_are_watched_together(finished: Path, tmp_path: Path) -> None:
    one, other = Growing(finished, tmp_path / "one"), Growing(finished, tmp_path / "other")
    seeded = (other.folder / "scenario.toml").read_text(encoding="utf-8").replace("seed = 0", "seed = 5")
    (other.folder / "scenario.toml").write_text(seeded, encoding="utf-8")
    one.write(0, ROUNDS)
    other.write(0, 7)
    watched = Watched(tmp_path)
    state = state_of(watched)
    assert [(run["id"], run["rounds"], run["status"]) for run in state["runs"]] == [
        ("one", ROUNDS, "ended"),
        ("other", 7, "going"),
    ]
    assert state["shown"]["id"] == "other"  # the one that goes
    assert state_of(watched, "one")["shown"]["id"] == "one"
    assert state_of(watched, "../one")["shown"]["id"] == "other"
    assert json.loads(watched.figures())["data"]["series"] == ["random"]


def test_figures_are_drawn_again_only_when_a_round_has_come(growing: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_module, "_LEAST", 0.0)
    monkeypatch.setattr(watched_module, "_PAUSE", 0.0)
    watched = Watched(growing.folder)
    growing.write(0, 3)
    state = state_of(watched)
    first = watched.figures()
    assert json.loads(first)["version"] == state["version"]
    assert watched.figures() is first
    growing.write(3, 4)
    state = state_of(watched)
    second = json.loads(watched.figures())
    assert second["version"] == state["version"] != json.loads(first)["version"]
    assert second["data"]["figures"]["fig-delay"]["data"][0]["x"] == [1, 2, 3, 4]


def test_figures_that_take_long_are_drawn_less_often(growing: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_module, "_LEAST", 1000.0)
    watched = Watched(growing.folder)
    growing.write(0, 3)
    state_of(watched)
    first = watched.figures()
    growing.write(3, 4)
    state_of(watched)
    assert watched.figures() is first
    assert json.loads(first)["pause"] == 1000


def test_a_log_that_is_cut_back_while_figures_are_drawn_is_no_failure(growing: Growing) -> None:
    watched = Watched(growing.folder)
    growing.write(0, 10)
    state_of(watched)
    growing.log.write_bytes(b"")  # after the state was read, and before the timeline looks rounds up
    drawn = json.loads(watched.figures())
    assert drawn["data"] is None
    assert "has changed while it was read" in drawn["problems"][0]


def test_of_every_block_one_round_is_picked_and_a_larger_stride_only_drops_rounds() -> None:
    for stride in (1, 2, 4, 8, 16):
        picks = [picked(block, stride) for block in range(200)]
        assert [pick // stride for pick in picks] == list(range(200))
        coarser = {picked(block, 2 * stride) for block in range(100)}
        assert coarser <= set(picks)


def test_rounds_of_a_policy_that_repeats_itself_are_picked_evenly() -> None:
    for stride in (2, 8, 64):
        odd = np.mean([picked(block, stride) % 2 for block in range(2000)])
        assert abs(odd - 0.5) < 4 * math.sqrt(0.25 / 2000)


@pytest.mark.parametrize("numbers", [False, True])
def test_thinning_keeps_the_picked_rounds_and_every_blocks_evaluation(numbers: bool, growing: Growing) -> None:
    growing.predict_numbers(list(range(8))) if numbers else growing.change(as_of_a_real_plant)
    records = [parse_record(line) for line in growing.lines]
    scenario = scenario_of(growing.folder)
    later, at_once = KeptRounds(scenario), KeptRounds(scenario, 8)
    for record in records:
        later.add(record, 0)
        at_once.add(record, 0)
    later.thin(2)
    later.thin(8)
    expected = [picked(block, 8) for block in range(ROUNDS // 8)]
    for kept in (later, at_once):
        assert (kept.logged(growing.log).columns.of_rounds("number") - 1).tolist() == expected
        assert len(kept.evaluations()) == ROUNDS // 8  # a test every five rounds, so every block of eight has one
        tested = [value for _, value in kept.evaluations()]
        assert tested == sorted(tested)


def test_memory_stays_bounded_however_long_a_run_is(growing: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_module, "_NUMBERS", 5_000)
    monkeypatch.setattr(watched_module, "_LEAST", 0.0)
    monkeypatch.setattr(watched_module, "_PAUSE", 0.0)
    text = (growing.folder / "scenario.toml").read_text(encoding="utf-8")
    (growing.folder / "scenario.toml").write_text(text.replace(f"rounds = {ROUNDS}", "rounds = 100000"))
    template = json.loads(growing.lines[0])
    watched, written = Watched(growing.folder), 0

    def grow(rounds: int) -> None:
        nonlocal written
        entries = [{**template, "round": t, "clock_s": float(t)} for t in range(written, written + rounds)]
        growing.append(b"".join(json.dumps(entry).encode() + b"\n" for entry in entries))
        written += rounds
        assert run_of(watched)["rounds"] == written
        assert json.loads(watched.figures())["data"]

    grow(500)
    tracemalloc.start()
    grow(500)
    first = tracemalloc.get_traced_memory()[0]
    grow(1500)
    assert tracemalloc.get_traced_memory()[0] < first + 200_000
    tracemalloc.stop()
    drawn = json.loads(watched.figures())
    assert len(drawn["data"]["figures"]["fig-delay"]["data"][0]["x"]) < 250
    assert "one of every" in drawn["note"]
    assert len(watched.state()) < 20_000
