"""Code that users supply: their settings arrive in the types that they declare."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from fedfloor.errors import AggregationError, PolicyError
from fedfloor.scenario.file import Aggregation
from fedfloor.scheduling.registry import make_policy, parse_policy
from fedfloor.scheduling.state import Decision, RoundState
from fedfloor.training.aggregation.registry import make_rule

HERE = "tests.test_references"


class _Policy:
    def schedule(self, state: RoundState) -> Decision:
        return Decision(np.zeros(1, np.int64))


@dataclass(frozen=True)
class Hungry(_Policy):
    """A policy with settings of every type."""

    link: float = 0.5
    most: int = 3
    strict: bool = False
    label: str = "none"
    limit: float | None = None
    kind: Literal["fast", "fair"] = "fair"
    either: int | float = 1
    free: Any = None


class Plain(_Policy):
    """A policy with arguments in place of fields."""

    def __init__(self, link: float = 0.5, free=None) -> None:  # type: ignore[no-untyped-def]
        self.link, self.free = link, free


class Unknown(_Policy):
    """A policy whose annotations cannot be resolved."""

    def __init__(self, link: "Nowhere" = None) -> None:  # type: ignore[name-defined]  # noqa: F821
        self.link = link


@dataclass(frozen=True)
class Halving:
    """A rule with a setting."""

    share: float = 0.5

    def step(self) -> None:
        """Do nothing; no test calls it."""


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("link=2", 2.0),
        ("link=2.5", 2.5),
        ("link=1e3", 1000.0),
        ("most=2", 2),
        ("strict=true", True),
        ("strict=false", False),
        ("label=fast", "fast"),
        ("label=7", "7"),
        ("label=true", "true"),
        ("limit=3", 3.0),
        ("kind=fast", "fast"),
        ("either=2", 2),
        ("either=2.0", 2.0),
        ("free=2", 2),
    ],
)
def test_a_setting_of_a_policy_arrives_in_its_type(setting: str, expected: object) -> None:
    spec, policy = make_policy(parse_policy(f"{HERE}:Hungry:{setting}"))
    value = getattr(policy, setting.partition("=")[0])
    assert (type(value), value) == (type(expected), expected)
    assert make_policy(parse_policy(str(spec)))[1] == policy


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("link=fast", "link must be a number, got 'fast'"),
        ("link=true", "link must be a number, got True"),
        ("most=2.5", "most must be a whole number, got 2.5"),
        ("strict=1", "strict must be true or false, got 1"),
        ("strict=yes", "strict must be true or false, got 'yes'"),
        ("limit=none", "limit must be a number, got 'none'"),
        ("kind=slow", "kind must be 'fast' or 'fair', got 'slow'"),
        ("either=x", "either must be a whole number or a number, got 'x'"),
    ],
)
def test_a_setting_of_another_type_is_refused(setting: str, expected: str) -> None:
    with pytest.raises(PolicyError) as refused:
        make_policy(parse_policy(f"{HERE}:Hungry:{setting}"))
    assert expected in str(refused.value)


def test_the_name_of_a_policy_keeps_its_settings_as_they_were_given() -> None:
    spec, _ = make_policy(parse_policy(f"{HERE}:Hungry:link=2"))
    assert dict(spec.settings)["link"].__class__ is int  # as in run folders of older versions
    assert str(spec).startswith(f"{HERE}:Hungry:link=2,most=3,strict=false,label=none,")
    spec, policy = make_policy(parse_policy("ddsra:v=10000000000000000"))
    assert str(spec) == "ddsra:v=10000000000000000,solver=exact"
    assert make_policy(spec)[1] == policy


def test_arguments_are_converted_as_fields_are() -> None:
    policy: Any = make_policy(parse_policy(f"{HERE}:Plain:link=2,free=3"))[1]
    assert (type(policy.link), type(policy.free)) == (float, int)
    unknown: Any = make_policy(parse_policy(f"{HERE}:Unknown:link=2"))[1]
    assert unknown.link == 2


def test_settings_of_rules_are_converted_too() -> None:
    rule: Any = make_rule(Aggregation(rule=f"{HERE}:Halving", settings={"share": 1}))
    assert (type(rule.share), rule.share) == (float, 1.0)
    with pytest.raises(
        AggregationError, match=r"plant.toml: aggregation.settings of .* share must be a number, got 'x'"
    ):
        make_rule(Aggregation(rule=f"{HERE}:Halving", settings={"share": "x"}), "plant.toml")


def test_a_wrong_setting_ends_a_command_with_code_2(
    fedfloor_process: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    text = "from dataclasses import dataclass\n@dataclass\nclass Mine:\n    link: float = 1.0\n"
    text += "    def schedule(self, state):\n"
    (tmp_path / "mine.py").write_text(text + "        raise ValueError(type(self.link).__name__)\n")
    wrong = fedfloor_process("simulate", "quick", "--policy", "mine:Mine:link=far")
    assert wrong.returncode == 2
    assert (
        wrong.stderr == "error: policy 'mine:Mine:link=far': link must be a number, got 'far'. See docs/policies.md\n"
    )
    right = fedfloor_process("simulate", "quick", "--policy", "mine:Mine:link=2", "--format", "json")
    assert "ValueError: float" in right.stderr
    assert json.loads(right.stdout or "[]") == []
