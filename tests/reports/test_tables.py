"""Tables of a report against figures worked out by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from fedfloor.errors import FedfloorError
from fedfloor.reports import page
from fedfloor.reports.cells import OWN_RATES, change, duration, plain, with_interval
from fedfloor.reports.figures import participation
from fedfloor.reports.results import results_of
from fedfloor.reports.statistics import final_score, interval, last_score, matched, rounds_to_reach, steadiness
from fedfloor.reports.tables import against, bounds, headline, solver_gain, tables
from fedfloor.theory.bounds import Bound
from tests.reports.made_up import gathered, made_up, real


def cells(table: object, row: int = 0) -> dict[str, str]:
    return dict(zip(table.columns, table.rows[row], strict=True))  # type: ignore[attr-defined]


def test_the_interval_is_that_of_a_paired_t_test() -> None:
    ours, other = np.array([3.0, 4.5, 5.0, 7.25]), np.array([2.0, 4.0, 3.5, 6.0])
    found, oracle = interval(ours - other), stats.ttest_rel(ours, other).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((oracle.low, oracle.high))
    assert found.excludes_zero
    assert found.mean == pytest.approx(1.0625)


def test_one_seed_has_a_mean_but_no_interval() -> None:
    found = interval([2.0])
    assert (found.mean, found.low, found.half_width, found.excludes_zero) == (2.0, None, None, False)
    assert interval([1.0, math.inf]).low is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([48.24], "48.2 s"),
        ([900.0], "15 min"),
        ([14832.0], "4.12 h"),
        ([math.inf], "endless"),
        ([60.0, 64.0], "62 (60, 64) s"),
        ([60.0, 62.0, 64.0, 66.0], "63.0 ± 4.1 s"),
    ],
)
def test_times_are_written_in_the_unit_that_fits(values: list[float], expected: str) -> None:
    assert duration(interval(values)) == expected


def test_half_widths_have_two_digits_and_means_as_many_places() -> None:
    assert with_interval(interval([46.0, 46.2, 46.4, 46.6])) == "46.30 ± 0.41"
    assert with_interval(interval([0.3, 0.3, 0.4, 0.4]), " %", scale=0.01) == "35.0 ± 9.2 %"
    assert with_interval(interval([2.0, 2.0])) == "2"
    assert change(interval([-3.0]), " %") == "-3.0 %"
    assert (plain(math.nan), plain(123456.7)) == ("unknown", "123457")


def test_fewer_than_four_seeds_show_every_value_in_place_of_an_interval() -> None:
    assert interval([1.0, 2.0, 3.0]).low is None
    assert with_interval(interval([46.0, 46.2, 46.4])) == "46.2 (46, 46.2, 46.4)"
    assert with_interval(interval([0.31, 0.33]), " %", scale=0.01) == "32 (31, 33) %"
    assert change(interval([1.0, 2.0, 3.0]), " points") == "+2.0 points (+1.0, +2.0, +3.0)"
    assert change(interval([1.0, 2.0, 3.0, 4.0]), "") == "+2.5 [+0.4, +4.6]"


def test_final_accuracy_is_the_mean_of_the_tests_of_the_last_twenty_rounds() -> None:
    long = made_up("random", rounds=100, accuracies=[0.1] * 80 + [0.3, 0.5] * 10)
    assert final_score(long) == pytest.approx(0.4)
    assert steadiness(long) == pytest.approx(0.1, abs=0.006)  # a straight line leaves hardly less than 0.1 on average
    rising = made_up("random", rounds=100, accuracies=[0.1 + 0.005 * at for at in range(100)])
    assert steadiness(rising) == pytest.approx(0.0, abs=1e-9)  # a model that still learns is not unsteady
    seldom = made_up(
        "random", rounds=100, accuracies=[None, None, None, None, 0.1] * 16 + [None, None, None, None, 0.4] * 4
    )
    assert final_score(seldom) == pytest.approx(0.4)  # as logs of earlier versions are
    assert (
        "1 of 1 ended runs were not tested in each of these rounds: they have 4 tests."
        in headline(gathered(seldom)).note
    )
    assert "not tested in each" not in headline(gathered(long)).note
    early = made_up("random", rounds=60, of=300, accuracies=[None] * 49 + [0.2] + [None] * 9 + [0.4], bounds=())
    assert final_score(early) == pytest.approx(0.3)  # two tests in the last fifth of 60 rounds


def test_a_short_run_ends_with_its_last_fifth_and_an_untested_one_with_nothing() -> None:
    assert final_score(made_up("random", rounds=29, accuracies=[0.1] * 24 + [0.2, 0.4, 0.6, 0.8, 1.0])) == 0.6
    run = made_up("random", accuracies=[0.9, 0.1, 0.2, 0.3, 0.4, None, 0.5])
    assert (final_score(run), last_score(run), steadiness(run)) == (0.5, 0.5, None)
    untested = made_up("random")
    assert final_score(untested) is last_score(untested) is steadiness(untested) is None


def test_a_level_is_reached_by_the_smoothed_curve_once_a_whole_window_has_passed() -> None:
    run = made_up("random", rounds=20, accuracies=[0.9, 0.1, 0.1, 0.2, 0.6, 0.2, 0.2, 0.2, 0.6, 0.6, 0.6, 0.6])
    assert rounds_to_reach(run, 0.35) == 10  # rounds 7 to 10: 0.4; the first three have no window of four
    assert rounds_to_reach(run, 0.65) is None


def test_runs_are_matched_by_seed_and_cut_to_the_rounds_both_have() -> None:
    short, long = made_up("random", 1, rounds=4, of=10), made_up("round_robin", 1, rounds=10)
    collection = gathered(short, long, made_up("round_robin", 2))
    ((one, other),) = matched(*collection.series)
    assert (one.summary.rounds, other.summary.rounds, other.summary.clock) == (4, 4, 40.0)
    ((_, other),) = matched(*collection.series, whole=True)
    assert other.summary.rounds == 10


def test_the_headline_has_a_row_per_series() -> None:
    runs = [made_up("random", seed, accuracies=[0.3 + seed / 100], failed=(0,)) for seed in (1, 2)]
    table = headline(gathered(*runs, made_up("delay_driven", 1, rounds=3, of=10)))
    first, second = cells(table), cells(table, 1)
    assert (first["policy"], first["seed numbers"], first["rounds"]) == ("random", "1, 2", "10")
    assert first["final accuracy"].startswith("31.5 (31, 32) %")
    assert (first["completed"], first["failures"]) == ("66.7 % of 60", "energy 20")
    assert (first["mean delay [s]"], first["simulated time"]) == ("10", "100 s")
    assert (first["worst shortfall"], first["energy per round [J]"]) == ("0.5", "15")
    assert (second["rounds"], second["final accuracy"]) == ("still running: 3 of 10", "no training")
    assert "still running" in table.note
    assert "still running" not in headline(gathered(made_up("random", rounds=3, of=10, bounds=()))).note


def test_the_page_leaves_out_rounds_and_seeds_that_are_the_same_in_all_rows() -> None:
    runs = [made_up(policy, seed) for policy in ("random", "round_robin") for seed in (1, 2)]
    same, other = (page._without_said(headline(gathered(*part))) for part in (runs, runs[:3]))
    assert same.columns[-1] == "energy per round [J]"
    assert (other.columns[-1], [row[-1] for row in other.rows]) == ("seed numbers", ["1, 2", "1"])
    assert "rounds" not in other.columns


def test_times_of_real_machines_are_called_measured() -> None:
    simulated, measured = made_up("random"), real(made_up("round_robin"))
    assert "simulated time" in headline(gathered(simulated)).columns
    assert "measured time" in headline(gathered(measured)).columns
    assert cells(headline(gathered(measured)))["final accuracy"] == "not tested yet"  # they always train
    both = gathered(simulated, measured)
    assert "time" in headline(both).columns
    table = against(both)
    assert table is not None
    assert "time, whole run" in table.columns


def test_a_run_that_reached_its_end_early_is_not_still_going() -> None:
    run = made_up("random", rounds=3, of=10, bounds=(Bound("Theorem 3", "w", None, None),))
    assert cells(headline(gathered(run)))["rounds"] == "ended: 3 of 10"


def test_series_are_held_against_the_first_or_the_one_named() -> None:
    runs = [made_up(policy, seed, delay=delay * seed) for seed in (1, 2) for policy, delay in (("random", 10.0),)]
    runs += [made_up("delay_driven", seed, delay=8.0 * seed, accuracies=[0.5]) for seed in (1, 2)]
    table = against(gathered(*runs))
    assert table is not None
    row = cells(table)
    assert table.title == "against random"
    assert table.note.startswith("Every row is that policy minus random: same seeds")
    assert (row["mean delay"], row["final accuracy [points]"]) == ("-20.0 % (-20.0, -20.0)", "")
    other = against(gathered(*runs), "delay_driven")
    assert other is not None
    assert cells(other)["mean delay"] == "+25.0 % (+25.0, +25.0)"
    with pytest.raises(FedfloorError, match=r"reference 'randm': no such series. Did you mean 'random'"):
        against(gathered(*runs), "randm")


@pytest.mark.parametrize("name", ["ddsra:v=1", "ddsra:v=1,solver=exact"])
def test_a_reference_may_be_named_as_in_reports_and_as_in_logs(name: str) -> None:
    table = against(gathered(made_up("random"), made_up("ddsra:v=1,solver=exact")), name)
    assert table is not None
    assert table.title == "against ddsra:v=1"


def test_the_order_of_folders_does_not_choose_the_reference() -> None:
    table = against(gathered(made_up("delay_driven"), made_up("ddsra:v=1,solver=exact"), made_up("random")))
    assert table is not None
    assert table.title == "against ddsra:v=1"
    assert [row[0] for row in table.rows] == ["delay_driven", "random"]


def test_one_seed_gives_the_difference_and_says_so() -> None:
    table = against(gathered(made_up("random", accuracies=[0.25]), made_up("round_robin", accuracies=[0.3])))
    assert table is not None
    assert cells(table)["final accuracy [points]"] == "+5.0"
    assert "With one seed there is only the difference" in table.note
    assert against(gathered(made_up("random"))) is None


def test_runs_that_were_tested_more_often_at_the_end_are_told_of() -> None:
    every, seldom = [0.3] * 100, [None, None, None, None, 0.3] * 20
    uneven = against(gathered(made_up("random", accuracies=every), made_up("round_robin", accuracies=seldom)))
    even = against(gathered(made_up("random", accuracies=every), made_up("round_robin", accuracies=every)))
    assert uneven is not None
    assert even is not None
    assert "means of different numbers of tests" in uneven.note
    assert "means of different numbers of tests" not in even.note


def test_series_without_a_shared_seed_say_so() -> None:
    table = against(gathered(made_up("random", 1), made_up("round_robin", 2)))
    assert table is not None
    assert (cells(table)["seed numbers"], cells(table)["mean delay"]) == ("none shared", "")


def test_the_whole_time_is_compared_once_both_have_ended() -> None:
    first, going = made_up("random"), made_up("round_robin", rounds=5, of=10)
    table = against(gathered(first, going))
    assert table is not None
    assert cells(table)["simulated time, whole run"] == ""
    early = made_up("round_robin", rounds=5, of=10, bounds=(Bound("Theorem 3", "w", None, None),))
    table = against(gathered(first, early))
    assert table is not None
    assert (cells(table)["simulated time, whole run"], cells(table)["mean delay"]) == ("-50.0 %", "+0.0 %")


def test_an_endless_round_is_not_compared() -> None:
    run = made_up("random")
    endless = made_up("round_robin", delay=math.inf)
    table = against(gathered(run, endless))
    assert table is not None
    assert cells(table)["mean delay"] == "unknown"
    assert cells(headline(gathered(endless)))["mean delay [s]"] == "endless"


def test_what_the_exact_solver_gains_is_a_sentence() -> None:
    runs = [made_up("ddsra:v=1,solver=exact", seed, delay=8.0) for seed in (1, 2)]
    runs += [made_up("ddsra:v=1,solver=paper", seed, delay=10.0, failed=(0,)) for seed in (1, 2)]
    table = solver_gain(gathered(*runs, made_up("ddsra:v=9,solver=paper")))
    assert table is not None
    assert table.note.startswith(
        "ddsra:v=1: on the same weather the exact solver shortens the mean round time by 20.0 % and averages 1.00 "
        "floors per round more."
    )
    assert table.rows[0][:6] == ("ddsra:v=1", "1, 2", "10", "8", "10", "-20.0 % (-20.0, -20.0)")
    assert solver_gain(gathered(*runs[:2])) is None


def test_theorems_are_shown_for_the_first_seed_that_ended() -> None:
    entry = Bound("Theorem 2", "worst shortfall", 0.0123456, None, "vacuous")
    table = bounds(gathered(made_up("random", 1), made_up("random", 2, bounds=(entry,)), made_up("round_robin", 1)))
    assert table is not None
    assert table.rows == (("random", "Theorem 2", "worst shortfall", "0.01235", "none", "vacuous"),)
    assert "a guarantee, not a forecast" in table.note
    assert bounds(gathered(made_up("random"))) is None


def test_theorems_are_in_order() -> None:
    entries = tuple(Bound(f"Theorem {number}", "w", None, None) for number in (1, 2, 4, 3))
    table = bounds(gathered(made_up("random", bounds=entries), made_up("round_robin", bounds=entries)))
    assert table is not None
    assert [row[1][-1] for row in table.rows] == [*"1234", *"1234"]


@pytest.mark.parametrize(("seeds", "words"), [((1, 1), ""), ((2, 1), "(the"), ((4, 4), "±"), ((4, 2), "± (the")])
def test_the_note_explains_only_what_the_table_has(seeds: tuple[int, int], words: str) -> None:
    policies = ("random", "round_robin")
    runs = [made_up(name, seed) for name, count in zip(policies, seeds, strict=True) for seed in range(1, count + 1)]
    note = headline(gathered(*runs)).note
    assert [word in note for word in ("±", "(the value of every seed")] == ["±" in words, "(the" in words]


@pytest.mark.parametrize(
    ("policies", "rates", "loss", "told"),
    [
        (("random", "round_robin"), "estimated", 1.0, True),
        (("random", "round_robin"), "estimated", None, False),  # a simulation
        (("random", "round_robin"), "uniform", 1.0, False),
        (("random",), "estimated", 1.0, False),
    ],
)
def test_rates_that_each_run_estimates_itself_are_told_of(
    policies: tuple[str, ...], rates: str, loss: float | None, *, told: bool
) -> None:
    runs = [made_up(policy, loss=loss, overrides=[f"participation.rates={rates}"]) for policy in policies]
    assert (OWN_RATES in headline(gathered(*runs)).note) == told
    (panel,) = participation.plot(results_of(gathered(*runs)))
    assert panel.note.endswith(OWN_RATES) == told


def test_a_scenario_without_device_links_says_that_sending_is_free() -> None:
    link = "floors.0.link.rate_up_mbps=1"
    free, linked = made_up("random", name="quick"), made_up("random", name="quick", overrides=[link])
    words = "no device links, so sending between devices and their gateway takes no time and no energy"
    assert words in headline(gathered(free)).note
    assert words not in headline(gathered(linked)).note
    assert words not in headline(gathered(real(free))).note  # whose times are measured


def test_tables_come_in_the_order_of_the_page() -> None:
    collection = gathered(
        made_up("ddsra:v=1,solver=exact"),
        made_up("ddsra:v=1,solver=paper", bounds=(Bound("Theorem 3", "w", None, None),)),
    )
    titles = [table.title for table in tables(collection)]
    assert titles == [
        "paper-cifar10: policies side by side",
        "the paper's claims",
        "against ddsra:v=1",
        "what the exact solver gains",
        "theory",
    ]
