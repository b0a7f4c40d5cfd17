"""Policies that keep state on themselves: noticed in the run, refused on resume and when a round is decided again."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.errors import PolicyError, RunLogError
from fedfloor.rounds.listeners.checkpoint import load_checkpoint
from fedfloor.scheduling.state import IDLE, Decision, RoundState

STATEFUL = "tests.runs.test_stateful:Turning"
PURE = "tests.runs.test_stateful:Steady"
TINY = (
    "model.width=0.1",
    "participation.rates=uniform",
    "training.evaluate_every=9",
    "training.checkpoint_every=2",
    "training.batch_fraction=0.02",
)


def serving(floor: int, state: RoundState) -> Decision:
    channel = np.full(state.queue.size, IDLE)
    channel[floor] = 0
    return Decision(channel)


class Turning:
    """Serves the floors in turn, and counts the turns itself."""

    def __init__(self, start: int = 0) -> None:
        self.turn = start - 1

    def schedule(self, state: RoundState) -> Decision:
        self.turn += 1
        return serving(self.turn % state.queue.size, state)


class Seventh(Turning):
    """Serves the first floor, but the second one in every seventh of its own decisions."""

    def schedule(self, state: RoundState) -> Decision:
        self.turn += 1
        return serving(int(self.turn % 7 == 6), state)


class Caching(Turning):
    """Keeps what it has computed, which changes no decision."""

    def schedule(self, state: RoundState) -> Decision:
        self.turn = state.index
        return serving(state.index % state.queue.size, state)


class Planning:
    """Plans its turns in the first round, so that a new object cannot decide a later one."""

    def schedule(self, state: RoundState) -> Decision:
        if state.index == 0:
            self.order = list(range(state.queue.size))
        return serving(self.order[state.index % len(self.order)], state)


class Steady:
    """Serves the floors in turn, by the number of the round."""

    needs_history = True

    def schedule(self, state: RoundState) -> Decision:
        assert state.history is not None
        assert state.history.rounds == state.index
        return serving(state.index % state.queue.size, state)


def run(policy: str, out: Path, rounds: int, **options: Any) -> Any:
    return fedfloor.run("quick", policy, overrides=TINY, out=out, rounds=rounds, workers=1, **options)


def test_a_policy_that_keeps_state_is_named_once_and_not_resumed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        run(STATEFUL, tmp_path / "run", 4)
    (warning,) = [entry.getMessage() for entry in caplog.records if "keeps state" in entry.getMessage()]
    assert "decides round 1 otherwise than a new object of it" in warning
    assert json.loads((tmp_path / "run" / "checkpoint" / "state.json").read_text())["policy_keeps_state"] is True
    before = (tmp_path / "run" / "rounds.jsonl").read_bytes()
    with pytest.raises(RunLogError, match=r"cannot be resumed: its policy .* kept state on itself"):
        run(STATEFUL, tmp_path / "run", 6, resume=True)
    assert (tmp_path / "run" / "rounds.jsonl").read_bytes() == before
    with pytest.raises(PolicyError, match=r"decides round 3 otherwise than .* has logged it: it keeps state on itself"):
        fedfloor.plan(tmp_path / "run", round=3, own=True)
    assert fedfloor.plan(tmp_path / "run", round=0, own=True)["gateways"][0]["channel"] == 0
    assert fedfloor.plan(tmp_path / "run", STATEFUL, round=3)["gateways"][0]["channel"] == 0  # asked for by name
    assert fedfloor.plan(tmp_path / "run", "random", round=3)["policy"] == "random"


def test_a_policy_whose_attributes_change_is_compared_in_every_round(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        run("tests.runs.test_stateful:Seventh", tmp_path / "seventh", 9)
        run("tests.runs.test_stateful:Caching", tmp_path / "caching", 4)
        done = run("tests.runs.test_stateful:Caching", tmp_path / "caching", 6, resume=True)
    (warning,) = [entry.getMessage() for entry in caplog.records if "keeps state" in entry.getMessage()]
    assert "Seventh': decides round 6 otherwise than a new object of it" in warning
    assert done.resumed == 4
    with pytest.raises(RunLogError, match=r"cannot be resumed: its policy .* kept state on itself"):
        run("tests.runs.test_stateful:Seventh", tmp_path / "seventh", 12, resume=True)


class Unweighed:
    """Gives weights to the floor that it serves alone."""

    def schedule(self, state: RoundState) -> Decision:
        decision = serving(0, state)
        return Decision(decision.channel, weight=np.where(decision.selected, 2.0, np.nan))


def test_weights_of_floors_that_are_not_selected_do_not_count(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        fedfloor.simulate("quick", "tests.runs.test_stateful:Unweighed", rounds=3)
    assert not [entry for entry in caplog.records if "keeps state" in entry.getMessage()]


class Weighing:
    """Serves one floor, and gives it a weight."""

    def schedule(self, state: RoundState) -> Decision:
        return Decision(serving(0, state).channel, weight=np.full(state.queue.size, 2.0))


def test_a_round_whose_weights_are_gone_is_not_decided_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("tests.runs.test_stateful:Weighing", tmp_path / "run", 1)
    assert fedfloor.plan(tmp_path / "run", round=0, own=True)["gateways"][0]["weight"] == 2.0
    monkeypatch.setattr(Weighing, "schedule", lambda _, state: serving(0, state))
    with pytest.raises(PolicyError, match=r"decides round 0 otherwise than .* has logged it"):
        fedfloor.plan(tmp_path / "run", round=0, own=True)


def test_a_policy_without_state_is_resumed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        run(PURE, tmp_path / "run", 3)
        done = run(PURE, tmp_path / "run", 5, resume=True)
    assert done.resumed == 3
    assert not [entry for entry in caplog.records if "keeps state" in entry.getMessage()]
    checkpoint = load_checkpoint(tmp_path / "run")
    assert checkpoint is not None
    assert "policy_keeps_state" not in checkpoint.state.values
    assert fedfloor.plan(tmp_path / "run", round=4, own=True)["gateways"][4]["channel"] == 0


def test_a_simulation_names_such_a_policy_too(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        fedfloor.simulate("quick", f"{STATEFUL}:start=2", rounds=5)
    assert sum("keeps state" in entry.getMessage() for entry in caplog.records) == 1


def test_a_policy_whose_new_object_cannot_decide_is_named_and_the_run_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        done = fedfloor.simulate("quick", "tests.runs.test_stateful:Planning", rounds=3)
    assert len(done.records) == 3
    assert sum("keeps state" in entry.getMessage() for entry in caplog.records) == 1


def test_a_round_without_sample_losses_is_not_decided_by_a_policy_that_needs_them(tmp_path: Path) -> None:
    fedfloor.simulate("quick", "round_robin", rounds=3, out=tmp_path / "run")
    with pytest.raises(RunLogError, match=r"rounds.jsonl: has no root mean squares of sample losses.* 'oort' decides"):
        fedfloor.plan(tmp_path / "run", "oort", round=2)
