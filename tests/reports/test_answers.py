"""What a comparison says in sentences, worked out by hand."""

import math

import pytest

from fedfloor.reports.answers import answers
from fedfloor.reports.tables import against
from tests.reports.made_up import gathered, made_up


def pair(
    seeds: int, *, ours: float = 8.7, accuracy: float = 0.40, spread: float = 0.0, trained: bool = True
) -> tuple[str, ...]:
    """The sentences on ddsra against random, whose rounds take 10 s and which ends at 36 %."""
    runs = []
    for seed in range(1, seeds + 1):
        end = accuracy + spread * (-1) ** seed
        for policy, delay, value in (("ddsra:v=1,solver=exact", ours, end), ("random", 10.0, 0.36)):
            runs.append(made_up(policy, seed, delay=delay, accuracies=[value] * 10 if trained else []))
    return answers(gathered(*runs))


def test_with_enough_seeds_a_sentence_says_who_is_faster_and_who_is_more_accurate() -> None:
    (sentence,) = pair(4)
    assert sentence == (
        "Rounds of random are 14.9 % longer than those of ddsra:v=1 [14.9 to 14.9 %]; "
        "random ends 4.0 points less accurate [4.0 to 4.0 points]."
    )


def test_with_few_seeds_accuracy_is_undecided_and_every_value_is_shown() -> None:
    (sentence,) = pair(2, spread=0.01)
    assert sentence.startswith("With 2 seeds: rounds of random are 14.9 % longer")
    assert sentence.endswith("; it is undecided which is more accurate (random -3.0, -5.0 points).")
    assert pair(1)[0].startswith("With 1 seed: rounds of random are 14.9 % longer")
    assert pair(1)[0].endswith("; it is undecided which is more accurate (random -4.0 points).")
    assert pair(1, accuracy=0.3)[0].endswith("(random +6.0 points).")


def test_an_interval_that_includes_no_difference_decides_nothing() -> None:
    (sentence,) = pair(6, accuracy=0.361, spread=0.05)
    assert "it is undecided which is more accurate [random -" in sentence
    assert " to +" in sentence


def test_shorter_rounds_and_more_accuracy_are_said_as_they_are() -> None:
    (sentence,) = pair(4, ours=12.5, accuracy=0.30)
    assert "20.0 % shorter than those of ddsra:v=1 [20.0 to 20.0 %]" in sentence
    assert "6.0 points more accurate [6.0 to 6.0 points]" in sentence


@pytest.mark.parametrize("seeds", [1, 2, 4])
def test_a_sentence_has_the_figures_of_the_table_of_differences(seeds: int) -> None:
    runs = [
        made_up(policy, seed, delay=delay + seed, accuracies=[0.4], energy=energy * seed)
        for seed in range(1, seeds + 1)
        for policy, delay, energy in (("ddsra:v=1,solver=exact", 8.0, 5.0), ("random", 10.0, 2.0))
    ]
    (sentence,) = answers(gathered(*runs))
    table = against(gathered(*runs))
    assert table is not None
    row = dict(zip(table.columns, table.rows[0], strict=True))
    for column, word in (("mean delay", "longer"), ("energy per round", "less")):
        assert f"{row[column].split(' %')[0].lstrip('+-')} % {word}" in sentence, column


def test_runs_of_different_lengths_say_over_which_rounds_they_are_compared() -> None:
    runs = made_up("ddsra:v=1,solver=exact", rounds=60), made_up("random", rounds=20)
    (sentence,) = answers(gathered(*runs))
    text = "With 1 seed, over the 20 rounds that both have: rounds of random and ddsra:v=1 take about as long."
    assert sentence == text
    runs = made_up("ddsra:v=1,solver=exact", rounds=60), made_up("random", rounds=20, delay=20.0)
    (sentence,) = answers(gathered(*runs))
    assert sentence == (
        "With 1 seed, over the 20 rounds that both have: rounds of random are 100.0 % longer than those of ddsra:v=1."
    )
    assert "not finished" not in sentence
    going = made_up("random", rounds=20, of=60)
    assert answers(gathered(runs[0], going))[0].endswith("So far; some runs are not finished.")


@pytest.mark.parametrize(
    ("energies", "words"),
    [
        ([2.0, 2.5], "; devices and gateways of random use 55.0 % less energy per round (60.0, 50.0 %)."),
        ([10.0, 15.0], "; devices and gateways of random use 150.0 % more energy per round (100.0, 200.0 %)."),
        ([5.1, 5.1], None),  # too little
        ([2.0, 9.0], None),  # not the same way
    ],
)
def test_energy_is_told_of_where_it_differs_clearly(energies: list[float], words: str | None) -> None:
    runs = [made_up("ddsra:v=1,solver=exact", seed) for seed in (1, 2)]
    runs += [made_up("random", seed, energy=energy) for seed, energy in enumerate(energies, start=1)]
    (sentence,) = answers(gathered(*runs))
    assert sentence.endswith(words) if words else "energy" not in sentence


def test_without_training_nothing_is_said_of_accuracy() -> None:
    (sentence,) = pair(4, trained=False)
    assert "accura" not in sentence
    assert sentence.endswith("[14.9 to 14.9 %].")


def test_one_policy_has_nothing_to_compare_and_endless_rounds_are_named() -> None:
    assert answers(gathered(made_up("random"))) == ()
    (sentence,) = pair(4, ours=math.inf, trained=False)
    assert "cannot be compared, because some never end" in sentence
    (sentence,) = pair(4, ours=0.0, trained=False)
    assert "cannot be compared, because some take no time" in sentence


@pytest.mark.parametrize(
    ("delays", "words"),
    [
        ([11.0, 9.0], "it is undecided which has the shorter rounds (random +10.0, -10.0 %)"),
        ([11.0, 12.0, 9.9], "it is undecided which has the shorter rounds (random +10.0, +20.0, -1.0 %)"),
        ([11.0, 12.0], "rounds of random are 15.0 % longer than those of ddsra:v=1 (10.0, 20.0 %)"),
    ],
)
def test_few_seeds_that_do_not_agree_decide_nothing(delays: list[float], words: str) -> None:
    runs = [made_up("ddsra:v=1", seed, delay=10.0) for seed, _ in enumerate(delays)]
    runs += [made_up("random", seed, delay=delay) for seed, delay in enumerate(delays)]
    assert answers(gathered(*runs)) == (f"With {len(delays)} seeds: {words}.",)


@pytest.mark.parametrize("count", [9, 12])
def test_many_policies_do_not_fill_the_page(count: int) -> None:
    runs = [made_up("ddsra:v=1,solver=exact"), *(made_up(f"mine:Own{at}") for at in range(count))]
    sentences = answers(gathered(*runs))
    assert len(sentences) == 9
    assert sentences[-1] == f"{count - 8} more policies are in the tables."
