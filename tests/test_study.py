"""The study of docs/reproduce.md: its runs, their lines, and what the lines say together."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.studies import NOTHING, PAGE, append, filled, lines_of, missing
from benchmarks.study import parts, tables
from benchmarks.study.measures import accuracy_at, after, final_accuracy, judged, steadiness, time_to
from benchmarks.study.parts import (
    BEST,
    CLAIM_ROUNDS,
    EVERY,
    FAST_ROUNDS,
    FEW,
    PAPER,
    PARTS,
    PUBLISHED,
    RACE,
    RACED,
    SEEDS,
    STEADY,
    as_published,
    with_levers,
)
from benchmarks.study.runs import LINES, Line, Run, finished
from benchmarks.study.tables import TABLES, Lines

import fedfloor
from fedfloor.rounds.record import RoundRecord
from fedfloor.scheduling.registry import make_policy, parse_policy


def made(run: Run, *, delay: float = 10.0, end: float = 0.4, half_way: int = 30) -> Line:
    """A run whose accuracy after t rounds is end (1 - 2^(-t/half_way)), tested every 5 rounds and in the last 20."""
    tested = [at for at in range(1, run.rounds + 1) if at % 5 == 0 or at > run.rounds - 20]
    tests = " ".join(f"{at}:{at * delay:.1f}:{end * (1 - 2 ** (-at / half_way)):.4f}" for at in tested)
    shares = "0.5 0.5 0.5 0.5 0.5 0.5"
    return Line(
        run.scenario, run.policy, run.settings, run.seed, run.rounds, mean_delay_s=delay, clock_s=delay * run.rounds,
        mean_energy_j=20.0, selected=3 * run.rounds, completed=3 * run.rounds, shortfall=0.01, served=shares,
        picked=shares, targets=shares, tests=tests, wall_s=60.0, command=run.command, commit="abc1234",
    )  # fmt: skip


def by_run(lines: Sequence[Line]) -> Lines:
    return {line.run: line for line in lines}


RUN = PUBLISHED.on("paper-cifar10", 1, 300)


def test_a_run_is_a_command_and_its_line_is_read_as_it_was_written(tmp_path: Path) -> None:
    run = Run("quick", "random", "seed=3 rounds=2", 7, 60)
    assert run.command == "fedfloor run quick --policy random --seed 7 --rounds 60 --set seed=3 --set rounds=2"
    line = made(run)
    append(tmp_path / "lines.csv", line)
    assert lines_of(tmp_path / "lines.csv", Line) == [line]
    assert line.run == run
    assert missing([line], [run, RUN, RUN]) == [RUN]


def test_a_finished_run_says_what_its_log_says() -> None:
    run = Run("quick", "random", "participation.rates=uniform training.evaluate_every=2", 7, 3)
    line = finished(run, "abc1234")
    records: Sequence[RoundRecord] = fedfloor.run(
        "quick", "random", 3, seed=7, overrides=run.settings.split(), workers=1
    ).records
    rounds, clocks, values = line.curve
    assert rounds.tolist() == [2, 3]
    assert clocks == pytest.approx([records[1].clock, records[2].clock], abs=0.05)
    assert values == pytest.approx([records[1].accuracy, records[2].accuracy], abs=5e-5)
    assert line.clock_s == records[-1].clock
    assert len(line.served.split()) == 6


def test_accuracies_are_means_of_20_rounds_and_times_are_taken_from_them() -> None:
    line = replace(
        made(RUN), rounds=100, tests=" ".join(f"{at}:{at * 10}:{0.3 if at <= 20 else 0.5}" for at in range(1, 41))
    )
    assert final_accuracy(line) == pytest.approx(0.5)
    assert steadiness(line) == pytest.approx(0.0, abs=1e-9)
    assert time_to(line, 0.399) == 300.0  # half of the last 20 rounds have 0.5
    assert time_to(line, 0.2) == 200.0  # not before 20 rounds have ended
    assert math.isnan(time_to(line, 0.6))
    assert accuracy_at(line, 300.0) == pytest.approx(0.4)
    assert math.isnan(accuracy_at(line, 401.0))
    assert accuracy_at(line, 400.04) == pytest.approx(0.5), "clocks of tests are rounded, the end of a run is not"


def test_levers_are_compared_at_the_accuracy_that_the_published_setting_ends_with() -> None:
    lines = [made(PUBLISHED.on("paper-cifar10", seed, 300), delay=50.0) for seed in SEEDS]
    lines += [made(STEADY.on("paper-cifar10", seed, FAST_ROUNDS), delay=10.0, end=0.5, half_way=20) for seed in SEEDS]
    without = with_levers(EVERY[1:])
    lines += [made(without.on("paper-cifar10", seed, FAST_ROUNDS), end=0.1) for seed in SEEDS]
    text = tables.levers_tables(by_run(lines))["levers paper-cifar10"]
    (best,) = [row for row in text if row.startswith("| all levers, V = 0.1")]
    level = final_accuracy(lines[0])
    expected = time_to(lines[0], level) / time_to(lines[10], level)
    assert f"{expected:.1f}x [{expected:.1f}, {expected:.1f}]" in best
    (weak,) = [row for row in text if row.startswith(f"| without: {EVERY[0]}")]
    assert "0 of 10 seeds reach it" in weak
    longer = FAST_ROUNDS * 10.0 / time_to(lines[10], level)  # the whole run against that with all levers
    assert weak.endswith(f"| at least {longer:.1f}x [{longer:.1f}, {longer:.1f}] |")


def test_a_lever_alone_is_compared_with_as_many_rounds_of_the_published_setting() -> None:
    lines = [made(PUBLISHED.on("paper-cifar10", seed, 300), delay=50.0) for seed in FEW]
    lines += [made(with_levers(EVERY[:1]).on("paper-cifar10", seed, FAST_ROUNDS), delay=25.0, end=0.5) for seed in FEW]
    (row,) = tables.alone_tables(by_run(lines))["levers alone"][2:]
    clock, level = after(lines[0], FAST_ROUNDS)
    assert clock == FAST_ROUNDS * 50.0
    sooner = clock / time_to(lines[3], level)
    assert sooner > 2
    assert row.startswith(f"| {EVERY[0]} | 3 | 25")
    assert row.endswith(f"| {sooner:.1f}x ({sooner:.1f}, {sooner:.1f}, {sooner:.1f}) |")


def test_all_levers_are_every_lever_and_the_published_setting_has_none() -> None:
    assert with_levers([]) == PUBLISHED
    assert with_levers(EVERY) == STEADY
    assert RACED.settings == STEADY.settings
    assert set(BEST.settings) ^ set(RACED.settings) == {"aggregation.rule=fedexp", *BEST.settings[-2:]}
    assert all(with_levers([name]) != PUBLISHED for name in EVERY)


def test_claims_are_judged_from_lines_as_from_run_folders() -> None:
    lines = [
        made(as_published(policy).on("paper-cifar10", seed, CLAIM_ROUNDS["paper-cifar10"]), delay=delay, end=end)
        for policy, delay, end in (
            ("ddsra:v=0.01", 42.0, 0.40), ("round_robin", 46.0, 0.36), ("delay_driven", 40.0, 0.38),
            ("ddsra:v=10000", 33.0, 0.39), ("loss_driven", 45.0, 0.20),
        )
        for seed in range(1, 5)
    ]  # fmt: skip
    text = tables.claims_tables(by_run(lines))["claims paper-cifar10"]
    (accurate,) = [row for row in text if "more accurate than round robin" in row]
    assert "+3.8 points [+3.8, +3.8]; +11.1 % [+11.1, +11.1] | 4 | yes" in accurate
    (longer,) = [row for row in text if "less time than loss driven" in row]
    assert "-6.7 % [-6.7, -6.7] | 4 | yes" in longer
    assert not any("more time than delay driven" in row for row in text), "simulations decide it"
    assert any("completes more floor-rounds" in row for row in text)  # random is simulated
    assert judged(lines[0]).summary.floors[3].name == "floor-4"


def test_the_leaderboard_ranks_by_the_time_to_a_common_accuracy_and_pairs_seeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quick, slow = parts.OURS["paper-cifar10"], "random:allocation=exact"
    lines = [
        made(parts.racing(policy).on("paper-cifar10", seed, RACE["paper-cifar10"]), delay=delay)
        for policy, delay in ((slow, 20.0), (quick, 10.0))
        for seed in SEEDS
    ]
    made_tables = tables.leaderboard_tables(by_run(lines))
    assert made_tables["race paper-cifar10"][-2].startswith(f"| `{quick}` | 3 |")
    assert made_tables["race paper-cifar10"][-1].startswith(f"| `{slow}` | 3 |")
    assert "unknown" not in "".join(made_tables["race paper-cifar10"])
    assert made_tables["pairs paper-cifar10"][-1].startswith(f"| `{slow}` | 3 | +100.0 % ")
    assert made_tables["race paper-cifar10 all seeds"] == NOTHING  # of ddsra alone
    monkeypatch.setattr(tables, "finalists", lambda _: [quick, slow])
    made_tables = tables.leaderboard_tables(by_run(lines))
    (row,) = made_tables["pairs paper-cifar10 all seeds"][2:]
    assert row.startswith(f"| `{slow}` | 10 | +100.0 % [+100.0, +100.0]")


def test_a_seed_that_misses_the_level_does_not_hide_the_times_of_the_others() -> None:
    ends = {parts.OURS["paper-cifar10"]: (0.4, 0.4, 0.4), "ddsra:v=0.1": (0.4, 0.4, 0.4), "random": (0.4, 0.4, 0.1)}
    ends["round_robin"] = (0.1, 0.1, 0.1)
    lines = [
        made(parts.racing(policy).on("paper-cifar10", seed, RACE["paper-cifar10"]), delay=delay, end=end)
        for (policy, of_seeds), delay in zip(ends.items(), (10.0, 20.0, 20.0, 20.0), strict=True)
        for seed, end in zip(FEW, of_seeds, strict=True)
    ]
    made_tables = tables.leaderboard_tables(by_run(lines))
    (raced,) = [row for row in made_tables["race paper-cifar10"] if row.startswith("| `random`")]
    assert " in 2 of 3 seeds |" in raced
    paired = made_tables["pairs paper-cifar10"]
    assert any(row.startswith("| `random` | 3 | +100.0 % (+100.0, +100.0) in 2 of 3 seeds") for row in paired)
    assert any(row.startswith("| `round_robin` | 3 | 0 of 3 seeds") for row in paired)


def test_a_policy_that_lacks_a_seed_takes_no_part_in_the_race() -> None:
    policies, seeds = ("ddsra:v=0.1", "ddsra:v=1", "random"), (1, 2, 3)
    runs = [parts.racing(policy).on("specialists", seed, RACE["specialists"]) for policy in policies for seed in seeds]
    text = "".join(tables.leaderboard_tables(by_run([made(run) for run in runs[:-1]]))["race specialists"])
    assert "`ddsra:v=1`" in text
    assert "`random`" not in text


def test_a_run_without_a_result_has_a_line_and_is_named() -> None:
    run = Run("quick", "random", "participation.rates=uniform training.learning_rate=1e9", 7, 3)
    line = finished(run, "abc1234")
    assert line.failed
    assert missing([line], [run]) == []
    assert tables.effort([line, line], [run]) == [
        "1 of 1 runs are finished. They took 0.0 hours, each on one core.",
        "",
        "These ended without a result, because their loss was not finite:",
        "",
        f"- `{run.command}`",
    ]
    other = PUBLISHED.on("paper-cifar10", 1, 300)
    assert not tables.seeds_of({other: replace(made(other), tests="")}, PUBLISHED, "paper-cifar10", 300)


def test_reasons_show_accuracies_after_equal_rounds() -> None:
    lines = [
        made(as_published("ddsra:v=0.01").on(PAPER[0], seed, rounds))
        for seed in (1, 2)
        for rounds in (CLAIM_ROUNDS[PAPER[0]], 900)
    ]
    made_tables = tables.reasons_tables(by_run(lines))
    assert all(made_tables[name][2].startswith("| ddsra:v=0.01 | 2 | 3 |") for name in ("reasons", "horizon"))


def test_the_page_shows_what_the_lines_say() -> None:
    page = PAGE.read_text(encoding="utf-8")
    lines = lines_of(LINES, Line)
    named = {name: rows for part in TABLES.values() for name, rows in part(by_run(lines)).items()}
    named["effort"] = tables.effort(lines, [run for part in PARTS.values() for run in part()])
    assert filled(page, named) == page  # `python -m benchmarks.study --summary --write` renews it


def test_only_named_tables_of_a_page_are_renewed() -> None:
    page = "a\n<!-- table: one -->\nold\n<!-- end -->\nb\n<!-- table: two -->\nkept\n<!-- end -->\n"
    assert filled(page, {"one": ["new"]}) == page.replace("\nold\n", "\n\nnew\n\n")


@pytest.mark.parametrize("part", PARTS)
def test_every_run_of_the_study_can_be_planned(part: str) -> None:
    assert part in TABLES
    runs = PARTS[part]()
    for scenario, settings in {(run.scenario, run.settings) for run in runs}:
        fedfloor.load(scenario, settings.split())
    for policy in {run.policy for run in runs}:
        make_policy(parse_policy(policy))


def test_lines_of_the_study_are_runs_of_the_study() -> None:
    every = {run for part in PARTS.values() for run in part()}
    assert {line.run for line in lines_of(LINES, Line)} <= every


def test_the_oracle_serves_its_floors_and_thinned_rounds_leave_a_share_out() -> None:
    run = fedfloor.simulate("paper-cifar10", "benchmarks.study.policies:Always", rounds=2)
    assert all(
        [entry.selected for entry in record.gateways] == [True, False, False, True, True, False]
        for record in run.records
    )
    thinned = fedfloor.simulate("paper-cifar10", "benchmarks.study.policies:Thinned:share=0.3", rounds=60)
    share = np.mean([sum(entry.selected for entry in record.gateways) / 3 for record in thinned.records])
    assert share == pytest.approx(0.3, abs=0.12)
