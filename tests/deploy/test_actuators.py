"""Actuators that need nothing of the machine, and how an actuator is chosen."""

import asyncio
import logging
import math
import os
import time
from dataclasses import astuple
from pathlib import Path

import pytest

from fedfloor.deploy.actuators.cgroup import CgroupActuator
from fedfloor.deploy.actuators.choosing import ACTUATORS, make_actuator
from fedfloor.deploy.actuators.contract import Actuator, Setting, carried_out
from fedfloor.deploy.actuators.cpufreq import CpufreqActuator
from fedfloor.deploy.actuators.log import LogActuator
from fedfloor.deploy.actuators.pace import PaceActuator, Pacing
from fedfloor.errors import DeploymentError
from tests.conftest import known

SETTING = Setting(frequency=1.5e9, share=0.5, power=0.2, steps=(0.25, 0.25))


class OwnActuator:
    """An actuator as a user writes it."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def problem(self) -> str | None:
        return None

    def begin(self, setting: Setting) -> None:
        self.calls.append(setting)

    async def step(self, seconds: float, *, began: float | None = None) -> None:
        self.calls.append(seconds)

    def end(self) -> None:
        self.calls.append("end")


class UnusableActuator(OwnActuator):
    def problem(self) -> str | None:
        return "the fan is not connected. Connect it"


class BrokenActuator(OwnActuator):
    def __init__(self) -> None:
        raise RuntimeError("no hardware")


class AskedInVainActuator(OwnActuator):
    def problem(self) -> str | None:
        raise RuntimeError("who knows")


class SynchronousActuator(OwnActuator):
    def step(self, seconds: float, *, began: float | None = None) -> None:  # type: ignore[override]
        pass


class Endless:
    def problem(self) -> None: ...
    def begin(self, setting: Setting) -> None: ...
    async def step(self, seconds: float) -> None: ...


def paced(steps: list[tuple[float, float]], waits: float = 0.0) -> tuple[PaceActuator, float]:
    """Pace steps that compute for so long and are modelled for so long; returns the seconds of the whole round too."""

    async def work() -> None:
        for computes, modelled in steps:
            time.sleep(waits)
            began = time.monotonic()
            time.sleep(computes)
            await actuator.step(modelled, began=began if waits else None)

    actuator, begin = PaceActuator(), time.monotonic()
    with carried_out(actuator, SETTING):
        asyncio.run(work())
    return actuator, time.monotonic() - begin


def test_a_round_never_ends_before_its_modelled_end() -> None:
    actuator, seconds = paced([(0.001, 0.01)] * 20)
    assert seconds >= 20 * 0.01
    assert known(actuator.pacing).steps == 20
    assert known(actuator.pacing).behind >= 0.0


class Clock:
    """Replaces the clock and the timer, which is always late."""

    late = 0.0015

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(asyncio, "sleep", self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds + self.late

    def step(self, actuator: Actuator, *, waits: float, computes: float, modelled: float) -> None:
        """Wait for others, compute, and let the actuator wait."""
        began = self.now + waits
        self.now = began + computes
        with pytest.raises(StopIteration):  # nothing in it waits but for this clock
            actuator.step(modelled, began=began).send(None)


def assert_pacing(actuator: PaceActuator, expected: Pacing) -> None:
    assert astuple(known(actuator.pacing)) == pytest.approx(astuple(expected))


def test_errors_of_single_steps_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, actuator = Clock(monkeypatch), PaceActuator()
    with carried_out(actuator, SETTING):
        for _ in range(1000):
            clock.step(actuator, waits=0.01, computes=0.003, modelled=0.02)
    assert clock.now - 100.0 == pytest.approx(1000 * (0.01 + 0.02) + Clock.late)
    assert_pacing(actuator, Pacing(steps=1000, longer=0, excess=0.0, behind=Clock.late))


def test_a_step_that_takes_longer_is_counted_and_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, actuator = Clock(monkeypatch), PaceActuator()
    with carried_out(actuator, SETTING):
        for computes in (0.001, 0.06, *[0.001] * 8):
            clock.step(actuator, waits=0.01, computes=computes, modelled=0.02)
    assert clock.now - 100.0 == pytest.approx(
        10 * (0.01 + 0.02) + Clock.late
    )  # 40 ms more in one step, not in the round
    assert_pacing(actuator, Pacing(steps=10, longer=1, excess=0.04, behind=Clock.late))


def test_a_round_that_cannot_keep_up_says_how_far_it_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, actuator = Clock(monkeypatch), PaceActuator()
    with carried_out(actuator, SETTING):
        for _ in range(10):
            clock.step(actuator, waits=0.0, computes=0.05, modelled=0.02)
    assert_pacing(actuator, Pacing(steps=10, longer=10, excess=0.03, behind=0.3))


def test_waiting_for_others_is_no_computing() -> None:
    actuator, seconds = paced([(0.0, 0.02)] * 5, waits=0.03)
    assert seconds >= 5 * (0.02 + 0.03)
    assert known(actuator.pacing).steps == 5


def test_pacing_says_afterwards_how_often_computing_took_longer(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        paced([(0.01, 0.0)] * 3)
        paced([(0.0, 5e-4)])
    assert "Computing took longer than modelled in 3 of 3 steps, by up to 0." in caplog.records[0].message
    assert caplog.records[0].levelname == "WARNING"


def test_the_log_says_in_one_line_what_was_decided(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), carried_out(make_actuator("log"), SETTING):
        pass
    (line,) = caplog.records
    assert line.message == "Decided: 1.5 GHz, 50 % of the maximum, transmit power 200 mW, 2 steps in 0.5 s."


@pytest.mark.parametrize("name", ACTUATORS)
def test_every_actuator_ends_without_a_beginning(name: str, tmp_path: Path) -> None:
    actuators: dict[str, Actuator] = {
        "log": LogActuator(),
        "pace": PaceActuator(),
        "cgroup": CgroupActuator(lambda: (os.getpid(),), root=tmp_path),
        "cpufreq": CpufreqActuator(root=tmp_path),
    }
    actuators[name].end()
    assert list(tmp_path.iterdir()) == []  # it has written nothing either


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"frequency": -1.0}, "frequency: must be at least 0 and finite, got -1"),
        ({"frequency": math.nan}, "frequency: .* got nan"),
        ({"frequency": math.inf}, "frequency: .* got inf"),
        ({"share": 1.5}, "share: must be at least 0 and at most 1, got 1.5"),
        ({"power": -0.1}, "power: .* got -0.1"),
        ({"steps": (1.0, math.inf)}, r"steps\[1\]: .* got inf"),
    ],
)
def test_a_decision_that_no_machine_can_carry_out_is_refused(changed: dict[str, float], problem: str) -> None:
    with pytest.raises(DeploymentError, match=f"decision: {problem}"):
        Setting(**{"frequency": 1e9, "share": 0.5, **changed})  # type: ignore[arg-type]


def test_an_actuator_ends_also_after_an_error() -> None:
    actuator = OwnActuator()
    with pytest.raises(ZeroDivisionError), carried_out(actuator, SETTING):
        raise ZeroDivisionError
    assert actuator.calls == [SETTING, "end"]


def test_your_own_actuator_is_named_by_its_class() -> None:
    actuator = make_actuator("tests.deploy.test_actuators:OwnActuator")
    assert isinstance(actuator, OwnActuator)
    with carried_out(actuator, SETTING):
        asyncio.run(actuator.step(0.25))
    assert actuator.calls == [SETTING, 0.25, "end"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("pase", "unknown. Did you mean 'pace'"),
        ("", "unknown"),
        ("log:1", "unknown"),
        ("cgroup:", "must name a group by its whole path"),
        ("cgroup:factory", "must name a group by its whole path"),
        ("nowhere:Actuator", "cannot import 'nowhere'"),
        ("tests.deploy.test_actuators:OwnActuater", "has no 'OwnActuater'. Did you mean 'OwnActuator'"),
        ("tests.deploy.test_actuators:SETTING", "is a Setting, not a class"),
        ("tests.deploy.test_actuators:Endless", r"has no method end\(\)"),
        ("tests.deploy.test_actuators:SynchronousActuator", r"step\(\) must be written with `async def`"),
        ("tests.deploy.test_actuators:BrokenActuator", "creating it failed: RuntimeError: no hardware"),
        ("tests.deploy.test_actuators:UnusableActuator", "the fan is not connected. Connect it"),
        ("tests.deploy.test_actuators:AskedInVainActuator", r"its problem\(\) failed: RuntimeError: who knows"),
    ],
)
def test_an_actuator_that_cannot_work_is_refused_at_the_start(name: str, problem: str) -> None:
    with pytest.raises(DeploymentError, match=f"--actuator '{name}': .*{problem}"):
        make_actuator(name)


@pytest.mark.parametrize("name", ["cgroup", "cpufreq", "cgroup:/sys/fs/cgroup/factory"])
def test_a_machine_without_the_trees_is_told_what_to_do(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        DeploymentError, match=f"--actuator '{name}': .*(no control group|no cpufreq|no such)"
    ) as caught:
        make_actuator(name, root=tmp_path)
    assert "hoose another actuator" in str(caught.value)


def test_every_name_is_known() -> None:
    assert list(ACTUATORS) == ["log", "pace", "cgroup", "cpufreq"]


def test_the_example_of_the_documentation_is_an_actuator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs/machines.md").read_text()
    (tmp_path / "documented_fan.py").write_text(page.split("```python\n")[1].split("```")[0])
    monkeypatch.syspath_prepend(tmp_path)
    actuator = make_actuator("documented_fan:Fan")
    with carried_out(actuator, Setting(1e9, 0.9)):
        assert actuator.is_on  # type: ignore[attr-defined]
    assert not actuator.is_on  # type: ignore[attr-defined]
