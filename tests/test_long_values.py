"""A message stays short and printable, whatever a file contains."""

import copy
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fedfloor
from fedfloor import api
from fedfloor.errors import FedfloorError, TraceError, shown
from fedfloor.scenario import build, expand
from fedfloor.scenario.reading import parse
from tests.conftest import Table, small_table
from tests.runs.test_plan import EXAMPLE

LONG = "\x1b[2J" + "x" * 10**6


def replaced(value: Any, long: object) -> Iterator[Any]:
    """The value with one entry after the other replaced by a long one, and with a long key in every table."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        for changed in (long, *replaced(entry, long)):
            other = copy.copy(value)
            other[key] = changed
            yield other
    if isinstance(value, dict):
        yield {**value, LONG: 1}


def assert_is_short(error: FedfloorError) -> None:
    assert len(str(error)) < 1000
    assert str(error).isprintable()


def test_a_value_is_shown_in_about_80_characters() -> None:
    assert shown("press") == "'press'"
    assert shown(-2.5) == "-2.5"
    assert shown("a\nb\x1b") == r"'a\nb\x1b'"
    assert shown(list(range(10**5))).startswith("[0, 1, 2")
    assert all(len(shown(value)) <= 80 for value in (LONG, LONG.encode(), [LONG], {LONG: 1}, 10**5000, range(10**9)))


def test_whatever_a_scenario_holds_its_message_is_short() -> None:
    table = small_table() | {"policy": {"name": "ddsra", "settings": {"v": 1.0}}, "data": {"name": "fashion-mnist"}}
    table["participation"] = {"rates": [0.5, 0.5]}
    table["floors"][0]["gateway"]["distance_m"] = {"uniform": [1, 2]}
    table["floors"][0]["devices"][0]["hardware"] = "camera"
    refused = 0
    for long in (LONG, [1.5] * 10**4):
        for changed in replaced(table, long):
            try:
                build(expand(parse(changed, "plant.toml"), "plant.toml"), "plant.toml")
            except FedfloorError as error:
                refused += 1
                assert_is_short(error)
    assert refused > 100


@pytest.mark.parametrize(
    "text",
    [
        f'name = "a"\nname = "{"x" * 10**6}"\n"{"x" * 10**6}" = 1\n"{"x" * 10**6}" = 2\n',
        f'"{"x" * 10**6}" = 1\n"{"x" * 10**6}" = 2\n',
        f"name = {'x' * 10**6}\n",
        f"seed = 0x{'f' * 10**6}\n",
    ],
    ids=["a key twice", "a long key twice", "no value", "a long number"],
)
def test_whatever_a_toml_file_holds_its_message_is_short(text: str, tmp_path: Path) -> None:
    (tmp_path / "plant.toml").write_text(text)
    with pytest.raises(FedfloorError) as caught:
        fedfloor.load(tmp_path / "plant.toml")
    assert_is_short(caught.value)


@pytest.mark.parametrize("policy", [{"name": LONG}, {"name": f"{LONG}:Mine"}, {"name": "ddsra", "settings": {LONG: 1}},
                                    {"name": "ddsra", "settings": {"solver": LONG}},
                                    {"name": "ddsra", "settings": {"v": LONG}}])  # fmt: skip
def test_whatever_a_policy_is_called_its_message_is_short(policy: Table, write: Callable[[Table], Path]) -> None:
    for own in (False, True):
        with pytest.raises(FedfloorError) as caught:
            api.check(write(small_table() | {"policy": policy}), own=own)
        assert_is_short(caught.value)


def test_whatever_a_snapshot_holds_its_message_is_short(tmp_path: Path) -> None:
    refused = 0
    for changed in replaced(EXAMPLE, LONG):
        try:
            fedfloor.plan(changed, "random")
        except FedfloorError as error:
            refused += 1
            assert_is_short(error)
    assert refused > 30
    path = tmp_path / "round.json"
    path.write_text(f'{{"{LONG[4:]}": 1, "{LONG[4:]}": 2}}')
    with pytest.raises(FedfloorError, match="is given twice") as caught:
        fedfloor.plan(path)
    assert_is_short(caught.value)
    twice = copy.deepcopy(EXAMPLE)
    twice["gateways"] = [{**twice["gateways"][0], "name": LONG}] * 2
    with pytest.raises(FedfloorError, match="duplicate name") as caught:
        fedfloor.plan(twice)
    assert_is_short(caught.value)


def test_whatever_a_log_holds_its_message_is_short(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    fedfloor.simulate("quick", "random", rounds=1, out=folder)
    (line,) = (folder / "rounds.jsonl").read_text().splitlines()
    record = json.loads(line)
    record["gateways"] = record["gateways"][:1]
    refused = 0
    for changed in replaced(record, LONG):
        (folder / "rounds.jsonl").write_text(json.dumps(changed) + "\n")
        for read in (fedfloor.read, lambda run: fedfloor.plan(run, "random", round=0)):
            try:
                read(folder)
            except FedfloorError as error:
                refused += 1
                assert_is_short(error)
    assert refused > 30


@pytest.mark.parametrize("path", ["x" * 10**5, "folder/" * 500 + "gain.csv", "\x1b[2J.csv", "\0"], ids=len)
def test_whatever_a_trace_is_called_its_message_is_short(path: str, write: Callable[[Table], Path]) -> None:
    with pytest.raises(TraceError) as caught:
        api.check(write(small_table() | {"traces": {"uplink_gain": path}}))
    assert_is_short(caught.value)
    assert "traces.uplink_gain" in str(caught.value)


def test_whatever_a_trace_holds_its_message_is_short(write: Callable[[Table], Path], tmp_path: Path) -> None:
    table, long = small_table(), "n" * 250
    table["floors"][0]["name"] = long
    file = write(table | {"traces": {"gateway_energy": "energy.csv"}})
    whole = [f"{index},{name},1" for index in range(5) for name in (long, "paint")]
    for lines in ([*whole, whole[0]], whole[1:], ["0,nobody,1"], [f"0,{LONG},1"], [f"{LONG},{long},1"]):
        (tmp_path / "energy.csv").write_text("\n".join(["round,floor,energy_j", *lines]))
        with pytest.raises(TraceError) as caught:
            api.check(file)
        assert_is_short(caught.value)


@pytest.mark.slow
def test_a_long_name_or_path_is_refused_before_anything_is_written(
    fedfloor_process: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    fedfloor.simulate("quick", "random", rounds=1, out=tmp_path / "run")
    before, long = sorted(tmp_path.rglob("*")), "n" * 300
    for command, field in (
        (f"simulate quick --rounds 1 --set name={long}", "name: must have at most 100 characters"),
        (f"compare quick --rounds 1 --set name={long}", "name: must have at most 100 characters"),
        (f"compare quick --rounds 1 --policy tests.policies:{long}", "policy"),
        (f"simulate quick --rounds 1 --out {long}", "out: must be a path that can exist"),
        (f"report run --out {long}", "out: must be a path that can exist"),
        (f"report run --csv {long}.csv", "csv: must be a path that can exist"),
        (f"report {long}", "runs: must be a path that can exist"),
        (f"evaluate {long}", "run: must be a path that can exist"),
        (f"plan {long}", "snapshot: must be a path that can exist"),
        (f"data fetch svhn --data-dir {long}", "data_dir: must be a path that can exist"),
        (f"check quick --data-dir {long}", "data_dir: must be a path that can exist"),
        (f"run quick --rounds 1 --data-dir {long}", "data_dir: must be a path that can exist"),
    ):
        done = fedfloor_process(*command.split())
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert field in done.stderr
        assert len(done.stderr) < 1000
    assert sorted(tmp_path.rglob("*")) == before


def test_a_policy_that_makes_too_long_a_folder_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n@dataclass\nclass Mine:\n    note: str = ''\n"
        "    def schedule(self, state): raise NotImplementedError\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    policies = [f"mine:Mine:note={'n' * 300}"]
    for call in (api.plan_runs, fedfloor.compare):
        with pytest.raises(
            FedfloorError, match=r"policy 'mine:Mine.*: its settings make a folder name of 3\d\d"
        ) as caught:
            call("quick", policies)
        assert_is_short(caught.value)
    (planned,) = api.plan_runs("quick", policies, out="short")
    assert planned.folder == Path("short")
