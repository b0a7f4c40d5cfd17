"""Studies that take hours: which runs are left to do, and what their lines say together."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks import delays, precision, specialists
from benchmarks.precision import Line, differences, missing
from benchmarks.studies import NOTHING, PAGE, append, filled, lines_of
from benchmarks.studies import missing as unfinished
from benchmarks.study.runs import Run

import fedfloor

LINE = Line(
    upload=32, seed=1, rounds=300, level=0.25, final_accuracy=0.36, mean_delay_s=44.0, time_to_level_s=6000.0,
    clock_s=13200.0, command="fedfloor run, with commas", commit="abc1234",
)  # fmt: skip


def lines() -> list[Line]:
    """Three seeds: 8 bits are 1, 2 and 3 points better in half the time; the third never reaches the level."""
    made = []
    for seed in (1, 2, 3):
        full = replace(LINE, seed=seed)
        half = full.mean_delay_s / 2
        time = full.time_to_level_s / 2 if seed < 3 else np.nan
        accuracy = 0.36 + seed / 100
        made += [full, replace(full, upload=8, final_accuracy=accuracy, mean_delay_s=half, time_to_level_s=time)]
    return made


def test_a_study_writes_lines_that_it_reads_again(tmp_path: Path) -> None:
    file = tmp_path / "new" / "study.csv"
    assert lines_of(file, Line) == []
    for line in lines():
        append(file, line)
    assert list(map(repr, lines_of(file, Line))) == list(map(repr, lines()))  # nan is not equal to itself
    assert file.read_text().splitlines()[0].split(",") == list(asdict(LINE))


def test_runs_that_have_a_line_are_skipped() -> None:
    assert missing(lines(), range(1, 4), 300, 0.25) == [(1, 16), (2, 16), (3, 16)]
    assert missing(lines(), [1], 20, 0.25) == [(1, 32), (1, 16), (1, 8)]  # a trial is another setting
    assert missing(lines(), [4], 300, 0.25) == [(4, 32), (4, 16), (4, 8)]


def test_differences_are_paired_by_seed() -> None:
    texts = differences(lines())
    assert texts[0].startswith("300 rounds, level 25%")
    (accuracy,) = [text for text in texts if " 8 bits  final accuracy" in text]
    assert "+2.0 (+1.0, +2.0, +3.0)" in accuracy  # three seeds are too few for an interval
    (time,) = [text for text in texts if " 8 bits  time to the level" in text]
    assert "-50.0" in time
    assert "(2 of 3 seeds)" in time
    assert all("none  (0 of 0 seeds)" in text for text in texts if "16 bits" in text)


def test_a_finished_run_gives_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest study there is, on the embedded data: one round of one seed."""
    monkeypatch.setattr(precision, "SCENARIO", "quick")
    monkeypatch.setattr(precision, "POLICY", "random")
    monkeypatch.setattr(precision, "WIDTHS", ("participation.rates=uniform", "training.evaluate_every=1"))
    monkeypatch.setattr(precision, "commit", lambda: "abc1234")
    line = precision.finished(7, 8, 1, 0.0, 1)
    assert line.setting == (8, 7, 1, 0.0)
    assert line.time_to_level_s == line.clock_s == line.mean_delay_s > 0.0
    assert line.command == (
        "fedfloor run quick --policy random --seed 7 --rounds 1 --set participation.rates=uniform "
        "--set training.evaluate_every=1 --set precision.upload=8"
    )


def test_delays_are_simulated_once_and_compared_by_seed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(delays, "commit", lambda: "abc1234")
    run = Run("quick", "random", "", 3, 2)
    line = delays.finished(run)
    assert line.run == run
    assert line.clock_s == pytest.approx(2 * line.mean_delay_s)
    assert line.command == "fedfloor simulate quick --policy random --seed 3 --rounds 2"
    append(tmp_path / "delays.csv", line)
    assert lines_of(tmp_path / "delays.csv", delays.Line) == [line]
    other = Run("quick", "round_robin", "precision.upload=8", 3, 2)
    assert unfinished([line], [run, other, other]) == [other]
    assert "--set precision.upload=8" in delays.finished(other).command


def test_simulations_of_the_leaderboard_leave_out_what_needs_training() -> None:
    policies = {run.policy for run in delays.leaderboard([1])}
    assert {"ddsra:v=1", "random:allocation=exact", "fedcs:deadline_s=21", "lyapunov:convergence=5.2"} <= policies
    assert not any(policy.startswith(("oort", "loss_driven", "power_of_choice", "tifl")) for policy in policies)


def test_claims_about_delays_are_paired_and_need_four_seeds_for_an_interval() -> None:
    common = {"scenario": "paper-cifar10", "settings": "", "rounds": 9, "clock_s": 9.0, "completed": 1.0,
              "shortfall": 0.0, "mean_energy_j": 1.0, "command": "", "commit": ""}  # fmt: skip
    made = [
        delays.Line(policy=policy, seed=seed, mean_delay_s=delay * seed, **common)  # type: ignore[arg-type]
        for policy, delay in (("ddsra:v=0.01", 11.0), ("delay_driven", 10.0))
        for seed in (1, 2, 3, 4)
    ]
    (*_, row) = delays.tables(made)["delays differences"]
    assert row.endswith("| +7 % on CIFAR-10, +6 % on SVHN | +10.0 % [+10.0, +10.0] | 4 | yes |")
    assert delays.tables(made)["delays claims"][-1].startswith("| `ddsra:v=0.01` | 4 |"), "the fastest comes first"
    assert delays.tables(made)["delays factory"] == NOTHING


def test_the_page_shows_what_simulations_say() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page, delays.tables(lines_of(delays.LINES, delays.Line))) == page  # `--summary --write` renews it


def test_lonely_classes_are_those_of_the_far_halls() -> None:
    scenario = fedfloor.load("specialists")
    assert specialists.lonely_classes(scenario) == [1, 8, 9]
    far = [floor for floor in scenario.floors if set(floor.classes or ()) & {1, 8, 9}]
    assert min(floor.gateway.distance for floor in far) > max(
        floor.gateway.distance for floor in scenario.floors if floor not in far
    )


def test_a_study_of_specialists_tells_lonely_classes_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specialists, "commit", lambda: "abc1234")
    line = specialists.finished("delay_driven", 1, 2)
    assert line.accuracy == pytest.approx(0.3 * line.lonely + 0.7 * line.others)  # as many tests of every class
    assert line.mean_delay_s > 0.0
    (_, _, row) = specialists.table([line])
    assert row.startswith("| `delay_driven` |")
    assert row.endswith("| never |")
