"""Studies that take hours: which runs are left to do, and what their lines say together."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks import precision
from benchmarks.precision import Line, differences, lines_of, missing

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
    assert lines_of(file) == []
    for line in lines():
        precision._append(file, line)
    assert list(map(repr, lines_of(file))) == list(map(repr, lines()))  # nan is not equal to itself
    assert file.read_text().splitlines()[0].split(",") == list(asdict(LINE))


def test_runs_that_have_a_line_are_skipped() -> None:
    assert missing(lines(), range(1, 4), 300, 0.25) == [(1, 16), (2, 16), (3, 16)]
    assert missing(lines(), [1], 20, 0.25) == [(1, 32), (1, 16), (1, 8)]  # a trial is another setting
    assert missing(lines(), [4], 300, 0.25) == [(4, 32), (4, 16), (4, 8)]


def test_differences_are_paired_by_seed() -> None:
    texts = differences(lines())
    assert texts[0].startswith("300 rounds, level 25%")
    (accuracy,) = [text for text in texts if " 8 bits  final accuracy" in text]
    assert "+2.0 [-0.5, +4.5]" in accuracy  # 1, 2, 3 points: 2 +- 4.303 / sqrt(3)
    (time,) = [text for text in texts if " 8 bits  time to the level" in text]
    assert "-50.0 [-50.0, -50.0]" in time
    assert "(2 of 3 seeds)" in time
    assert all("none  (0 of 0 seeds)" in text for text in texts if "16 bits" in text)


def test_a_finished_run_gives_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest study there is, on the embedded data: one round of one seed."""
    monkeypatch.setattr(precision, "SCENARIO", "quick")
    monkeypatch.setattr(precision, "POLICY", "random")
    monkeypatch.setattr(precision, "WIDTHS", ("participation.rates=uniform", "training.evaluate_every=1"))
    monkeypatch.setattr(precision, "_commit", lambda: "abc1234")
    line = precision.finished(7, 8, 1, 0.0, 1)
    assert line.setting == (8, 7, 1, 0.0)
    assert line.time_to_level_s == line.clock_s == line.mean_delay_s > 0.0
    assert line.command == (
        "fedfloor run quick --policy random --seed 7 --rounds 1 --set participation.rates=uniform "
        "--set training.evaluate_every=1 --set precision.upload=8"
    )
