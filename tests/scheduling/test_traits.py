"""What policies tell about themselves, and that nobody imports the code of a policy to read its name in a log."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
from fedfloor.errors import PolicyError, SettingError
from fedfloor.rounds.plants.simulated import SimulatedPlant, simulated_rates
from fedfloor.scheduling.objects import name_policy
from fedfloor.scheduling.policies.ddsra import Ddsra
from fedfloor.scheduling.policies.loss_driven import LossDriven
from fedfloor.scheduling.registry import (
    PolicySpec,
    make_policy,
    parse_policy,
    policy_summaries,
    solver_of,
    tradeoff_of_spec,
    with_settings,
)
from fedfloor.scheduling.solver import solve
from fedfloor.scheduling.state import IDLE, Decision, RoundState, Scheduler
from fedfloor.scheduling.traits import (
    PolicyKind,
    first_delay,
    is_optimal,
    kind_of,
    needs_history,
    needs_sample_losses,
    needs_training,
    solution_of,
    tradeoff_of,
)
from fedfloor.training.aggregation.rules.fedyogi import FedYogi


class Bare:
    """A policy that decides, and tells nothing about itself."""

    def schedule(self, state: RoundState) -> Decision:
        return Decision(np.full(state.queue.size, IDLE))


@dataclass(frozen=True)
class Telling:
    """A policy of somebody else that tells everything."""

    weight: float = 2.0
    method: str = "quick"
    tradeoff_setting = "weight"
    solver_setting = "method"
    needs_training = True
    is_optimal = True

    @property
    def tradeoff(self) -> float:
        return self.weight

    def schedule(self, state: RoundState) -> Decision:
        return Decision(np.full(state.queue.size, IDLE))

    def solution(self, state: RoundState) -> Any:
        return Ddsra(v=self.weight).solution(state)

    def first_delay(self) -> str:
        return "a large table is read"


@pytest.fixture(scope="module")
def state() -> RoundState:
    scenario = fedfloor.load("quick")
    return SimulatedPlant(scenario, simulated_rates(scenario)).observe()


@pytest.mark.parametrize(
    ("policy", "learns", "tradeoff", "optimal"),
    [
        (Ddsra(), False, 1000.0, True),
        (Ddsra(v=0), False, 0.0, True),
        (Ddsra(v=7.5, solver="paper"), False, 7.5, False),
        (LossDriven(), True, None, False),
        (Bare(), False, None, False),
        (Telling(), True, 2.0, True),
    ],
    ids=lambda part: repr(part) if isinstance(part, Ddsra) else type(part).__name__,
)
def test_a_policy_tells_what_it_needs_weighs_and_proves(
    policy: Scheduler, learns: bool, tradeoff: float | None, optimal: bool
) -> None:
    assert (needs_training(policy), tradeoff_of(policy), is_optimal(policy)) == (learns, tradeoff, optimal)


def test_only_a_policy_that_solves_explains_its_decision(state: RoundState) -> None:
    solution = solution_of(Ddsra(v=1.0), state)
    assert solution is not None
    assert solution.gap == 0.0
    assert np.array_equal(solution.decision.channel, Ddsra(v=1.0).schedule(state).channel)
    left_out = solution.decision.channel == IDLE
    assert [reason is not None for reason in solution.reasons] == left_out.tolist()
    assert solution_of(LossDriven(), state) is None
    assert solution_of(Bare(), state) is None
    assert solution_of(Telling(weight=1.0), state) is not None


def test_a_solution_that_is_something_else_does_not_count(state: RoundState) -> None:
    class Odd(Bare):
        solution = "42"

    class Other(Bare):
        def solution(self, state: RoundState) -> str:
            return "42"

    assert solution_of(Odd(), state) is None
    assert solution_of(Other(), state) is None


class Failing(Bare):
    """A policy whose attributes raise, all but its method `schedule`."""

    def __init__(self, setting: int = 1) -> None:
        self._setting = setting

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise KeyError(name)


@pytest.mark.parametrize(
    "told", [needs_training, needs_history, needs_sample_losses, tradeoff_of, is_optimal, first_delay]
)
def test_an_attribute_that_raises_names_its_line(told: Callable[[Scheduler], object]) -> None:
    problem = r"^policy Failing: \w+ cannot be used: KeyError: .*test_traits\.py, line \d+\)$"
    with pytest.raises(PolicyError, match=problem):
        told(Failing())


def test_attributes_of_other_types_than_described_are_refused(state: RoundState) -> None:
    class Odd(Bare):
        tradeoff = "much"
        needs_training = np.zeros(2)

        def solution(self, state: RoundState) -> str:
            raise ValueError("no idea")

    with pytest.raises(PolicyError, match=r"policy Odd: tradeoff cannot be used: ValueError: .*'much'"):
        tradeoff_of(Odd())
    with pytest.raises(PolicyError, match=r"policy Odd: needs_training cannot be used: ValueError"):
        needs_training(Odd())
    with pytest.raises(PolicyError, match=r"policy Odd: solution cannot be used: ValueError: no idea"):
        solution_of(Odd(), state)


def test_a_setting_that_raises_names_its_line() -> None:
    with pytest.raises(PolicyError, match=r"policy Failing: its settings cannot be read: KeyError: 'setting'"):
        name_policy(Failing())


@pytest.mark.parametrize("value", [None, [1], {}, np.ones(2), 3], ids=type)
def test_a_setting_that_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(SettingError, match=r"solver must be exact or paper, got "):
        Ddsra(solver=value)
    with pytest.raises(SettingError, match=r"allocation must be fixed, exact, one_cut or dtfl, got "):
        LossDriven(allocation=value)
    with pytest.raises(SettingError, match=r"second_moment must be yogi, adam or adagrad, got "):
        FedYogi(second_moment=value)


def test_ddsra_warns_of_its_compiler_until_a_process_has_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    for compiled, expected in ((False, "the solver is compiled once, which takes a minute or more"), (True, "")):
        monkeypatch.setattr(solve, "is_compiled", lambda _, answer=compiled: answer)
        assert first_delay(Ddsra()) == expected
        assert first_delay(Ddsra(solver="paper")) == expected


def test_policies_that_tell_of_no_delay_have_none() -> None:
    assert [first_delay(policy) for policy in (LossDriven(), Bare())] == ["", ""]
    assert first_delay(Telling()) == "a large table is read"


def test_a_class_tells_which_settings_hold_v_and_the_solver() -> None:
    assert kind_of(Ddsra) == PolicyKind("v", "solver")
    assert kind_of(LossDriven) == kind_of(Bare) == PolicyKind(None, None)
    assert kind_of(Telling) == PolicyKind("weight", "method")


def test_v_and_solver_are_filled_in_by_their_settings_names() -> None:
    own = PolicySpec("tests.scheduling.test_traits:Telling")
    assert str(with_settings(own, tradeoff=5.0, solver="slow")).endswith(":Telling:weight=5,method=slow")
    assert str(with_settings(parse_policy("ddsra:v=1"), tradeoff=5.0, solver=None)) == "ddsra:v=1"
    assert with_settings(parse_policy("random"), tradeoff=5.0, solver=None) == PolicySpec("random")
    with pytest.raises(PolicyError, match="solver exact: the policy 'random' has no solver to choose"):
        with_settings(parse_policy("random"), tradeoff=5.0, solver="exact")


@pytest.mark.parametrize(
    ("text", "tradeoff", "solver"),
    [
        ("ddsra:v=2,solver=paper", 2.0, "paper"),
        ("ddsra:v=0", 0.0, None),
        ("ddsra", None, None),
        ("loss_driven", None, None),
        ("random", None, None),
    ],
)
def test_the_name_of_a_policy_gives_its_v_and_its_solver(text: str, tradeoff: float | None, solver: str | None) -> None:
    spec = parse_policy(text)
    assert (tradeoff_of_spec(spec), solver_of(spec)) == (tradeoff, solver)


def test_reading_the_name_of_a_policy_in_a_log_imports_nothing_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "somebodys_policy.py").write_text("raise SystemExit('code of a log was run')\n")
    monkeypatch.syspath_prepend(tmp_path)
    spec = parse_policy("somebodys_policy:Theirs:v=3,solver=exact")
    assert (tradeoff_of_spec(spec), solver_of(spec)) == (None, None)
    assert "somebodys_policy" not in sys.modules
    with pytest.raises(PolicyError, match="code of a log was run"):  # to decide with it, it has to be imported
        make_policy(spec)


@pytest.mark.parametrize("name", policy_summaries())
def test_built_in_policies_say_what_they_need(name: str) -> None:
    policy = make_policy(parse_policy(name))[1]
    assert needs_training(policy) == (name in ("ddsra_loss", "loss_driven", "oort", "power_of_choice", "tifl"))
    assert needs_sample_losses(policy) == (name == "oort")
    assert needs_history(policy) == (name in ("cs_ucb_q", "loss_driven", "lyapunov", "oort", "power_of_choice", "tifl"))
