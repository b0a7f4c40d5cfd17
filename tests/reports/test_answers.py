"""What a comparison says in sentences, worked out by hand."""

import math

import pytest

from fedfloor.reports.answers import answers
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
        "Rounds of ddsra:v=1 are 13 % shorter than random's [13.0 to 13.0 %]; "
        "it ends 4 points more accurate [4.0 to 4.0 points]."
    )


def test_with_few_seeds_accuracy_is_undecided_and_every_value_is_shown() -> None:
    (sentence,) = pair(2, spread=0.01)
    assert "13 % shorter" in sentence
    assert sentence.endswith("with 2 seeds it is undecided which is more accurate (ddsra:v=1 +3.0, +5.0 points).")
    assert pair(1)[0].endswith("with 1 seed it is undecided which is more accurate (ddsra:v=1 +4.0 points).")
    assert pair(1, accuracy=0.3)[0].endswith("(ddsra:v=1 -6.0 points).")


def test_an_interval_that_includes_no_difference_decides_nothing() -> None:
    (sentence,) = pair(6, accuracy=0.361, spread=0.05)
    assert "it is undecided which is more accurate [ddsra:v=1 -" in sentence
    assert " to +" in sentence


def test_longer_rounds_and_less_accuracy_are_said_as_they_are() -> None:
    (sentence,) = pair(4, ours=12.0, accuracy=0.30)
    assert "20 % longer than random's [20.0 to 20.0 %]" in sentence
    assert "6 points less accurate [6.0 to 6.0 points]" in sentence


def test_without_training_nothing_is_said_of_accuracy() -> None:
    (sentence,) = pair(4, trained=False)
    assert "accura" not in sentence
    assert sentence.endswith("[13.0 to 13.0 %].")


def test_one_policy_has_nothing_to_compare_and_endless_rounds_are_named() -> None:
    assert answers(gathered(made_up("random"))) == ()
    (sentence,) = pair(4, ours=math.inf, trained=False)
    assert "cannot be compared, because some never end" in sentence


@pytest.mark.parametrize("count", [9, 12])
def test_many_policies_do_not_fill_the_page(count: int) -> None:
    runs = [made_up("ddsra:v=1,solver=exact"), *(made_up(f"mine:Own{at}") for at in range(count))]
    sentences = answers(gathered(*runs))
    assert len(sentences) == 9
    assert sentences[-1] == f"{count - 8} more policies are in the tables."
