"""Selecting policies of other papers against their published rules, with numbers worked out by hand."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.errors import PolicyError
from fedfloor.rounds.past import history_of
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.runs.replay import replayed
from fedfloor.scheduling.allocating import ALLOCATIONS, Selecting
from fedfloor.scheduling.checking import check_decision
from fedfloor.scheduling.history import no_history
from fedfloor.scheduling.policies import lyapunov, oort, tifl
from fedfloor.scheduling.policies.cs_ucb_q import CsUcbQ
from fedfloor.scheduling.policies.ddsra import Ddsra
from fedfloor.scheduling.policies.fedcs import FedCs
from fedfloor.scheduling.policies.loss_driven import LossDriven
from fedfloor.scheduling.policies.lyapunov import Lyapunov
from fedfloor.scheduling.policies.oort import Oort
from fedfloor.scheduling.policies.power_of_choice import PowerOfChoice
from fedfloor.scheduling.policies.tifl import TiFL
from fedfloor.scheduling.registry import make_policy, name_now, parse_policy, shown_name
from fedfloor.scheduling.state import IDLE, Decision, RoundState
from tests.scheduling.rounds import made_round, past

SELECTING = (
    "random", "round_robin", "loss_driven", "delay_driven", "participation",
    "fedcs", "oort", "cs_ucb_q", "power_of_choice", "tifl", "lyapunov",
)  # fmt: skip


def floors_of(decision: Decision) -> list[int]:
    return np.flatnonzero(decision.channel != IDLE).tolist()


# FedCS


def test_fedcs_serves_the_largest_set_that_finishes_in_time() -> None:
    state = made_round([5.0, 1.0, 9.0, 4.0, 2.0], 3)
    assert floors_of(FedCs(deadline_s=100.0).schedule(state)) == [1, 3, 4]  # the least total of three: 1 + 4 + 2
    assert floors_of(FedCs(deadline_s=2.5).schedule(state)) == [1, 4]
    assert floors_of(FedCs(deadline_s=0.5).schedule(state)) == []


def test_fedcs_gives_a_floor_up_a_faster_channel_if_that_serves_one_more() -> None:
    # Floor 0 finishes in time on both channels, floor 1 only on the first one.
    state = made_round([1.0, 1.0], 2)
    gain = np.array([[1.0, 1.0], [1.0, 0.0]])
    state = made_round([1.0, 1.0], 2, weather=type(state.weather)(**{**fields(state.weather), "uplink_gain": gain}))
    assert FedCs(deadline_s=2.0).schedule(state).channel.tolist() == [1, 0]


def fields(weather: Any) -> dict[str, Any]:
    return {name: getattr(weather, name) for name in weather.__dataclass_fields__}


# CS-UCB-Q


def test_the_index_of_cs_ucb_q_is_the_mean_reward_and_its_confidence() -> None:
    history = past(
        4,
        {0: {"delay": 2.0}, 1: {"delay": 8.0}},
        {0: {"delay": 4.0}, 2: {"delay": 1.0, "failed": 1}},
        *({0: {"delay": 3.0}, 1: {"delay": 8.0}} for _ in range(18)),
    ).history
    # Round 21. Floor 0: 20 times, mean reward 1 - (2 + 4 + 18 x 3)/20/10 = 0.7, bound 0.7 + sqrt(2 ln 21/20) > 1.
    # Floor 1: 19 times with 8 s, so 0.2 + sqrt(2 ln 21/19); floor 2 failed its only round; floor 3 is new.
    index = CsUcbQ(max_delay_s=10.0).index(history)
    assert index == pytest.approx([1.0, 0.2 + math.sqrt(2 * math.log(21) / 19), 1.0, 1.0])
    assert index[1] < 1.0
    long = past(1, *({0: {"delay": 5.0}} for _ in range(999))).history
    assert CsUcbQ(max_delay_s=10.0).index(long) == pytest.approx([0.5 + math.sqrt(2 * math.log(1000) / 999)])
    assert CsUcbQ().index(long) == pytest.approx([math.sqrt(2 * math.log(1000) / 999)])  # 5 s is the longest seen


def test_cs_ucb_q_adds_the_debts() -> None:
    rounds = [{0: {"delay": 1.0}, 1: {"delay": 5.0}, 2: {"delay": 9.0}} for _ in range(200)]
    state = made_round([1.0, 5.0, 9.0], 1, index=200, history=past(3, *rounds).history)
    # Rewards with 10 s: 0.9, 0.5, 0.1 and the same confidence for all, sqrt(2 ln 201/200) = 0.23.
    assert floors_of(CsUcbQ(beta=0.5, max_delay_s=10.0).schedule(state)) == [0]
    owed = made_round([1.0, 5.0, 9.0], 1, index=200, history=state.history, queue=np.array([0.0, 0.0, 0.7]))
    assert floors_of(CsUcbQ(beta=0.5, max_delay_s=10.0).schedule(owed)) == [2]  # 0.33 + 0.7 against 1.0
    assert floors_of(CsUcbQ(beta=0.0, max_delay_s=10.0).schedule(owed)) == [0]


# Losses


def test_power_of_choice_takes_the_highest_losses_and_new_floors_first() -> None:
    history = past(4, {0: {}, 1: {}}, {2: {}}).history
    state = made_round([1.0] * 4, 2, index=2, last_loss=np.array([0.5, 2.0, 1.0, np.nan]), history=history)
    assert floors_of(PowerOfChoice(d=4).schedule(state)) == [1, 3]


@pytest.mark.parametrize(("floors", "channels"), [(6, 3), (20, 6), (4, 1)])
def test_power_of_choice_leaves_some_floors_out_of_its_candidates_and_has_more_than_it_serves(
    floors: int, channels: int
) -> None:
    history = past(floors, {m: {} for m in range(floors)}).history
    loss = np.arange(floors, dtype=float)  # the last floors lose most

    def served(index: int) -> list[int]:
        state = made_round([1.0] * floors, channels, index=index, last_loss=loss, history=history)
        return floors_of(PowerOfChoice().schedule(state))

    rounds = [served(index) for index in range(1, 60)]
    assert any(floors - 1 not in chosen for chosen in rounds), "a floor is not always a candidate"
    assert all(0 not in chosen for chosen in rounds), "of more candidates than channels, the lowest loss is left out"


def test_power_of_choice_draws_candidates_by_their_data() -> None:
    state = made_round([1.0] * 4, 1, data=[70, 10, 10, 10], last_loss=np.array([1.0, 2.0, 3.0, 4.0]))
    history = past(4, {m: {} for m in range(4)}).history
    served = np.zeros(4)
    for index in range(1, 2001):
        drawn = made_round([1.0] * 4, 1, data=[70, 10, 10, 10], last_loss=state.last_loss, index=index, history=history)
        served[floors_of(PowerOfChoice(d=1).schedule(drawn))] += 1
    assert served / 2000 == pytest.approx([0.7, 0.1, 0.1, 0.1], abs=0.04)
    pair = [PowerOfChoice(d=2).schedule(made_round([1.0] * 2, 1, index=i, last_loss=np.array([1.0, 2.0]),
            history=past(2, {0: {}, 1: {}}).history)) for i in range(1, 20)]  # fmt: skip
    assert {tuple(floors_of(decision)) for decision in pair} == {(1,)}  # both are candidates


def test_loss_driven_does_not_lock_onto_a_floor_that_never_completes() -> None:
    # Floors 0 and 1 never complete. Three floors, one channel: each is tried once, then the one with a loss is served.
    builder, losses, served = past(3), np.full(3, np.nan), list[int]()
    rounds = list[dict[int, dict[str, float]]]()
    for index in range(6):
        state = made_round([1.0] * 3, 1, index=index, last_loss=losses.copy(), history=builder.history)
        (floor,) = floors_of(LossDriven().schedule(state))
        served.append(floor)
        rounds.append({floor: {"failed": float(floor < 2)}})
        losses[2] = 1.0 if floor == 2 else losses[2]
        builder = past(3, *rounds)
    # After round 2 every other floor was selected after floor 0, so it is tried again, then likewise floor 1.
    assert served == [0, 1, 2, 0, 1, 2]


def test_loss_driven_prefers_low_losses_and_serves_failed_floors_with_channels_to_spare() -> None:
    losses = np.array([np.nan, 0.3, 0.9, 0.6])
    history = past(4, {0: {"failed": 1}, 1: {}, 2: {}, 3: {}}).history
    for channels, expected in ((2, [1, 3]), (3, [1, 2, 3]), (4, [0, 1, 2, 3])):
        state = made_round([1.0] * 4, channels, index=1, last_loss=losses, history=history)
        assert floors_of(LossDriven().schedule(state)) == expected


# Oort


def test_the_scores_of_oort_are_utility_staleness_and_speed() -> None:
    rounds = [{0: {"rms_loss": 2.0, "delay": 1.0}}, {1: {"rms_loss": 1.0, "delay": 4.0}}, {}]
    history, size = past(3, *rounds).history, np.array([10.0, 10.0, 10.0])
    explored = np.array([True, True, False])
    score = Oort(clip=1.0).scores(history, size, np.array([1.0, 4.0, 1.0]), 2.0, explored)
    # Utilities 20 and 10, least 9.99. Round 4, last served in rounds 1 and 2. Floor 1 takes 4 s, T is 2 s: a quarter.
    bonus = [math.sqrt(0.1 * math.log(4) / 1), math.sqrt(0.1 * math.log(4) / 2)]
    assert score == pytest.approx([1.0 + bonus[0], ((10 - 9.99) / 10.01 + bonus[1]) / 4])
    clipped = Oort(clip=0.0).scores(history, size, np.array([1.0, 4.0, 1.0]), 2.0, explored)
    assert clipped[0] == pytest.approx((10 - 9.99) / 10.01 + bonus[0])  # cut off at the lowest utility


def test_oort_explores_all_floors_before_it_exploits() -> None:
    served, rounds = list[list[int]](), list[dict[int, dict[str, float]]]()
    for index in range(3):
        state = made_round([1.0] * 6, 3, index=index, history=past(6, *rounds).history)
        served.append(floors_of(Oort().schedule(state)))
        rounds.append({m: {"rms_loss": 1.0 + m, "delay": 1.0} for m in served[-1]})
    # epsilon is 0.88 and 0.86 in the first rounds, floor(3 x 0.12) = 0 floors are exploited
    assert sorted(served[0] + served[1]) == list(range(6))
    assert len(served[2]) == 3


def test_oort_draws_only_floors_near_the_cut_off() -> None:
    # Losses 10, 9, 8 and 1: with one floor to draw the cut-off is 0.7 of the second score, which excludes the last.
    rounds = [{m: {"rms_loss": rms, "delay": 1.0} for m, rms in enumerate([10.0, 9.0, 8.0, 1.0])}]
    seen = set[int]()
    for seed in range(60):
        state = made_round([1.0] * 4, 1, index=1, seed=seed, history=past(4, *rounds).history)
        seen.update(floors_of(Oort(clip=1.0).schedule(state)))
    assert seen == {0, 1, 2}


def pace_of(utilities: list[float], **settings: Any) -> float:
    rounds = [{0: {"rms_loss": value, "delay": 1.0}} for value in utilities]
    return Oort(**settings).pace(past(1, *rounds).history, np.array([1.0]))


def test_the_pacer_of_oort_rises_on_flat_and_falls_on_sharp_changes() -> None:
    # In round 40 twenty rounds with 1 are compared with 18: the first round of a floor is not exploited. 2 > 1.8.
    assert pace_of([1.0] * 39) == 10.0
    assert pace_of([1.0] * 58) == 10.0
    assert pace_of([1.0] * 59) == 15.0  # in round 60 both sums are 20
    assert pace_of([1.0] * 20 + [3.0] * 19) == 10.0  # 58 against 18 is neither flat nor sharp
    assert pace_of([1.0] * 20 + [9.0] * 19) == 5.0  # 172 against 18
    assert pace_of([1.0] * 399) == 100.0
    assert pace_of([1.0] * 2000) == 100.0  # the last rounds suffice
    assert pace_of([1.0] * 14, pacer_step=5, percentile=50.0) == 55.0


def test_the_first_round_of_a_floor_is_not_exploited() -> None:
    history = past(
        2, {0: {"rms_loss": 2.0}}, {0: {"rms_loss": 3.0}, 1: {"rms_loss": 5.0}}, {1: {"rms_loss": 7.0}}
    ).history
    assert oort.exploited_utility(history, np.array([10.0, 1.0])).tolist() == [0.0, 30.0, 7.0]


def test_the_preferred_duration_is_a_percentile() -> None:
    delay = np.array([4.0, 1.0, 3.0, 2.0])
    assert [oort.preferred_duration(delay, pace) for pace in (10.0, 50.0, 99.0, 100.0)] == [1.0, 3.0, 4.0, math.inf]


# TiFL


def test_tifl_sorts_floors_into_tiers_by_delay() -> None:
    state = made_round([5.0, 1.0, 9.0, 4.0, 2.0, 8.0], 3, history=no_history(6))
    assert TiFL().tier_of(state).tolist() == [1, 0, 1, 0, 0, 1]
    measured = past(6, {1: {"delay": 20.0}}).history  # slower than it looks now
    state = made_round([5.0, 1.0, 9.0, 4.0, 2.0, 8.0], 2, history=measured)
    assert TiFL(tiers=3).tier_of(state).tolist() == [1, 2, 2, 0, 0, 1]


def test_tifl_prefers_tiers_with_high_losses() -> None:
    tier = np.array([0, 0, 1, 1, 2])
    loss = np.array([1.0, 2.0, 0.5, np.nan, 9.0])
    assert tifl.tier_chances(tier, loss) == pytest.approx([2 / 6, 1 / 6, 3 / 6])
    assert tifl.tier_chances(tier, np.full(5, np.nan)) == pytest.approx([1 / 3] * 3)


def test_tifl_changes_its_probabilities_every_interval_only() -> None:
    rounds = [{0: {"loss": 1.0}, 1: {"loss": 9.0}}, {0: {"loss": 99.0}}]
    state = made_round([1.0, 2.0], 1, index=2, history=past(2, *rounds).history)
    counts = {interval: np.zeros(2) for interval in (1, 2, 5)}
    for interval, count in counts.items():
        for seed in range(300):
            drawn = made_round([1.0, 2.0], 1, index=2, seed=seed, history=state.history)
            count[floors_of(TiFL(tiers=2, interval=interval).schedule(drawn))] += 1
    assert counts[1] / 300 == pytest.approx([2 / 3, 1 / 3], abs=0.08)  # floor 0 is the worst now
    assert counts[5] / 300 == pytest.approx([1 / 2, 1 / 2], abs=0.08)  # nothing was known in round 0
    rounds = [{0: {"loss": 1.0}, 1: {"loss": 9.0}}, {}, {0: {"loss": 99.0}}]
    count = np.zeros(2)
    for seed in range(300):
        late = made_round([1.0, 2.0], 1, index=3, seed=seed, history=past(2, *rounds).history)
        count[floors_of(TiFL(tiers=2, interval=2).schedule(late))] += 1
    assert count / 300 == pytest.approx([1 / 3, 2 / 3], abs=0.08)  # as it was after two rounds


def test_a_tier_of_tifl_without_credit_is_not_drawn() -> None:
    rounds = [{0: {"delay": 1.0}} for _ in range(5)]  # ceil(10/2) credits of the first tier are spent
    for seed in range(20):
        state = made_round([1.0, 2.0], 1, index=5, seed=seed, history=past(2, *rounds).history)
        assert floors_of(TiFL(tiers=2, rounds=10).schedule(state)) == [1]
        assert floors_of(TiFL(tiers=2, rounds=2).schedule(state)) == [1]
    rounds += [{1: {"delay": 1.0}} for _ in range(5)]
    spent = {
        tuple(floors_of(TiFL(tiers=2, rounds=10).schedule(
            made_round([1.0, 2.0], 1, index=10, seed=seed, history=past(2, *rounds).history))))
        for seed in range(20)
    }  # fmt: skip
    assert spent == {(0,), (1,)}  # without any credit left, all tiers are drawn again


# Lyapunov


def test_the_probabilities_of_lyapunov_sampling() -> None:
    state = made_round([40.0, 90.0, 2.5], 3, history=no_history(3))
    # sqrt(10/40), sqrt(10/90), sqrt(10/2.5) = 2, at most 1
    assert Lyapunov().chances(state) == pytest.approx([0.5, 1 / 3, 1.0])
    few = made_round([40.0, 90.0, 2.5], 1, history=no_history(3))
    assert Lyapunov().chances(few) == pytest.approx(np.array([0.5, 1 / 3, 1.0]) / (11 / 6))  # one channel
    owing = made_round([40.0, 90.0, 2.5], 3, index=2, history=past(3, {0: {}}, {0: {}}).history)
    # Z = 2 (0.2 - 0.1) = 0.2 W; q = sqrt(10 V/(40 V + 0.2 x 0.2)) with V = 0.001
    chance = Lyapunov(v=0.001).chances(owing)
    assert chance == pytest.approx([math.sqrt(0.01 / (0.04 + 0.04)), 1 / 3, 1.0])


def test_debts_of_power_follow_their_recursion() -> None:
    selected = np.array([[True, False], [True, True], [False, False], [True, False]])
    debts = lyapunov.power_debts(selected, np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    assert debts.tolist() == [2.0, 0.0]  # 1, 2, 1, 2 and 0, 1, 0, 0


def test_lyapunov_minimises_penalty_plus_drift() -> None:
    state = made_round([40.0], 1, index=3, history=past(1, {0: {}}, {0: {}}, {0: {}}).history)
    policy = Lyapunov(v=0.01, convergence=5.0)
    (q,) = policy.chances(state)
    grid = np.linspace(1e-4, 1.0, 100_001)
    debt, power = 3 * 0.1, 0.2
    cost = 0.01 * (grid * 40.0 + 5.0 / grid) + debt * grid * power
    assert q == pytest.approx(grid[np.argmin(cost)], abs=1e-4)


def test_lyapunov_serves_floors_as_often_as_it_says_and_weighs_them_by_the_reciprocal() -> None:
    counts, chance = np.zeros(4), np.zeros(4)
    for index in range(1500):
        state = made_round([40.0, 90.0, 160.0, 20.0], 2, index=index, seed=7, history=no_history(4))
        decision, chance = Lyapunov().schedule(state), Lyapunov().chances(state)
        counts += decision.selected
        assert decision.weight is not None
        assert decision.weight[decision.selected] == pytest.approx(1.0 / chance[decision.selected])
        assert not decision.weight[~decision.selected].any()
    assert counts / 1500 == pytest.approx(chance, abs=0.04)


# All of them


@pytest.fixture(scope="module")
def states() -> list[RoundState]:
    """Rounds of a simulated run, with its history and made-up losses; the first has none."""
    scenario = fedfloor.load("quick")
    run = fedfloor.simulate("quick", "random", rounds=5)
    rng, rounds = np.random.default_rng(0), list[RoundState]()
    for state in replayed(scenario, run.records, with_history=True):
        assert state.history is not None
        losses = np.where(state.history.completed > 0, rng.uniform(0.1, 2.0, 6), np.nan)
        history = type(state.history)(
            **{name: getattr(state.history, name) for name in state.history.__dataclass_fields__}
            | {"last_rms_loss": losses}
        )
        rounds.append(type(state)(**{name: getattr(state, name) for name in state.__dataclass_fields__}
                                  | {"last_loss": losses, "history": history}))  # fmt: skip
    return [rounds[0], rounds[-1]]


@pytest.mark.parametrize("allocation", ALLOCATIONS)
@pytest.mark.parametrize("name", SELECTING)
def test_every_rule_decides_validly_under_every_allocation(
    name: str, allocation: str, states: list[RoundState]
) -> None:
    policy = make_policy(parse_policy(f"{name}:allocation={allocation}"))[1]
    again = make_policy(parse_policy(f"{name}:allocation={allocation}"))[1]
    for state in states:
        decision = policy.schedule(state)
        check_decision(state, decision)  # never two floors on a channel, at most J, cuts and powers within limits
        assert decision.selected.sum() <= 3
        assert name in ("participation", "lyapunov") or decision.selected.sum() == 3
        other = again.schedule(state)
        assert np.array_equal(decision.channel, other.channel)
        assert (decision.allocation is None) == (allocation == "fixed")
        if decision.allocation is not None and other.allocation is not None:
            assert np.array_equal(decision.allocation.cut, other.allocation.cut)


@pytest.mark.parametrize("name", ["cs_ucb_q", "lyapunov:power_share=0.2", "fedcs:allocation=one_cut"])
def test_a_replayed_round_is_decided_as_in_the_run(name: str, tmp_path: Any) -> None:
    run = fedfloor.simulate("quick", name, rounds=9, out=tmp_path / "run")
    for index in (0, 4, 8):
        answer = fedfloor.plan(tmp_path / "run", round=index)
        assert [g["channel"] for g in answer["gateways"]] == [g.channel for g in run.records[index].gateways]
    live = history_of(run.records[:8], 6).history
    (state,) = replayed(run.scenario, run.records[:9], only={8}, with_history=True)
    assert state.history is not None
    assert np.array_equal(state.history.energy_sum, live.energy_sum)


def test_the_default_allocation_is_not_part_of_a_name() -> None:
    for text in ("random", "random:allocation=fixed"):
        spec, _ = make_policy(parse_policy(text))
        assert (str(spec), spec.slug, shown_name(str(spec))) == ("random", "random", "random")
    spec, _ = make_policy(parse_policy("random:allocation=exact"))
    assert (str(spec), spec.slug, shown_name(str(spec))) == (
        "random:allocation=exact",
        "random-exact",
        "random:allocation=exact",
    )


@pytest.mark.parametrize("name", ["fedcs", "oort", "cs_ucb_q", "power_of_choice", "tifl", "lyapunov"])
def test_defaults_of_selecting_policies_are_not_part_of_their_names(name: str) -> None:
    spec, _ = make_policy(parse_policy(name))
    assert len(spec.settings) == len(dataclasses.fields(make_policy(spec)[1])) - 1  # type: ignore[arg-type]
    assert (str(spec), spec.slug) == (name, name)
    spelled = ",".join(f"{key}={value}" for key, value in spec.settings)
    assert name_now(f"{name}:{spelled}") == name
    key, value = spec.settings[-1]
    changed, _ = make_policy(parse_policy(f"{name}:{key}={value / 2 if isinstance(value, float) and value else 7}"))
    assert str(changed).startswith(f"{name}:{key}=")
    assert name_now(str(changed)) == str(changed)


@dataclasses.dataclass(frozen=True)
class Mine(Selecting):
    """A policy of a user that selects floors."""

    floor: int = 0

    def schedule(self, state: RoundState) -> Decision:
        return self.served(state, np.array([self.floor]))


@pytest.mark.parametrize(
    ("text", "name", "slug"),
    [
        ("ddsra", "ddsra:v=1000,solver=exact", "ddsra-v1000-exact"),
        (f"{__name__}:Mine", f"{__name__}:Mine:floor=0", f"{__name__}.Mine-floor0"),
    ],
)
def test_other_policies_are_named_with_every_setting(text: str, name: str, slug: str) -> None:
    spec, _ = make_policy(parse_policy(text))
    assert (str(spec), spec.slug, name_now(name)) == (name, slug, name)


@pytest.mark.parametrize("logged", ["mine:Own:a=1.0", "oort:clip", "random:lost=1", "nobody", ""])
def test_logged_names_that_say_nothing_to_us_stay_as_they_are(logged: str) -> None:
    assert name_now(logged) == logged


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("random:allocation=best", "allocation must be fixed, exact, one_cut or dtfl, got 'best'"),
        ("fedcs:deadline_s=-1", "deadline_s must be a number from 0 to 1e+09, got -1"),
        ("power_of_choice:d=-1", "d must be a whole number from 0 to 1e+06, got -1"),
        ("power_of_choice:d=1.5", "d must be a whole number from 0 to 1e+06, got 1.5"),
        ("oort:pacer_step=201", "pacer_step must be a whole number from 1 to 200, got 201"),
        ("cs_ucb_q:beta=2", "beta must be a number from 0 to 1, got 2"),
        ("tifl:interval=0", "interval must be a whole number from 1 to 1e+06, got 0"),
        ("lyapunov:v=true", "v must be a number from 1e-09 to 1e+30, got True"),
        ("oort:clip=high", "clip must be a number from 0 to 1, got 'high'"),
        ("ddsra:allocation=exact", "unknown setting 'allocation'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(text: str, expected: str) -> None:
    with pytest.raises(PolicyError) as caught:
        make_policy(parse_policy(text))
    assert expected in str(caught.value)


def test_settings_may_be_numbers_of_numpy() -> None:
    assert PowerOfChoice(d=np.int64(3)).d == Ddsra(v=np.int32(3)).v == Lyapunov(v=np.float32(3)).v == 3  # type: ignore[arg-type]


def test_rules_that_need_losses_are_refused_in_a_simulation() -> None:
    for name in ("oort", "power_of_choice", "tifl"):
        with pytest.raises(PolicyError, match="needs training"):
            fedfloor.simulate("quick", name)
    plant = SimulatedPlant(fedfloor.load("quick"), simulated_rates(fedfloor.load("quick")))
    assert plant.observe().history is None  # the loop adds it for policies that need it


def test_the_pacer_of_oort_skips_rounds_that_nobody_remembers() -> None:
    history = dataclasses.replace(no_history(2), rounds=9 * 10**15)
    assert Oort().pace(history, np.ones(2)) == Oort().percentile


@pytest.mark.parametrize("rounds", [410, 438, 439, 440, 441])
def test_the_pacer_of_oort_takes_every_step_whose_rounds_are_known(rounds: int) -> None:
    rng = np.random.default_rng(rounds)
    history = past(2, *({int(rng.integers(2)): {"rms_loss": rng.uniform(0.1, 9)}} for _ in range(rounds))).history
    policy, size = Oort(pacer_step=20, percentile=50), np.ones(2)
    utility = np.full(rounds, np.nan)
    utility[history.first_recent :] = oort.exploited_utility(history, size)
    pace = policy.percentile
    for number in range(40, rounds + 2, 20):  # the rule as it is published, with all rounds
        begin = max(number - 41, 0)
        before, now = utility[begin : number - 21].sum(), utility[number - 21 : number - 1].sum()
        if math.isnan(before):
            continue
        if abs(now - before) <= 0.1 * before:
            pace = min(100.0, pace + policy.pacer_delta)
        elif abs(now - before) >= 5.0 * before:
            pace = max(policy.pacer_delta, pace - policy.pacer_delta)
    assert policy.pace(history, size) == pace
