"""A radio of the user's own is set before the orders of a round are sent, and told of its end."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fedfloor.deploy.radio import RadioSetting, make_radio, tuned
from fedfloor.deploy.station import Station, StationOptions
from fedfloor.deploy.tasks import floor_tasks
from fedfloor.errors import DeploymentError, FailedRunError
from fedfloor.rounds.plants.backhaul import FloorOrder, Parts
from fedfloor.runs.planned import planned_run
from tests.deploy.plants import OVERRIDES

SETTING = RadioSetting("press", 1, 0.2, 4e6, 3e6)


class Recorder:
    """Notes what it is told; a method that is named fails."""

    def __init__(self, failing: str = "") -> None:
        self.calls: list[object] = []
        self._failing = failing

    def problem(self) -> str | None:
        return None

    def begin(self, settings: Sequence[RadioSetting]) -> None:
        self.calls.append(list(settings))
        self._fail("begin")

    def end(self) -> None:
        self.calls.append("end")
        self._fail("end")

    def _fail(self, method: str) -> None:
        if method == self._failing:
            raise OSError("the antenna has fallen down")


def test_a_station_sets_its_radio_and_ends_the_round_after_the_last_reply() -> None:
    scenario = planned_run("quick", "random", 1, overrides=OVERRIDES, training=True).scenario
    tasks, radio = floor_tasks(scenario), Recorder()
    count = len(tasks[1].devices)
    order = FloorOrder(1, 0, 0.1, np.full(count, 1), np.full(count, 1e9), Parts(0.1, 1.0, 0.1), 5e6, 6e6, 1.0)
    with Station(tasks, StationOptions("127.0.0.1:0", None, 0.1, radio)) as station:
        for reply in station.carry_out(0, [order], np.zeros(10, np.float32)):
            assert reply.reason == "it is not connected"
            assert radio.calls == [[RadioSetting(tasks[1].floor, 0, 0.1, 5e6, 6e6)]]
    assert radio.calls[1:] == ["end"]


def test_a_radio_is_told_of_the_end_also_after_an_error() -> None:
    radio = Recorder()
    with pytest.raises(ValueError, match="something else"), tuned(radio, [SETTING]):
        raise ValueError("something else")
    assert radio.calls == [[SETTING], "end"]


@pytest.mark.parametrize("method", ["begin", "end"])
def test_a_radio_that_fails_ends_the_run_with_its_reason(method: str) -> None:
    problem = rf"--radio: its {method}\(\) failed: OSError: the antenna has fallen down .*resume the run"
    with pytest.raises(FailedRunError, match=problem), tuned(Recorder(method), [SETTING]):
        assert method == "end", "no order is sent over a radio that is not set"


def test_without_a_radio_nothing_happens() -> None:
    with tuned(None, [SETTING]):
        pass


def test_a_radio_that_cannot_work_is_refused_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "class Half:\n    def problem(self): return None\n    def end(self): pass",
        "class Broken(Half):\n    def begin(self, settings): pass\n    def problem(self): return 'no aerial. Mount it'",
        "class Wild(Broken):\n    def problem(self): raise KeyError('antenna')",
    ]
    (tmp_path / "aerials.py").write_text("\n\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    for name, problem in (
        ("aerials:Half", r"has no method begin\(\)"),
        ("aerials:Broken", "no aerial. Mount it"),
        ("aerials:Wild", r"its problem\(\) failed: KeyError"),
        ("aerials:lines", "'aerials' has no 'lines'"),
        ("aerials", "must be package.module:name"),
    ):
        with pytest.raises(DeploymentError, match=f"--radio '{name}': {problem}"):
            make_radio(name)
    del sys.modules["aerials"]
