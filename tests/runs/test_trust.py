"""Code that a file names runs only if the user asks for it; what the user names is asked for."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import fedfloor
from fedfloor import api
from fedfloor.errors import PolicyError, ScenarioError
from tests.conftest import Table, small_table
from tests.runs.small import small_run

Call = Callable[..., object]

#: a module that leaves a file behind when it is imported
OWN = """
from pathlib import Path
import numpy as np
Path(__file__).with_name("ran").touch()

class Rule:
    def step(self, gathered, memory):
        from fedfloor.training.aggregation.contract import Step
        return Step(gathered.mean, memory)

class Mine:
    def schedule(self, state):
        from fedfloor.scheduling.policies.random import RandomScheduler
        return RandomScheduler().schedule(state)

def network():
    from torch import nn
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))

def data():
    pair = np.zeros((20, 1, 28, 28), np.float32), np.arange(20) % 10
    return [pair] * 3, pair
"""
NAMES = {
    "policy": "owncode:Mine",
    "model": "owncode:network",
    "data": "owncode:data",
    "aggregation": "owncode:Rule",
}
KEYS = {"aggregation": "rule"}  #: of a section, if it is not `name`


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that shows that the code ran."""
    (tmp_path / "owncode.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "owncode", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "ran"


def plant(section: str, *, layers: bool = True) -> Table:
    """A scenario whose policy, model, data or aggregation rule is a user's."""
    table = small_table()
    table.setdefault(section, {})[KEYS.get(section, "name")] = NAMES[section]
    if not layers:
        del table["model"]["layers"]
    return table


def compared(file: Path, **options: Any) -> object:
    return fedfloor.compare(file, seeds=1, rounds=1, out=file.parent / "compared", **options)


@pytest.mark.parametrize(
    ("section", "layers", "calls"),
    [
        ("policy", True, [api.check, fedfloor.simulate, fedfloor.run, compared]),
        ("model", False, [fedfloor.load, api.check, api.holding, fedfloor.simulate, fedfloor.run, compared]),
        ("model", True, [fedfloor.run, compared]),
        ("data", True, [api.holding, fedfloor.run, compared]),
        ("aggregation", True, [api.check, fedfloor.run, compared]),
    ],
)
def test_code_that_a_file_names_does_not_run_by_itself(
    section: str, layers: bool, calls: list[Call], ran: Path, write: Callable[[Table], Path]
) -> None:
    file = write(plant(section, layers=layers))
    for call in calls:
        with pytest.raises(ScenarioError) as caught:
            call(file)
        assert str(caught.value) == (
            f"{file}: {section}.{KEYS.get(section, 'name')}: names code that would run, '{NAMES[section]}'. "
            "If you trust that code, add --own, or own=True in Python"
        )
    assert not ran.exists()


@pytest.mark.parametrize(
    ("section", "call"), [("policy", fedfloor.simulate), ("policy", api.check), ("model", fedfloor.load),
                          ("data", api.holding), ("aggregation", api.check)],
)  # fmt: skip
def test_code_that_a_file_names_runs_if_the_user_trusts_it(
    section: str, call: Call, ran: Path, write: Callable[[Table], Path]
) -> None:
    table = plant(section, layers=section != "model") | {"baseline": {"cut": 0, "frequency_share": 0.5}}
    call(write(table), own=True)
    assert ran.exists()


def test_code_that_the_user_names_needs_no_further_word(ran: Path, write: Callable[[Table], Path]) -> None:
    file = write(small_table())
    assert len(fedfloor.simulate(file, "owncode:Mine", rounds=2).records) == 2
    assert len(fedfloor.simulate(file, overrides=["policy.name=owncode:Mine"], rounds=2).records) == 2
    assert len(fedfloor.simulate(file, overrides=['policy={name="owncode:Mine"}'], rounds=2).records) == 2
    assert api.holding(file, ["data.name = owncode:data"])["test_samples"] == 20
    assert len(fedfloor.load(file, ["model.name=owncode:network", "baseline.cut=0"]).layers) == 1


def test_code_that_the_user_replaces_is_not_asked_for(ran: Path, write: Callable[[Table], Path]) -> None:
    file = write(plant("policy"))
    fedfloor.simulate(file, "random", rounds=1)
    fedfloor.simulate(file, overrides=["policy.name=random"], rounds=1)
    fedfloor.simulate(write(plant("data")), rounds=1)  # a simulation reads no data
    fedfloor.simulate(write(plant("aggregation")), rounds=1)  # nor does it average
    assert not ran.exists()


def test_an_override_of_something_else_is_no_trust(ran: Path, write: Callable[[Table], Path]) -> None:
    with pytest.raises(ScenarioError, match=r"policy\.name: names code"):
        fedfloor.simulate(write(plant("policy")), overrides=["policy.settings={}", "name=other"])
    assert not ran.exists()


def test_a_class_without_schedule_is_never_constructed(write: Callable[[Table], Path], tmp_path: Path) -> None:
    settings = {"args": f"touch {tmp_path / 'made-by-a-file'}", "shell": True}
    file = write(small_table() | {"policy": {"name": "subprocess:Popen", "settings": settings}})
    with pytest.raises(
        ScenarioError, match=r"plant\.toml: policy\.name: names code that would run, 'subprocess:Popen'"
    ):
        api.check(file)
    with pytest.raises(PolicyError, match=r"has no method schedule\(\)"):
        api.check(file, own=True)
    assert not (tmp_path / "made-by-a-file").exists()


def test_the_code_of_a_run_folder_runs_only_if_the_user_trusts_it(ran: Path, tmp_path: Path) -> None:
    few = ["participation.rates=uniform", "model.name=owncode:network", "baseline.cut=0"]
    folder = tmp_path / "run"
    small_run(folder, *few, policy="owncode:Mine", rounds=1)
    ran.unlink()
    del sys.modules["owncode"]
    with pytest.raises(ScenarioError, match=r"run/scenario\.toml: model\.name: names code that would run, 'owncode:n"):
        api.evaluate(folder)
    with pytest.raises(ScenarioError, match=r"run/scenario\.toml: policy\.name: names code that would run, 'owncode:M"):
        fedfloor.plan(folder, round=0)
    fedfloor.plan(folder, "random", round=0)
    assert not ran.exists()
    assert fedfloor.plan(folder, round=0, own=True)["policy"] == "owncode:Mine"
    assert api.evaluate(folder, own=True)["rounds"] == 1


def test_a_report_imports_nothing_that_a_log_names(ran: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    fedfloor.simulate("quick", "owncode:Mine", rounds=2, out=folder)
    text = (folder / "scenario.toml").read_text()
    (folder / "scenario.toml").write_text(
        text.replace('"cnn"', '"owncode:network"').replace('"fashion-mnist"', '"owncode:data"')
    )
    ran.unlink()
    del sys.modules["owncode"]
    done = fedfloor.report(folder, csv=tmp_path / "rounds.csv")
    assert done.tables[0].rows[0][0] == "owncode:Mine"
    assert "owncode" not in sys.modules
    assert not ran.exists()


@pytest.mark.parametrize(
    "command",
    [
        ("check",),
        ("simulate", "--rounds", "1"),
        ("run", "--rounds", "1"),
        pytest.param(("compare", "--rounds", "1"), marks=pytest.mark.slow),
    ],
    ids=lambda command: command[0],
)
def test_a_command_names_the_file_the_key_the_code_and_the_way_out(
    command: tuple[str, ...], tmp_path: Path, fedfloor_process: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    settings = {"args": "touch made-by-a-file", "shell": True}
    table = small_table() | {"policy": {"name": "subprocess:Popen", "settings": settings}}
    (tmp_path / "plant.toml").write_text(tomli_w.dumps(table))
    done = fedfloor_process(command[0], "plant.toml", *command[1:])
    assert (done.returncode, done.stdout) == (2, "")
    expected = "error: plant.toml: policy.name: names code that would run, 'subprocess:Popen'. If you trust that code, "
    assert done.stderr == f"{expected}add --own, or own=True in Python\n"
    trusted = fedfloor_process(command[0], "plant.toml", *command[1:], "--own")
    assert (trusted.returncode, "has no method schedule()" in trusted.stderr) == (2, True)
    assert not (tmp_path / "made-by-a-file").exists()


@pytest.mark.parametrize("name", ["check", "simulate", "run", "compare", "tradeoff", "plan", "evaluate", "data show"])
def test_every_command_that_reads_such_a_file_has_the_option(
    name: str, fedfloor_process: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    assert "--own" in fedfloor_process(*name.split(), "--help").stdout
