"""The clock frequency, on a fake tree: virtual machines have no such files."""

import json
import os
from pathlib import Path

import pytest

from fedfloor.deploy.actuators.choosing import make_actuator
from fedfloor.deploy.actuators.contract import Setting, carried_out
from fedfloor.deploy.actuators.cpufreq import CpufreqActuator
from fedfloor.errors import DeploymentError, FailedRunError
from tests.runs.test_machine import put

CPUS = "sys/devices/system/cpu"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Four cores of which pairs share a frequency, from 0.6 to 1.8 GHz."""
    (tmp_path / "run").mkdir()
    for policy in (0, 2):
        for name, value in {
            "scaling_governor": "ondemand", "scaling_max_freq": 1_800_000, "scaling_min_freq": 600_000,
            "cpuinfo_min_freq": 600_000, "cpuinfo_max_freq": 1_800_000, "scaling_setspeed": "<unsupported>",
        }.items():  # fmt: skip
            put(tmp_path, f"{CPUS}/cpufreq/policy{policy}/{name}", f"{value}\n")
    for core in range(4):
        (tmp_path / CPUS / f"cpu{core}").mkdir()
        (tmp_path / CPUS / f"cpu{core}/cpufreq").symlink_to(f"../cpufreq/policy{core // 2 * 2}")
    return tmp_path


def values(root: Path, name: str = "scaling_max_freq") -> list[str]:
    return [(root / CPUS / f"cpufreq/policy{policy}" / name).read_text().strip() for policy in (0, 2)]


def test_the_limit_is_set_for_a_round_and_restored(root: Path) -> None:
    put(root, f"{CPUS}/cpufreq/policy2/scaling_max_freq", "1500000\n")
    actuator = make_actuator("cpufreq", root=root)
    for _ in range(2):
        with carried_out(actuator, Setting(1.2e9, 0.6)):
            assert values(root) == ["1200000", "1200000"]
        assert values(root) == ["1800000", "1500000"]
        with pytest.raises(ZeroDivisionError), carried_out(actuator, Setting(1.2e9, 0.6)):
            raise ZeroDivisionError
        assert values(root) == ["1800000", "1500000"]
    assert list((root / "run").iterdir()) == []


def test_a_governor_that_leaves_it_to_programs_is_given_the_speed(root: Path) -> None:
    for policy in (0, 2):
        put(root, f"{CPUS}/cpufreq/policy{policy}/scaling_governor", "userspace\n")
        put(root, f"{CPUS}/cpufreq/policy{policy}/scaling_setspeed", "900000\n")
    with carried_out(CpufreqActuator(root=root), Setting(1.2e9, 0.6)):
        assert values(root, "scaling_setspeed") == ["1200000", "1200000"]
        assert values(root) == ["1800000", "1800000"]
    assert values(root, "scaling_setspeed") == ["900000", "900000"]


@pytest.mark.parametrize(("frequency", "kilohertz"), [(0.0, "600000"), (0.1e9, "600000"), (9e9, "1800000")])
def test_a_frequency_that_the_processor_does_not_have_becomes_the_nearest_and_is_reported_once(
    root: Path, frequency: float, kilohertz: str, caplog: pytest.LogCaptureFixture
) -> None:
    actuator = CpufreqActuator(root=root)
    for _ in range(2):
        with carried_out(actuator, Setting(frequency, 1.0)):
            assert values(root) == [kilohertz, kilohertz]
    (warning,) = caplog.records
    assert "the processor goes from 0.6 to 1.8 GHz" in warning.message


def test_the_next_process_restores_what_a_killed_one_left(root: Path) -> None:
    CpufreqActuator(root=root).begin(Setting(0.7e9, 0.4))
    kept = root / "run/fedfloor-cpufreq.json"
    content = json.loads(kept.read_text())
    assert content["process"] == os.getpid()
    kept.write_text(json.dumps({**content, "process": 4_000_000}))  # which is not alive
    with carried_out(make_actuator("cpufreq", root=root), Setting(1.2e9, 0.6)):
        assert values(root) == ["1200000", "1200000"]
    assert values(root) == ["1800000", "1800000"]


def test_two_processes_cannot_set_the_frequency_of_one_machine(root: Path) -> None:
    put(root, "proc/77/stat", "")
    put(root, "run/fedfloor-cpufreq.json", '{"process": 77, "before": {}}')
    with pytest.raises(DeploymentError, match=r"process 77 sets the frequency of this machine\. End it first"):
        make_actuator("cpufreq", root=root)
    with pytest.raises(FailedRunError, match="process 77"):
        CpufreqActuator(root=root).begin(Setting(1e9, 0.5))
    assert values(root) == ["1800000", "1800000"]


@pytest.mark.parametrize("content", ["", "[]", '{"process": "x"}', '{"process": 5, "before": 3}', "[" * 10**5])
def test_a_kept_file_that_is_damaged_changes_nothing_else(root: Path, content: str) -> None:
    put(root, "run/fedfloor-cpufreq.json", content)
    with carried_out(CpufreqActuator(root=root), Setting(1.2e9, 0.6)):
        pass
    assert values(root) == ["1800000", "1800000"]


def test_a_kept_file_leads_to_no_other_file(root: Path) -> None:
    put(root, "secret", "as it was")
    put(
        root, "run/fedfloor-cpufreq.json", json.dumps({"process": 4_000_000, "before": {str(root / "secret"): "other"}})
    )
    with carried_out(CpufreqActuator(root=root), Setting(1.2e9, 0.6)):
        pass
    assert (root / "secret").read_text() == "as it was"


def test_a_tree_that_breaks_in_a_round_is_a_failure_that_restores_the_rest(root: Path) -> None:
    put(root, f"{CPUS}/cpufreq/policy2/cpuinfo_max_freq", "fast\n")
    with pytest.raises(FailedRunError, match="the frequency cannot be set: invalid literal"):
        CpufreqActuator(root=root).begin(Setting(1.2e9, 0.6))
    assert values(root) == ["1800000", "1800000"]
    (root / CPUS / "cpufreq/policy2/cpuinfo_max_freq").unlink()
    with pytest.raises(FailedRunError, match="cpuinfo_max_freq: No such file"):
        CpufreqActuator(root=root).begin(Setting(1.2e9, 0.6))
    assert values(root) == ["1800000", "1800000"]


def test_a_governor_that_changes_in_a_round_keeps_nothing_from_being_restored(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    actuator = CpufreqActuator(root=root)
    actuator.begin(Setting(1.2e9, 0.6))
    for policy in (0, 2):
        put(root, f"{CPUS}/cpufreq/policy{policy}/scaling_governor", "userspace\n")
    (root / CPUS / "cpufreq/policy0/scaling_max_freq").unlink()
    actuator.end()
    assert (root / CPUS / "cpufreq/policy2/scaling_max_freq").read_text() == "1800000\n"
    (warning,) = caplog.records
    assert "policy0/scaling_max_freq: No such file" in warning.message
    assert (root / "run/fedfloor-cpufreq.json").exists()
