"""What a policy may know of earlier rounds: totals, the last rounds, the way to a snapshot and back."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.errors import SnapshotError
from fedfloor.rounds.lines import parse_record
from fedfloor.rounds.past import history_of, result_of
from fedfloor.scheduling.conversion import snapshot_of, state_of
from fedfloor.scheduling.history import RECENT, History, HistoryBuilder, RoundResult, no_history, untried
from fedfloor.scheduling.snapshot import parse_snapshot
from tests.scheduling.rounds import made_round, past


def assert_same(one: History, other: History) -> None:
    assert one.rounds == other.rounds
    for field in dataclasses.fields(one):
        if field.name not in ("rounds", "recent"):
            assert np.array_equal(getattr(one, field.name), getattr(other, field.name), equal_nan=True), field.name
    for field in dataclasses.fields(one.recent):
        values = getattr(one.recent, field.name), getattr(other.recent, field.name)
        assert np.array_equal(*values, equal_nan=True), field.name


def test_totals_and_last_values_are_those_of_the_rounds() -> None:
    history = past(
        3,
        {0: {"delay": 2.0, "loss": 1.5, "rms_loss": 2.0, "energy": 4.0}, 1: {"delay": 9.0, "failed": 1, "energy": 1.0}},
        {0: {"delay": 3.0, "loss": 0.5, "rms_loss": 1.0, "energy": 4.0}},
        {1: {"delay": 5.0, "loss": 3.0, "energy": 2.0}},
    ).history
    assert history.rounds == 3
    assert history.selected.tolist() == [2, 2, 0]
    assert history.completed.tolist() == [2, 1, 0]
    assert history.last_selected.tolist() == [1, 2, -1]
    assert history.first_completed.tolist() == [0, 2, -1]
    assert history.last_completed.tolist() == [1, 2, -1]
    assert history.delay_sum.tolist() == [5.0, 5.0, 0.0]  # a failed round does not count
    assert history.most_delay.tolist() == [3.0, 5.0, 0.0]
    assert history.last_delay.tolist()[:2] == [3.0, 5.0]
    assert history.loss_sum.tolist() == [2.0, 3.0, 0.0]
    assert history.last_rms_loss[0] == 1.0
    assert np.isnan(history.last_rms_loss[1:]).all()
    assert history.energy_sum.tolist() == [8.0, 3.0, 0.0]
    assert history.recent.delay.tolist() == [[2.0, 9.0, 0.0], [3.0, 0.0, 0.0], [0.0, 5.0, 0.0]]


def test_the_last_rounds_are_bounded_and_earlier_histories_stay_as_they_were() -> None:
    builder, rng, kept = HistoryBuilder(2), np.random.default_rng(0), list[tuple[History, float]]()
    delays = rng.uniform(1.0, 9.0, (3 * RECENT, 2))
    for delay in delays:
        kept.append((builder.history, float(builder.history.recent.delay.sum())))
        every, none = np.ones(2, bool), np.full(2, np.nan)
        builder.add(RoundResult(every, every, delay, none, none, delay))
    history = builder.history
    assert history.recent.delay.shape == (RECENT, 2)
    assert history.first_recent == 2 * RECENT
    assert np.array_equal(history.recent.delay, delays[-RECENT:])
    assert history.delay_sum == pytest.approx(delays.sum(axis=0))
    assert [float(earlier.recent.delay.sum()) for earlier, _ in kept] == [total for _, total in kept]
    with pytest.raises(ValueError, match="read-only"):
        history.recent.delay[0, 0] = 0.0
    with pytest.raises(ValueError, match="read-only"):
        history.selected[0] = 0


def test_a_floor_that_failed_waits_until_all_others_could_be_served() -> None:
    rounds: list[dict[int, dict[str, float]]] = [{0: {"failed": 1}, 1: {}}, {2: {}}, {1: {}}]
    due = [untried(past(3, *rounds[:count]).history).tolist() for count in range(4)]
    assert due == [[True, True, True], [False, False, True], [False, False, False], [True, False, False]]


def test_floors_that_failed_together_do_not_wait_for_each_other_or_for_one_that_is_never_served() -> None:
    served: dict[int, dict[str, float]] = {2: {}}
    rounds = [{0: {"failed": 1.0}, 1: {"failed": 1.0}, **served}, served, served, served]
    due = [untried(past(4, *rounds[:count]).history).tolist() for count in range(1, 5)]
    assert [entry[:3] for entry in due] == [[False] * 3] * 3 + [[True, True, False]]
    assert all(entry[3] for entry in due)  # never tried


def test_a_floor_that_is_alone_is_always_tried() -> None:
    assert untried(past(1, {0: {"failed": 1}}).history).tolist() == [True]  # nobody else could be served


def test_the_history_of_a_log_is_that_of_its_lines(tmp_path: Path) -> None:
    run = fedfloor.simulate("quick", "cs_ucb_q", rounds=12, out=tmp_path / "run")
    lines = (tmp_path / "run" / "rounds.jsonl").read_bytes().splitlines()
    read = HistoryBuilder(6)
    for line in lines:
        read.add(result_of(parse_record(line)))
    assert_same(read.history, history_of(run.records, 6).history)


def through_json(state: Any) -> Any:
    return state_of(parse_snapshot(json.loads(json.dumps(snapshot_of(state, 1.0), default=float)), "snapshot"))


def test_a_snapshot_carries_the_history_to_the_last_bit() -> None:
    rng = np.random.default_rng(3)
    rounds = [
        {int(m): {"delay": rng.uniform(1, 9), "failed": float(rng.random() < 0.3), "energy": rng.uniform(1, 9)}}
        for m in rng.integers(0, 3, 450)
    ]
    rounds[-1][0] = {"delay": math.inf, "failed": 1, "energy": 0.5}
    rounds[-2][1] = {"delay": 1 / 3, "loss": 0.1, "rms_loss": 0.7, "energy": 0.1}
    history = past(3, *rounds).history
    state = made_round([1.0, 2.0, 3.0], 2, index=450, history=history)
    found = through_json(state)
    assert_same(found.history, history)
    assert through_json(made_round([1.0], 1)).history is None
    assert_same(through_json(made_round([1.0, 2.0], 1, history=no_history(2))).history, no_history(2))


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("completed",), 5, "gateways[0].history.completed: must be <= selected = 1, got 5"),
        (("last_selected",), None, "gateways[0].history.last_selected: must be a round if selected > 0"),
        (("last_selected",), 7, "gateways[0].history: must be of rounds before round = 2, got one of round 7"),
        (("last_delay_s",), None, "gateways[0].history.last_delay_s: must be a number only if completed > 0, got None"),
        (("first_completed",), 1, "gateways[0].history.last_completed: must be in the order"),
        (("selected",), 7, "gateways[0].history.selected: must be at most round = 2, got 7"),
        (("recent", 0, "round"), 9, "gateways[0].history.recent[0].round: must be from 0 to 1, got 9"),
        (("recent", 0, "delay_s"), -1.0, "gateways[0].history.recent[0].delay_s"),
        (("recent", 0, "completed"), "no", "gateways[0].history.recent[0].completed"),
        (("recent",), [], "gateways[0].history.recent: must have an entry for each of the 1 rounds in which the floor"),
        (("speed",), 1, "gateways[0].history.speed"),
    ],
)
def test_a_history_that_contradicts_itself_is_refused(path: tuple[Any, ...], value: object, expected: str) -> None:
    state = made_round([1.0, 2.0], 1, index=2, history=past(2, {0: {"delay": 1.0}}, {1: {"delay": 1.0}}).history)
    table: Any = json.loads(json.dumps(snapshot_of(state, 1.0), default=float))
    place = table["gateways"][0]["history"]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(SnapshotError) as caught:
        parse_snapshot(table, "snapshot")
    assert expected in str(caught.value)


def test_every_gateway_has_a_history_or_none() -> None:
    state = made_round([1.0, 2.0], 1, index=1, history=past(2, {0: {"delay": 1.0}}).history)
    table: Any = json.loads(json.dumps(snapshot_of(state, 1.0), default=float))
    del table["gateways"][1]["history"]
    with pytest.raises(SnapshotError, match=r"gateways\[1\]\.history: is missing, but another gateway has one"):
        parse_snapshot(table, "snapshot")


def test_a_policy_that_needs_a_history_refuses_a_snapshot_without_one(tmp_path: Path) -> None:
    run = tmp_path / "run"
    fedfloor.simulate("quick", "cs_ucb_q", rounds=4, out=run)
    whole = snapshot_file(run, 3, tmp_path / "whole.json")
    answer = fedfloor.plan(whole, "cs_ucb_q")
    assert answer["gateways"] == fedfloor.plan(run, round=3)["gateways"]
    table = json.loads(whole.read_text())
    for gateway in table["gateways"]:
        del gateway["history"]
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps(table))
    with pytest.raises(
        SnapshotError, match=r"bare\.json: gateways\[0\]\.history: is missing, but the policy 'cs_ucb_q'"
    ):
        fedfloor.plan(bare, "cs_ucb_q")
    assert fedfloor.plan(bare, "random")["round"] == 3  # which does not look back
    table["round"] = 0
    bare.write_text(json.dumps(table))
    assert fedfloor.plan(bare, "cs_ucb_q")["round"] == 0  # there is nothing to look back on


def test_only_policies_that_look_back_export_a_history(tmp_path: Path) -> None:
    fedfloor.simulate("quick", "random", rounds=3, out=tmp_path / "run")
    table = json.loads(snapshot_file(tmp_path / "run", 2, tmp_path / "round.json").read_text())
    assert all("history" not in gateway for gateway in table["gateways"])


def snapshot_file(run: Path, index: int, path: Path) -> Path:
    from fedfloor.api import decide_round, plan_round

    decide_round(plan_round(run, index=index), export=path)
    return path
