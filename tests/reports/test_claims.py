"""The paper's claims held against made-up runs whose answer is known."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fedfloor.reports.claims import CLAIMS, claims
from fedfloor.reports.reading import Collection, ReadRun
from tests.reports.made_up import gathered, made_up

OURS = "ddsra:v=0.01,solver=exact"
SHOWN = "ddsra:v=0.01"
SEEDS = (1, 2, 3, 4)
#: reaches 0.5 quickly, and slowly; one evaluation a round
FAST, SLOW = [0.1, 0.4, *[0.5] * 8], [0.1, 0.1, 0.1, 0.1, 0.2, *[0.4] * 5]


def answers(collection: Collection) -> dict[str, tuple[str, ...]]:
    """Claim -> paper, ours, seeds, of, holds; of the first row where a claim has several."""
    table = claims(collection)
    assert table is not None
    return {row[0]: row[2:] for row in reversed(table.rows)}


def pair(ours: Sequence[float], other: Sequence[float], seeds: int = 4, policy: str = "round_robin") -> list[ReadRun]:
    """Runs of ddsra and of another policy; seeds differ by a little."""
    return [
        made_up(name, seed, accuracies=[value + seed / 1000 * (name == OURS) for value in values])
        for name, values in ((OURS, ours), (policy, other))
        for seed in range(1, seeds + 1)
    ]


def test_only_the_papers_scenarios_have_claims() -> None:
    assert claims(gathered(made_up("random", name="quick"))) is None
    assert {claim.scenario for claim in CLAIMS} == {"paper-cifar10", "paper-svhn"}


def test_what_was_not_run_says_what_it_needs() -> None:
    paper, ours, seeds, needs, holds = answers(gathered(made_up("random")))["ddsra ends more accurate than round robin"]
    assert (paper, ours, seeds, holds) == ("+37 %", "", "", "not run")
    assert needs == "needs ddsra:v=0.01, round_robin"


def test_a_gain_over_several_seeds_holds() -> None:
    _, ours, seeds, of, holds = answers(gathered(*pair(FAST, SLOW)))["ddsra ends more accurate than round robin"]
    assert (seeds, of, holds) == ("1, 2, 3, 4", f"{SHOWN} / round_robin", "yes")
    assert ours.startswith("+10.2 points [+10.0, +10.5]; +25.6 % [")


def test_a_loss_does_not_hold_and_neither_does_chance() -> None:
    claim = "ddsra ends more accurate than round robin"
    assert answers(gathered(*pair(SLOW, FAST)))[claim][4] == "no"
    runs = [made_up(OURS, seed, accuracies=[0.5 + 0.1 * (seed == 1)]) for seed in SEEDS]
    runs += [made_up("round_robin", seed, accuracies=[0.5 + 0.01 * (seed == 2)]) for seed in SEEDS]
    assert answers(gathered(*runs))[claim][4] == "no (interval includes 0)"


def test_one_seed_proves_nothing() -> None:
    found = answers(gathered(*pair(FAST, SLOW, seeds=1)))["ddsra ends more accurate than round robin"]
    assert (found[1], found[4]) == ("+10.1 points; +25.2 %", "one seed only")


def test_fewer_than_four_seeds_are_shown_but_decide_nothing() -> None:
    found = answers(gathered(*pair(FAST, SLOW, seeds=2)))["ddsra ends more accurate than round robin"]
    assert (found[1], found[4]) == ("+10.1 points (+10.1, +10.2); +25.4 % (+25.2, +25.5)", "fewer than 4 seeds")


def test_plants_that_are_drawn_have_the_same_claims() -> None:
    runs = [made_up(name, name="paper-cifar10-random") for name in (OURS, "random")]
    assert set(answers(gathered(*runs))) == {claim.text for claim in CLAIMS if claim.scenario == "paper-cifar10"}


def test_rounds_to_convergence_are_counted_to_95_percent_of_round_robin() -> None:
    # Round robin ends at 0.4, so the level is 0.38: its mean over two rounds reaches that in round 7, ours in round 3.
    found = answers(gathered(*pair(FAST, SLOW)))["ddsra converges in fewer rounds than round robin"]
    assert found[1] == "-57.1 % [-57.1, -57.1]"
    assert found[4] == "yes"


def test_a_level_that_is_never_reached_gives_no_figure() -> None:
    found = answers(gathered(*pair(SLOW, FAST)))["ddsra converges in fewer rounds than round robin"]
    assert (found[1], found[4]) == ("level not reached by ddsra (4 of 4 seeds)", "no")


def test_convergence_is_not_judged_by_fewer_tests_than_it_is_averaged_over() -> None:
    found = answers(gathered(*pair(FAST[:4], SLOW[:4])))["ddsra converges in fewer rounds than round robin"]
    assert (found[1], found[4]) == ("", "not run: fewer than 5 evaluations")


def test_a_level_that_only_the_other_misses_is_undecided() -> None:
    off = ["limits=false"]
    accuracies = {"participation": FAST, "random": [0.1] * 10, "round_robin": SLOW}
    runs = [
        made_up(policy, seed, name="paper-svhn", accuracies=values, overrides=off)
        for policy, values in accuracies.items()
        for seed in SEEDS
    ]
    found = answers(gathered(*runs))["participation converges in fewer rounds than random"]
    assert (found[1], found[4]) == ("level not reached by random (4 of 4 seeds)", "undecided")


def test_fig_3_is_compared_without_limits_only() -> None:
    claim = "participation ends more accurate than random"
    limited = [made_up(policy, accuracies=[0.5]) for policy in ("participation", "random")]
    assert answers(gathered(*limited))[claim][3:] == ("needs participation, random with limits=false", "not run")
    free = [
        made_up(policy, accuracies=[value], variant="limits=False", overrides=["limits=false"])
        for policy, value in (("participation", 0.5), ("random", 0.4))
    ]
    assert answers(gathered(*limited, *free))[claim][1] == "+10.0 points; +25.0 %"


def test_delays_are_compared_over_the_same_rounds() -> None:
    runs = [made_up(OURS, seed, delay=8.0 + seed / 10) for seed in SEEDS]
    runs += [made_up("loss_driven", seed, delay=10.0, rounds=20) for seed in SEEDS]
    runs += [made_up("delay_driven", seed, delay=10.0) for seed in SEEDS]
    found = answers(gathered(*runs))
    assert found["ddsra takes less time than loss driven"][1].startswith("-17.5 % [")
    assert found["ddsra takes less time than loss driven"][4] == "yes"
    assert found["ddsra takes more time than delay driven"][4] == "no"
    assert found["ddsra ends more accurate than delay driven"][4] == "not run: not trained"


def test_runs_still_going_are_shown_but_not_judged() -> None:
    runs = [made_up(OURS, seed, rounds=5, of=10, accuracies=FAST) for seed in SEEDS]
    runs += [made_up("round_robin", seed, accuracies=SLOW) for seed in SEEDS]
    assert answers(gathered(*runs))["ddsra ends more accurate than round robin"][4] == "still running"


def test_every_solver_that_was_run_has_its_row() -> None:
    runs = [made_up(policy, delay=9.0) for policy in (OURS, "ddsra:v=0.01,solver=paper", "loss_driven")]
    table = claims(gathered(*runs))
    assert table is not None
    whom = [row[5] for row in table.rows if row[0] == "ddsra takes less time than loss driven"]
    assert whom == [f"{SHOWN} / loss_driven", "ddsra:v=0.01,solver=paper / loss_driven"]


def test_a_policy_with_another_allocation_is_not_the_papers() -> None:
    other = "loss_driven:allocation=exact"
    table = claims(gathered(*(made_up(policy, delay=9.0) for policy in (OURS, other, "loss_driven"))))
    assert table is not None
    whom = [row[5] for row in table.rows if row[0] == "ddsra takes less time than loss driven"]
    assert whom == [f"{SHOWN} / loss_driven"]


def test_v_and_participation_are_judged() -> None:
    runs = [made_up(OURS, seed, delay=10.0, target=0.0) for seed in SEEDS]
    runs += [made_up("ddsra:v=10000,solver=exact", seed, delay=7.0) for seed in SEEDS]
    found = answers(gathered(*runs))
    assert found["a larger V takes less time (10000 against 0.01)"][1] == "-30.0 % [-30.0, -30.0]"
    margin = found["ddsra gives every floor its rate (margin to a shortfall of 0.03)"]
    assert (margin[1], margin[4]) == ("+0.030 [+0.030, +0.030]", "yes")


def test_loss_driven_is_judged_by_the_classes_of_the_floors_it_picks() -> None:
    runs = []
    for seed in SEEDS:
        floors = made_up("random", seed, rounds=1).scenario.floors
        least = sorted(range(len(floors)), key=lambda m: floors[m].classes_per_device or 10)[:3]
        runs.append(made_up("loss_driven", seed, selected=[m in least for m in range(len(floors))]))
    claim = "loss driven starves floors with varied data (rank correlation of classes and selections)"
    assert answers(gathered(*runs))[claim][1].startswith("-0.")


def observing(run: ReadRun, divergence: Sequence[float]) -> ReadRun:
    """The run with a divergence of every floor and the rates that follow from another order of them."""
    records = [
        replace(
            record,
            gateways=tuple(
                replace(gateway, divergence=divergence[m], target_rate=0.1 + 0.1 * m)
                for m, gateway in enumerate(record.gateways)
            ),
        )
        for record in run.records
    ]
    return replace(run, records=tuple(records))


@pytest.mark.parametrize(
    ("rising", "limits", "holds"), [(False, "true", "yes"), (True, "true", "no"), (False, "false", "yes")]
)
def test_rates_agree_where_floors_that_diverge_most_take_part_least(rising: bool, limits: str, holds: str) -> None:
    floors = len(made_up("random", rounds=1).scenario.floors)
    divergence = [1.0 + m if rising else 1.0 / (1 + m) for m in range(floors)]
    limited = [f"limits={limits}"]
    runs = [observing(made_up("random", seed, rounds=2, overrides=limited), divergence) for seed in SEEDS]
    found = answers(gathered(*runs))["target rates agree with observed ones (rank correlation)"]
    assert found[1].startswith("-" if rising else "+")
    assert found[4] == holds
    assert found[3].endswith("limits=false") == (limits == "false")


@pytest.mark.parametrize(("failing", "sign", "holds"), [("random", "+", "yes"), (OURS, "-", "no")])
def test_more_is_completed_than_by_the_best_baseline(failing: str, sign: str, holds: str) -> None:
    policies = (OURS, "random", "round_robin", "loss_driven", "delay_driven")
    short = {failing: (0, 1), **({} if failing == OURS else dict.fromkeys(policies[1:], (0,)))}
    runs = [made_up(policy, seed, failed=short.get(policy, ())) for policy in policies for seed in SEEDS]
    found = answers(gathered(*runs))["ddsra completes more floor-rounds than any other policy"]
    one = 100.0 * (1 if failing == "random" else 2) / len(runs[0].scenario.floors)
    assert found[1].startswith(f"{sign}{one:.1f} points")
    assert found[4] == holds


@pytest.mark.parametrize(("small", "large", "holds"), [(0.5, 0.4, "yes"), (0.4, 0.5, "no")])
def test_the_small_v_has_to_end_more_accurate(small: float, large: float, holds: str) -> None:
    runs = [made_up(OURS, seed, accuracies=[small]) for seed in SEEDS]
    runs += [made_up("ddsra:v=10000,solver=exact", seed, accuracies=[large]) for seed in SEEDS]
    found = answers(gathered(*runs))["a smaller V ends more accurate (0.01 against 10000)"]
    assert found[1].startswith("+10.0 points" if holds == "yes" else "-10.0 points")
    assert found[4] == holds


def test_departures_from_the_preset_are_named() -> None:
    table = claims(gathered(made_up("random", overrides=["model.width=0.25", "costs.width=1.0"])))
    assert table is not None
    assert "model.width 0.25 (preset 1.0)" in table.note
    assert "rounds 10 (preset 300)" in table.note
    whole = claims(gathered(made_up("random", rounds=1, of=300)))
    assert whole is not None
    assert "not the preset" not in whole.note
