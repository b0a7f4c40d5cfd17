"""What the testbed refuses before it starts anything, and how it chooses a network."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from testbed.__main__ import main
from testbed.control import CONTROL, Control, TestbedRadio
from testbed.layout import Layout, layout_of
from testbed.proxy import Proxy
from testbed.running import Request, _network
from testbed.shaping import Rates
from testbed.sweeper import Sweeper

from fedfloor.deploy.radio import RadioSetting, make_radio
from fedfloor.errors import DeploymentError
from fedfloor.runs.planned import planned_run

OWN = str(Path(__file__).parents[2] / "testbed" / "floors.toml")


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 2
    return capsys.readouterr().err


@pytest.fixture(autouse=True)
def signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command sets handlers, which the tests must not keep."""
    monkeypatch.setattr("testbed.__main__.signal.signal", lambda *_: None)


def test_what_cannot_be_run_is_refused_in_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = ("--out", str(tmp_path / "out"))
    assert "training.min_cut: must be >= 1 on real machines" in refused(capsys, "quick", *out)
    deployable = ("--set", "training.min_cut=1", "--set", "participation.rates=uniform")
    many = refused(capsys, "factory", *deployable, *out)
    assert "has 221 machines, and the testbed runs at most 100" in many
    assert "deploy.gains: must be 'weather'" in refused(capsys, OWN, "--set", "deploy.gains=measured", *out)
    assert "is given twice" in refused(capsys, OWN, "--policy", "random", "--policy", "random", *out)
    assert "is there already" in refused(capsys, OWN, "--out", str(tmp_path))
    assert not (tmp_path / "out").exists()


def test_namespaces_need_root_and_the_tools(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: f"/usr/sbin/{program}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "only root can make network namespaces. Run as root, or use --proxy" in refused(
        capsys, OWN, "--namespaces", "--out", "not-made"
    )
    monkeypatch.setattr(shutil, "which", lambda program: None if program == "tc" else program)
    assert "the program tc is missing" in refused(capsys, OWN, "--namespaces", "--out", "not-made")


def test_without_root_a_proxy_is_chosen_and_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: f"/usr/sbin/{program}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    network = _network(Request(scenario=OWN, out=Path("not-made")), Layout((), ()), Sweeper())
    assert isinstance(network, Proxy)
    assert "The network is shaped by a proxy, because only root can" in capsys.readouterr().err


def test_the_layout_has_the_rates_of_the_links() -> None:
    layout = layout_of(planned_run(OWN, training=True).scenario, OWN)
    assert layout.floors == ("hall-1", "hall-2", "hall-3")
    assert [device.floor for device in layout.devices] == [0, 0, 1, 1, 2, 2]
    assert {device.rates for device in layout.devices} == {Rates(20e6, 20e6)}  # two devices share 40 Mbit/s


class Recorder(Proxy):
    """Notes how it is shaped."""

    def __init__(self, note: Callable[[str, Rates], None]) -> None:
        super().__init__(Layout(("press",), ()))
        self._note = note

    def set_backhaul(self, floor: str, rates: Rates) -> None:
        self._note(floor, rates)


def test_the_radio_shapes_the_floors_before_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shaped: dict[str, Rates] = {}
    with Control(tmp_path / "control", Recorder(shaped.__setitem__)) as control:
        monkeypatch.setenv(CONTROL, str(control.path))
        make_radio("testbed.control:TestbedRadio").begin([RadioSetting("press", 1, 0.2, 4e6, 3e6)])
        assert shaped == {"press": Rates(4e6, 3e6)}


def test_the_radio_fails_if_the_network_cannot_be_shaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise DeploymentError("tc: it does not work")

    with Control(tmp_path / "control", Recorder(fail)) as control:
        monkeypatch.setenv(CONTROL, str(control.path))
        with pytest.raises(RuntimeError, match="could not shape the network: tc: it does not work"):
            TestbedRadio().begin([RadioSetting("press", 1, 0.2, 4e6, 3e6)])


def test_the_radio_works_inside_the_testbed_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CONTROL, raising=False)
    with pytest.raises(DeploymentError, match="works only inside the testbed"):
        make_radio("testbed.control:TestbedRadio")
