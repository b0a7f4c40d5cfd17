"""`fedfloor simulate --vary`: grids are what single simulations give, wherever and however often they are computed."""

import csv
import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfloor
import fedfloor.api
from fedfloor.errors import FedfloorError, PolicyError, RunLogError, ScenarioError
from fedfloor.files import only_writer
from fedfloor.policies import Ddsra
from fedfloor.runs import vary as varying
from fedfloor.scheduling.state import IDLE, Decision, RoundState, Scheduler
from tests.conftest import Table

Command = Callable[..., subprocess.CompletedProcess[str]]
SETTINGS = {"radio.channels": [1, 2], "floors.0.gateway.max_power_mw": [50, 200]}


@pytest.fixture
def plant(write: Callable[[Table], Path], table: Table) -> Path:
    return write(table)


def refuse_to_simulate(*_: object, **__: object) -> None:
    raise AssertionError("simulated again")


def test_every_cell_is_the_simulation_with_these_settings(plant: Path) -> None:
    grid = fedfloor.vary(plant, SETTINGS, ["random", "ddsra:v=1"], rounds=4)
    assert len(grid.cells) == 8
    for cell in grid.cells:
        overrides = [f"{key}={value}" for key, value in cell.settings.items()]
        alone = fedfloor.simulate(plant, cell.policy, 4, overrides=overrides)
        assert cell.summary == alone.summary
    columns = grid.columns()
    assert columns["radio.channels"] == [1, 1, 1, 1, 2, 2, 2, 2]
    assert columns["floors.0.gateway.max_power_mw"] == [50, 50, 200, 200] * 2
    assert [name.partition(":")[0] for name in map(str, columns["policy"])] == ["random", "ddsra"] * 4
    assert columns["label"] == ["random", "ddsra:v=1"] * 4


def test_processes_give_what_this_process_gives(plant: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = fedfloor.vary(plant, SETTINGS, rounds=3)
    monkeypatch.setattr(varying, "_LONG", -1.0)
    monkeypatch.setattr(varying, "cores", lambda: 2)
    heard: list[tuple[int, int]] = []
    there = fedfloor.vary(plant, SETTINGS, rounds=3, out=tmp_path / "grid", on_round=lambda *news: heard.append(news))
    assert [cell.summary for cell in there.cells] == [cell.summary for cell in here.cells]
    assert {number for number, done in heard if done == 3} == {0, 1, 2, 3}
    assert all(cell.folder is not None and (cell.folder / "rounds.jsonl").exists() for cell in there.cells)


def test_a_grid_continues_where_it_stopped(plant: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    out = tmp_path / "grid"
    simulate = fedfloor.api.simulate_planned

    def stopped(planned: Any, **options: Any) -> Any:
        if planned.scenario.radio.channels == 2:
            raise KeyboardInterrupt
        return simulate(planned, **options)

    monkeypatch.setattr(varying, "simulate_planned", stopped)
    with pytest.raises(KeyboardInterrupt):
        fedfloor.vary(plant, {"radio.channels": [1, 2]}, rounds=3, out=out)
    assert [path.name for path in out.iterdir()] == ["radio.channels=1-ddsra-v1000-exact-0"]
    (out / ".radio.channels=2-ddsra.part").mkdir()  # as a process that is killed leaves it

    def rest(planned: Any, **options: Any) -> Any:
        assert planned.scenario.radio.channels == 2
        return simulate(planned, **options)

    monkeypatch.setattr(varying, "simulate_planned", rest)
    done = fedfloor.vary(plant, {"radio.channels": [1, 2]}, rounds=3, out=out)
    monkeypatch.setattr(varying, "simulate_planned", refuse_to_simulate)
    again = fedfloor.vary(plant, {"radio.channels": [1, 2]}, rounds=3, out=out)
    assert done.columns() == again.columns()
    assert not [path for path in out.iterdir() if path.name.startswith(".")]


def test_the_folder_has_a_table_a_figure_and_runs_for_a_report(plant: Path, tmp_path: Path) -> None:
    grid = fedfloor.vary(plant, {"radio.channels": [1, 2]}, ["random"], rounds=2, out=tmp_path / "g")
    assert grid.table is not None
    assert grid.figure is not None
    rows = list(csv.DictReader(grid.table.read_text(encoding="utf-8").splitlines()))
    assert [row["radio.channels"] for row in rows] == ["1", "2"]
    assert float(rows[1]["mean_delay_s"]) == grid.cells[1].summary.mean_delay
    assert grid.figure.read_bytes().startswith(b"\x89PNG")
    assert len(fedfloor.report(tmp_path / "g", out=tmp_path / "report").collection.runs) == 2


def test_a_table_has_no_formulas() -> None:
    assert varying.csv_text({"a": ["=1+1", [1, 2]], "b": [1.5, True]}) == 'a,b\n\'=1+1,1.5\n"[1, 2]",True\n'


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("radio.channels=1, 2", ["1", "2"]),
        ("floors.0.gateway.distance_m={uniform = [60, 400]},70", ["{uniform = [60, 400]}", "70"]),
        ("participation.rates=[0.5,0.5],uniform", ["[0.5,0.5]", "uniform"]),
        ('name="a,b",\'c"d\'', ['"a,b"', "'c\"d'"]),
    ],
)
def test_commas_inside_a_value_do_not_split_it(text: str, values: Sequence[str]) -> None:
    assert dict(varying._axes([text], 1)) == {text.partition("=")[0]: tuple(values)}


