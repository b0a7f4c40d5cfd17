"""Time to an accuracy that all reach, worked out by hand."""

from fedfloor.reports.reaching import reaching
from fedfloor.reports.scores import ERROR
from tests.conftest import known
from tests.reports.made_up import gathered, made_up


def test_a_policy_that_learns_less_from_a_round_may_still_be_first() -> None:
    runs = [
        *(made_up("ddsra:v=1,solver=exact", seed, delay=10.0, accuracies=[0.1, 0.3, 0.5]) for seed in (1, 2)),
        *(made_up("random", seed, delay=4.0, accuracies=[0.1, 0.2, 0.3, 0.4]) for seed in (1, 2)),
    ]
    table = reaching(gathered(*runs))
    assert table is not None
    assert table.rows == (
        ("ddsra:v=1", "1, 2", "3", "30 s", ""),
        ("random", "1, 2", "4", "16 s", "-46.7 % (-46.7, -46.7)"),
    )
    assert "95 % of the least final accuracy among a seed's runs, here 33.2 %." in table.note


def test_every_seed_has_its_own_level() -> None:
    runs = [
        made_up("random", 1, delay=10.0, accuracies=[0.2, 0.4]),
        made_up("random", 2, delay=10.0, accuracies=[0.1, 0.2]),
        made_up("round_robin", 1, delay=20.0, accuracies=[0.4, 0.4]),
        made_up("round_robin", 2, delay=20.0, accuracies=[0.1, 0.1, 0.3]),
    ]
    table = reaching(gathered(*runs))
    assert table is not None
    assert [row[2] for row in table.rows] == ["2", "2.5 (2, 3)"]
    assert "14.3 % to 28.5 %" in table.note


def test_a_policy_that_was_only_simulated_is_left_out() -> None:
    runs = [made_up(name, accuracies=[0.2, 0.4]) for name in ("random", "round_robin")]
    table = reaching(gathered(*runs, made_up("ddsra")))
    assert table is not None
    assert [row[0] for row in table.rows] == ["random", "round_robin"]
    assert table.columns[-1] == "against random"


def test_a_seed_waits_for_all_of_its_runs() -> None:
    runs = [made_up(name, seed, accuracies=[0.2, 0.4]) for name in ("ddsra", "random") for seed in (1, 2)]
    going = made_up("random", 2, of=20, accuracies=[0.2, 0.4])
    table = reaching(gathered(*runs[:3], going))
    assert table is not None
    assert [row[1] for row in table.rows] == ["1", "1"]


def test_there_is_nothing_to_reach_alone_without_tests_or_without_a_shared_seed() -> None:
    assert reaching(gathered(made_up("random", accuracies=[0.2]))) is None
    assert reaching(gathered(made_up("random", accuracies=[0.2]), made_up("round_robin"))) is None
    assert reaching(gathered(made_up("random", 1, accuracies=[0.2]), made_up("ddsra", 2, accuracies=[0.2]))) is None


def test_time_that_does_not_pass_is_not_compared() -> None:
    runs = [
        made_up(policy, delay=delay, accuracies=[0.5] * 10) for policy, delay in (("ddsra:v=1", 0.0), ("random", 4.0))
    ]
    table = known(reaching(gathered(*runs)))
    assert [row[3] for row in table.rows] == ["0 s", "8 s"]
    assert table.rows[1][4] == "unknown"


def test_the_least_error_that_all_reach_is_a_level_too() -> None:
    runs = [
        made_up("ddsra:v=1", delay=10.0, errors=[4.0, 3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
        made_up("random", delay=4.0, errors=[4.0, 4.0, 4.0, 4.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]),
    ]
    collection = gathered(*runs)
    assert reaching(collection) is None  # they have no accuracy
    table = known(reaching(collection, ERROR))
    assert table.title == "time to an error that all reach"
    assert "105 % of the largest final error among a seed's runs, here 2.1. Error is smoothed" in table.note
    assert [row[2:] for row in table.rows] == [("4", "40 s", ""), ("6", "24 s", "-40.0 %")]
