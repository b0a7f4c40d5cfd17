"""Planned runs: policies named without V have that of the scenario, and wrong settings are blamed by name."""

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import fedfloor
from fedfloor.api import plan_runs
from fedfloor.errors import AggregationError, FedfloorError, PolicyError, ScenarioError
from fedfloor.runs.planned import PlannedRun, as_begun, planned_run


def planned(policy: str | None, *overrides: str) -> PlannedRun:
    return planned_run("quick", policy, 3, overrides=overrides)


@pytest.mark.parametrize(
    ("policy", "overrides", "expected", "remark"),
    [
        (None, (), "ddsra:v=1,solver=exact", ""),
        ("ddsra", (), "ddsra:v=1,solver=exact", "ddsra: V is 1, as in the scenario"),
        ("ddsra:solver=paper", (), "ddsra:v=1,solver=paper", "ddsra:solver=paper: V is 1, as in the scenario"),
        ("ddsra:v=5", (), "ddsra:v=5,solver=exact", ""),
        ("ddsra", ("policy.settings={v=0.25}",), "ddsra:v=0.25,solver=exact", "ddsra: V is 0.25, as in the scenario"),
        ("ddsra", ("policy.settings={}",), "ddsra:v=1000,solver=exact", ""),
        ("ddsra", ("policy.name=random", "policy.settings={}"), "ddsra:v=1000,solver=exact", ""),
        ("random", (), "random", ""),
    ],
)
def test_ddsra_without_v_has_that_of_the_scenario(
    policy: str | None, overrides: Sequence[str], expected: str, remark: str
) -> None:
    run = planned(policy, *overrides)
    assert (str(run.policy), run.remark) == (expected, remark)
    assert run.file.policy == run.scenario.policy
    assert dict(run.policy.settings) == run.file.policy.settings


def test_a_wrong_setting_is_quoted_as_it_was_given() -> None:
    with pytest.raises(PolicyError, match=r"^policy 'ddsra:vv=1': unknown setting 'vv'"):
        planned("ddsra:vv=1")


def older_run(folder: Path) -> Path:
    """A run as older versions began it under `--policy ddsra`."""
    fedfloor.simulate("quick", "ddsra:v=1000", rounds=1, out=folder)
    return folder


def test_a_run_that_an_older_version_began_is_found_and_resumed(tmp_path: Path) -> None:
    older_run(tmp_path / "quick-ddsra-v1000-exact-7")
    policies = ["ddsra", "random"]  # several, so that folders are named
    first, _ = plan_runs("quick", policies, out=tmp_path, training=True, resume=True)
    assert (str(first.policy), first.folder) == ("ddsra:v=1000,solver=exact", tmp_path / "quick-ddsra-v1000-exact-7")
    assert first.remark == "ddsra: V is 1000, as when the run began"
    first, _ = plan_runs("quick", policies, out=tmp_path, training=True)  # a new run
    assert first.folder == tmp_path / "quick-ddsra-v1-exact-7"
    fedfloor.simulate("quick", "ddsra", rounds=1, out=first.folder)
    first, _ = plan_runs("quick", policies, out=tmp_path, training=True, resume=True)
    assert str(first.policy) == "ddsra:v=1,solver=exact"


def test_a_named_folder_says_which_v_its_run_has(tmp_path: Path) -> None:
    folder = older_run(tmp_path / "run")
    (run,) = plan_runs("quick", ["ddsra"], out=folder, training=True, resume=True)
    assert str(run.policy) == "ddsra:v=1000,solver=exact"
    assert str(as_begun(planned("ddsra"), folder).policy) == "ddsra:v=1000,solver=exact"
    assert str(as_begun(planned("ddsra:v=5"), folder).policy) == "ddsra:v=5,solver=exact"
    assert str(as_begun(planned("ddsra"), tmp_path / "missing").policy) == "ddsra:v=1,solver=exact"
    (folder / "scenario.toml").write_text("damaged")
    assert str(as_begun(planned("ddsra"), folder).policy) == "ddsra:v=1,solver=exact"


def test_python_takes_the_v_of_the_scenario_too() -> None:
    run = fedfloor.simulate("quick", policy="ddsra", rounds=1)
    assert (str(run.policy), run.records[0].policy) == ("ddsra:v=1,solver=exact", "ddsra:v=1,solver=exact")


@pytest.mark.slow
def test_a_command_says_which_v_it_took(
    fedfloor_command: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    arguments = ("simulate", "quick", "--policy", "ddsra", "--rounds", "1", "--format", "json")
    done = fedfloor_command(*arguments)
    assert "ddsra: V is 1, as in the scenario" in done.stderr.splitlines()
    assert json.loads(done.stdout)[0]["folder"] == "runs/quick-ddsra-v1-exact-7"
    assert (tmp_path / "runs" / "quick-ddsra-v1-exact-7").is_dir()
    assert fedfloor_command(*arguments, "--quiet", "--out", "other").stderr == ""


@pytest.mark.parametrize(
    ("override", "kind", "problem"),
    [
        ("radio.channels=0", ScenarioError, "radio.channels: must be >"),
        ("policy.settings.v=-1", PolicyError, "policy.settings of 'ddsra': v must be a number from 0 to 1e+30, got -1"),
        ("policy.settings.w=1", PolicyError, "policy.settings of 'ddsra': unknown setting 'w'"),
        ("policy.settings={v = -1}", PolicyError, "policy.settings of 'ddsra': v must be"),
        ("policy.name=nope", PolicyError, "policy.name 'nope': unknown"),
        ("aggregation.rule=nope", AggregationError, "aggregation.rule 'nope': unknown"),
    ],
)
def test_a_wrong_value_of_a_setting_is_blamed_on_the_setting(
    override: str, kind: type[FedfloorError], problem: str
) -> None:
    with pytest.raises(FedfloorError) as caught:
        planned_run("quick", None, 3, overrides=["rounds=3", override, "radio.uplink_bandwidth_mhz=2"])
    assert type(caught.value) is kind
    assert str(caught.value).startswith(f"setting {override}: {problem}")


def test_a_setting_of_another_name_is_not_blamed() -> None:
    with pytest.raises(PolicyError, match=r"^setting policy\.settings\.vv=1: .*unknown setting 'vv'"):
        planned_run("quick", None, 3, overrides=["policy.settings.vv=1", "policy.settings.v=1"])