def test_python_values_mean_what_they_mean_in_toml(plant: Path) -> None:
    grid = fedfloor.vary(
        plant,
        {"limits": [False], "participation.rates": [[0.5, 0.25], "uniform"], "battery": [{"gateway_capacity_j": 2}]},
        ["random"],
        rounds=1,
    )
    assert grid.cells[0].settings["participation.rates"] == [0.5, 0.25]
    assert grid.cells[0].settings["limits"] is False
    assert [floor.target_rate for floor in grid.cells[0].summary.floors] == [0.5, 0.25]


@pytest.mark.parametrize(
    ("settings", "options", "problem"),
    [
        (["radio.channels"], {}, r"--vary radio\.channels: must be section\.key=a,b,c, as in --vary radio\.channels="),
        (["radio.channels=1,,2"], {}, "a value is missing"),
        (["radio.channels=1,2,1"], {}, r"--vary radio\.channels: 1 is given twice"),
        (["seed=1", "seed=2"], {}, "--vary seed: is given twice"),
        (["seed=1,2"], {"seed": 3}, "--vary seed: is set to one value too"),
        (["radio.channels=1"], {"overrides": ["radio.channels=2"]}, "is set to one value too"),
        (
            ["radio.chanels=1"],
            {},
            r"^setting radio\.chanels=1: radio\.chanels: unknown key\. Did you mean 'channels'\?",
        ),
        (["radio.channels=1,0"], {}, r"^setting radio\.channels=0: radio\.channels: .*got 0"),
        (["floors.7.name=a"], {}, r"^setting floors\.7\.name=a: floors\.7: no such entry"),
        ({"floors.7.name": ["a"]}, {}, r"^setting floors\.7\.name=\"a\": floors\.7: no such entry"),
        ({"seed": [1, 1]}, {}, "settings: seed: 1 is given twice"),
        ({"seed": [1]}, {"seed": 3}, "settings: seed: is set to one value too"),
        ([], {}, "settings: must be a mapping such as"),
        ({"radio.channels": 3}, {}, "settings: 'radio.channels': must be a list of values, got 3"),
        ({"radio.channels": np.array(3)}, {}, "settings: 'radio.channels': must be a list of values, got 3"),
        (
            ["seed=" + ",".join(map(str, range(10_001)))],
            {},
            "--vary: its combinations are more than 10,000 simulations",
        ),
        ({"seed": range(10**30)}, {}, "settings: .* Leave some values out, or divide them among several grids"),
        ({"seed": range(101), "rounds": range(1, 101)}, {}, "more than 10,000 simulations"),
        ({"seed": range(5001)}, {"policies": ["random", "ddsra"]}, "more than 10,000 simulations"),
        ({"radio.channels": [None]}, {}, "values must be numbers, texts, lists or tables, got None"),
    ],
)
def test_wrong_settings_are_refused_by_name(settings: Any, options: dict[str, Any], problem: str, plant: Path) -> None:
    with pytest.raises(ScenarioError, match=problem):
        fedfloor.vary(plant, settings, rounds=1, **options)


def test_table_and_figure_are_written_before_others_may_write(
    plant: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = []

    def look(_: varying.Grid, path: Path) -> Path:
        with pytest.raises(FedfloorError, match="another process"), only_writer(path.parent, again="later"):
            pass
        refused.append(path.name)
        return path

    monkeypatch.setattr("fedfloor.reports.grids.write_grid", look)
    fedfloor.vary(plant, {"radio.channels": [1]}, rounds=1, out=tmp_path / "grid")
    assert refused == ["grid.png"]


def test_a_grid_replaces_no_finished_one_with_other_simulations(plant: Path, tmp_path: Path) -> None:
    folder = tmp_path / "grid"
    grid = fedfloor.vary(plant, {"radio.channels": [1, 2]}, ["random"], rounds=1, out=folder)
    assert repr(grid) == "Grid(small, 2 simulations over radio.channels)"
    table = (folder / "grid.csv").read_bytes()
    with pytest.raises(RunLogError, match=r"grid\.csv has 1 simulation that this grid lacks.* Name another folder"):
        fedfloor.vary(plant, {"radio.channels": [1]}, ["random"], rounds=1, out=folder)
    assert (folder / "grid.csv").read_bytes() == table
    wider = fedfloor.vary(plant, {"radio.channels": [1, 2, 3]}, ["random"], rounds=1, out=folder)
    assert len(wider.cells) == 3


def test_arrays_are_lists_of_values(plant: Path) -> None:
    rates = [np.array([0.5, 0.25]), np.array([0.25, 0.25])]
    settings: varying.GridSettings = {"radio.channels": np.array([1, 2]), "participation.rates": rates}
    grid = fedfloor.vary(plant, settings, ["random"], rounds=1)
    assert [[*cell.settings.values()] for cell in grid.cells][:2] == [[1, [0.5, 0.25]], [1, [0.25, 0.25]]]
    assert grid.columns()["radio.channels"] == [1, 1, 2, 2]


def test_names_of_folders_fit_the_file_system_in_any_alphabet(plant: Path, tmp_path: Path) -> None:
    settings = {"data.name": [f"{letter * 140}/*.csv" for letter in ("\u00fc", "\u6a5f")]}
    grid = fedfloor.vary(plant, settings, ["random"], rounds=1, out=tmp_path / "grid")
    assert all(cell.folder is not None and len(cell.folder.name.encode()) < 250 for cell in grid.cells)


@dataclass(frozen=True)
class Labelled:
    """Serves nobody, and has a name."""

    label: str = ""

    def schedule(self, state: RoundState) -> Decision:
        return Decision(channel=np.full(state.gain_up.shape[0], IDLE))


def test_a_policy_whose_settings_make_no_name_of_a_folder_is_refused(plant: Path, tmp_path: Path) -> None:
    policy = f"tests.runs.test_vary:Labelled:label={'x' * 250}"
    with pytest.raises(PolicyError, match=r"its settings make a folder name of 3\d\d bytes, at most 255 are possible"):
        fedfloor.vary(plant, {"radio.channels": [1]}, [policy], rounds=1, out=tmp_path / "grid")


def test_a_policy_given_twice_is_refused(plant: Path) -> None:
    with pytest.raises(PolicyError, match="is given twice"):
        fedfloor.vary(plant, SETTINGS, ["random", "random"])


def test_a_folder_with_something_else_is_left_alone(plant: Path, tmp_path: Path) -> None:
    out = tmp_path / "grid"
    fedfloor.vary(plant, {"radio.channels": [1]}, rounds=2, out=out)
    for arguments, problem in (
        ({"rounds": 3}, "has 2 rounds, but 3 are asked for"),
        ({"rounds": 2, "overrides": ["baseline.cut=0"]}, "cannot resume with a changed scenario: baseline.cut"),
        (
            {"rounds": 2, "overrides": ["floors.0.gateway.max_power_mw=7", "training.min_cut=1"]},
            r"changed scenario: training\.min_cut \(0 -> 1\), floors\[0\]\.gateway\.max_power_mw \(\S+ -> 7",
        ),
    ):
        with pytest.raises(RunLogError, match=problem):
            fedfloor.vary(plant, {"radio.channels": [1]}, out=out, **arguments)
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").write_text("mine")
    with pytest.raises(FedfloorError, match="other: is not empty"):
        fedfloor.vary(plant, {"radio.channels": [1]}, rounds=2, out=other)


def test_the_command_prints_a_table_json_and_csv(fedfloor_command: Command, plant: Path) -> None:
    arguments = ["simulate", str(plant), "--vary", "radio.channels=1,2", "--rounds", "3", "--policy", "random"]
    shown = fedfloor_command(*arguments)
    assert shown.returncode == 0, shown.stderr
    assert "small, random, 3 rounds each" in shown.stdout
    assert "table: runs/vary-small/grid.csv" in shown.stdout
    entries = json.loads(fedfloor_command(*arguments, "--format", "json").stdout)
    assert [entry["settings"] for entry in entries] == [{"radio.channels": 1}, {"radio.channels": 2}]
    rows = list(csv.DictReader(fedfloor_command(*arguments, "--format", "csv").stdout.splitlines()))
    assert [float(row["mean_delay_s"]) for row in rows] == [entry["mean_delay_s"] for entry in entries]
    plain = fedfloor_command("simulate", str(plant), "--rounds", "3", "--policy", "random", "--format", "csv")
    assert [row["policy"] for row in csv.DictReader(plain.stdout.splitlines())] == ["random"]
    wrong = fedfloor_command("simulate", str(plant), "--vary", "radio.channels=0")
    assert (wrong.returncode, len(wrong.stderr.splitlines())) == (2, 1)


@dataclass(frozen=True)
class FirstFloors:
    """Serves the floors with the lowest numbers."""

    def schedule(self, state: RoundState) -> Decision:
        floors, channels = state.gain_up.shape
        return Decision(channel=np.where(np.arange(floors) < channels, np.arange(floors), IDLE))


def test_a_grid_takes_objects_and_reads_as_a_table_in_notebooks(capsys: pytest.CaptureFixture[str]) -> None:
    policies: list[str | Scheduler] = [Ddsra(v=1.0), FirstFloors(), "random"]
    grid = fedfloor.vary(fedfloor.load("quick"), {"radio.channels": [1, 2]}, policies, rounds=2, progress=True)
    assert [cell.policy for cell in grid.cells] == ["ddsra:v=1", "tests.runs.test_vary:FirstFloors", "random"] * 2
    assert "rounds: 12 of 12" in capsys.readouterr().err
    frame = grid.to_pandas()
    assert frame["radio.channels"].tolist() == [1, 1, 1, 2, 2, 2]
    assert grid._repr_html_().count("<tr>") == 7
