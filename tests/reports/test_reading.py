"""Reading run folders: what is wrong is said with file, field and value, and only like runs share a name."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import fedfloor
from fedfloor.reports.page import _notices
from fedfloor.reports.reading import Collection, collect
from fedfloor.reports.statistics import reference_of
from fedfloor.reports.tables import headline
from fedfloor.reports.variants import variants
from fedfloor.scenario import Scenario
from fedfloor.theory.bounds import Bound
from tests.reports.made_up import gathered, made_up

Record = dict[str, Any]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three rounds of two policies."""
    folder = tmp_path_factory.mktemp("made")
    for policy in ("random", "round_robin"):
        fedfloor.simulate("quick", policy, rounds=3, seed=1, out=folder / policy)
    return folder


@pytest.fixture
def runs(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "runs"))


def edit(folder: Path, line: int, change: Callable[[Record], object]) -> None:
    path = folder / "rounds.jsonl"
    records = [json.loads(text) for text in path.read_text().splitlines()]
    change(records[line])
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def selected(record: Record) -> Record:
    found: Record = next(gateway for gateway in record["gateways"] if gateway["selected"])
    return found


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda r: r.update(round=None), "line 2: round: must be a whole number, got None"),
        (lambda r: r.update(round=0), "line 2: round: must be 1, because rounds are logged one after the other, got 0"),
        (lambda r: r.update(round=2), "line 2: round: must be 1, because rounds are logged one after the other, got 2"),
        (lambda r: r.update(delay_s="3"), "line 2: delay_s: must be a number, got '3'"),
        (lambda r: r.update(clock_s=0.0), "line 2: clock_s: must be >= "),
        (lambda r: r.update(accuracy="high"), "line 2: accuracy: must be a number, got 'high'"),
        (lambda r: r.update(accuracy=1.5), "line 2: accuracy: must be <= 1.0, got 1.5"),
        (lambda r: r.update(policy=""), "line 2: policy: must not be empty, got ''"),
        (lambda r: r.update(gateways={}), "line 2: gateways: must be a list, got {}"),
        (lambda r: r["gateways"][0].update(selected=None), "gateways[0].selected: must be true or false, got None"),
        (lambda r: r["gateways"][0].update(failure=3), "gateways[0].failure: must be a string, got 3"),
        (lambda r: r["gateways"][0].update(delay_s="x"), "gateways[0].delay_s: must be a number, got 'x'"),
        (lambda r: r["gateways"][0].update(upload_s=[]), "gateways[0].upload_s: must be a number, got []"),
        (lambda r: r["gateways"][0].update(energy_j=None), "gateways[0].energy_j: must be a number, got None"),
        (lambda r: r["gateways"][0].pop("loss"), "line 2: has no 'gateways[0].loss'"),
        (lambda r: selected(r).update(devices=None), ".devices: must be a list, got None"),
        (lambda r: selected(r)["devices"].append(selected(r)["devices"][0]), "devices of the floor, got "),
        (
            lambda r: selected(r)["devices"][0].update(cut=99),
            ".devices: cut: must be <= 6, the number of layers, got 99",
        ),
        (lambda r: selected(r)["devices"][0].update(cut=-1), ".devices[0].cut: must be >= 0, got -1"),
        (
            lambda r: selected(r)["devices"][0].pop("name"),
            ".devices[0].name'. It is damaged, or was written by another",
        ),
    ],
)
def test_a_bad_record_is_told_of_and_the_other_run_is_shown(
    change: Callable[[Record], object], says: str, runs: Path
) -> None:
    edit(runs / "random", 1, change)
    found = collect([runs])
    (problem,) = found.problems
    assert problem.startswith(f"{runs / 'random' / 'rounds.jsonl'}: line 2: ")
    assert says in problem
    assert problem.endswith("use that one, or run again")
    assert [run.policy for run in found.runs] == ["round_robin"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("holding.json", {"devices": [{"name": "d", "classes": [1]}]}, "has no 'devices[0].floor'"),
        ("holding.json", {"devices": [{"floor": "f", "name": "d", "classes": ["x"]}]}, "got 'x'"),
        (
            "holding.json",
            {"devices": [{"floor": "f", "name": "d", "classes": [1] * n} for n in (1, 2)]},
            "the same number of classes",
        ),
        (
            "holding.json",
            {"devices": [{"floor": "f", "name": "d", "classes": [1]}], "labels": ["a", "b"]},
            "got 2 names",
        ),
        ("holding.json", [], "must be a table, got []"),
        ("bounds.json", [3], "[0]: must be a table, got 3"),
        ("bounds.json", {"rounds": 3}, "must be a list, got {'rounds': 3}"),
        (
            "bounds.json",
            [{"theorem": "T", "what": "w", "measured": "much", "bound": None}],
            "[0].measured: must be a number, got 'much'",
        ),
        ("tradeoff.json", [1, 2], "[0]: must be a table, got 1"),
        ("tradeoff.json", [{"v": 1, "mean_delay_s": "long"}], "[0].mean_delay_s: must be a number, got 'long'"),
        ("tradeoff.json", "none", "must be a list, got 'none'"),
        ("tradeoff.json", None, "must not be null"),
    ],
)
def test_a_bad_file_beside_the_log_is_told_of_and_the_run_is_shown_without(
    name: str, content: Any, says: str, runs: Path
) -> None:
    path = runs / name if name == "tradeoff.json" else runs / "random" / name
    path.write_text(json.dumps(content))
    found = collect([runs])
    (problem,) = found.problems
    assert problem.startswith(f"{path}: ")
    assert says in problem
    assert "again" in problem
    assert len(found.runs) == 2
    assert not found.tradeoff
    assert not any(run.holding or run.bounds for run in found.runs)


def test_files_beside_the_log_may_be_torn(runs: Path) -> None:
    (runs / "random" / "holding.json").write_text('{"devices": [')
    assert "holding.json: is not JSON: " in collect([runs]).problems[0]


def test_a_scenario_without_layers_is_told_of(runs: Path) -> None:
    path = runs / "random" / "scenario.toml"
    lines = path.read_text().splitlines()
    first, last = lines.index("[[model.layers]]"), lines.index("[costs]")
    path.write_text("\n".join(lines[:first] + lines[last:]))
    assert "scenario.toml: model.layers: is missing" in collect([runs]).problems[0]


def test_a_run_whose_bounds_are_written_has_ended_for_every_part_of_the_report(runs: Path) -> None:
    bound: dict[str, Any] = {"theorem": "Theorem 3", "what": "w", "measured": None, "bound": None, "note": ""}
    for name in ("random", "round_robin"):
        path = runs / name / "scenario.toml"
        path.write_text(path.read_text().replace("rounds = 3", "rounds = 10"))
    (runs / "random" / "bounds.json").write_text(json.dumps([bound]))
    found = collect([runs])
    assert [run.ended for run in found.runs] == [True, False]
    assert found.runs[0].bounds == (Bound(**bound),)
    assert [row[-2] for row in headline(found).rows] == ["ended: 3 of 10", "still running: 3 of 10"]
    assert "round_robin, seed 1" in _notices(found)
    assert "random, seed 1" not in _notices(found)


def copied(run: Path, to: Path, seed: int, **texts: tuple[str, str]) -> None:
    """The same run as if of another seed, with other texts in its scenario."""
    shutil.copytree(run, to)
    path = to / "scenario.toml"
    text = path.read_text().replace("seed = 1", f"seed = {seed}", 1)
    for old, new in texts.values():
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)


def shown(collection: Collection) -> dict[str, list[str]]:
    return {series.label: [run.folder.name for run in series.runs] for series in collection.series}


def test_a_series_never_mixes_settings_whatever_seed_has_them(made: Path, tmp_path: Path) -> None:
    for name, seed, channels in (("a", 1, 3), ("b", 1, 2), ("c", 2, 2)):
        out = tmp_path / name
        fedfloor.simulate("quick", "random", rounds=1, seed=seed, overrides=[f"radio.channels={channels}"], out=out)
    assert shown(collect([tmp_path])) == {"random [radio.channels=3]": ["a"], "random": ["b", "c"]}
    turned = collect([tmp_path / name for name in "cba"])
    assert shown(turned) == {"random": ["b", "c"], "random [radio.channels=3]": ["a"]}


def test_other_plants_of_the_same_seed_are_another_series(made: Path, tmp_path: Path) -> None:
    far = ("distance_m = 1200.0", "distance_m = 5000.0")
    drawn = ("distance_m = 1411", "distance_m = 1511")  # as another seed would
    copied(made / "random", tmp_path / "a", 1)
    copied(made / "random", tmp_path / "b", 1, far=far)
    copied(made / "random", tmp_path / "c", 2, drawn=drawn)
    copied(made / "random", tmp_path / "d", 3, far=far, drawn=drawn)
    far_away = "random [floors.gateway.distance_m=5000.0]"
    assert shown(collect([tmp_path])) == {"random": ["a", "c"], far_away: ["b", "d"]}


def test_what_was_left_for_a_device_is_no_setting(made: Path, tmp_path: Path) -> None:
    copied(made / "random", tmp_path / "a", 1)
    copied(made / "round_robin", tmp_path / "b", 1, held=("samples = 376", "samples = 376\nheld = 300"))
    assert list(shown(collect([tmp_path]))) == ["random", "round_robin"]


def table(**settings: Any) -> tuple[Scenario, Mapping[str, Any]]:
    seed = settings.pop("seed", 1)
    floors = settings.pop("floors", [])
    return fedfloor.load("quick", seed=seed), {"seed": seed, "floors": floors, **settings}


def distances(*values: float) -> list[Record]:
    return [{"gateway": {"distance_m": value}} for value in values]


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ([table(limits=True), table(limits=False)], ["", "limits=False"]),
        ([table(rounds=3), table(rounds=4, training={"checkpoint_every": 9})], ["", ""]),
        ([table(rounds_of_rest=3), table()], ["rounds_of_rest=3", ""]),
        ([table(limits=False), table(limits=False), table(limits=True)], ["", "", "limits=True"]),
        ([table(training={"momentum": 0.9}), table(training={"momentum": 0.0})], ["training.momentum=0.9", ""]),
        ([table(radio={"channels": 12}), table(radio={"channels": 3})], ["radio.channels=12", ""]),
        ([table(floors=distances(1, 2)), table(floors=distances(3, 3))], ["", "floors.gateway.distance_m=3"]),
        (
            [table(floors=distances(1)), table(floors=distances(1, 4)), table(floors=distances(7), seed=2)],
            ["", "floors.gateway.distance_m=4", ""],
        ),
        (
            [table(model={"width": 1, "layers": [{"out": 4}]}), table(model={"width": 2, "layers": [{"out": 8}]})],
            ["", "model.width=2"],
        ),
        ([table(model={"layers": [{"out": 4}]}), table(model={"layers": [{"out": 8}]})], ["", "model.layers.out=8"]),
        ([table(), table(**dict.fromkeys("abcde", 1))], ["", "a=1, b=1, c=1 and 2 more"]),
        (
            [table(), table(), table(), *(table(a=1, b=1, c=1, d=value) for value in (1, 2, 1))],
            ["", "", "", "a=1, b=1, c=1 and 1 more", "a=1, b=1, c=1 and 1 more (2)", "a=1, b=1, c=1 and 1 more"],
        ),
    ],
)
def test_equal_names_mean_equal_settings(
    tables: Sequence[tuple[Scenario, Mapping[str, Any]]], expected: list[str]
) -> None:
    assert variants(tables) == expected
    assert variants(tables[::-1]) == expected[::-1]  # whatever the order of folders


def test_others_are_held_against_ddsra_with_the_exact_solver_and_the_least_v() -> None:
    names = ["delay_driven", "ddsra:v=1000,solver=exact", "ddsra:v=0.01,solver=paper", "ddsra:v=0.01,solver=exact"]
    assert reference_of(gathered(*map(made_up, names)).series).label == "ddsra:v=0.01"
    assert reference_of(gathered(*map(made_up, names[:3])).series).label == "ddsra:v=1000"
    assert reference_of(gathered(made_up("round_robin"), made_up("random")).series).label == "round_robin"


def test_of_several_variants_the_usual_one_is_what_others_are_held_against() -> None:
    runs = [made_up("ddsra:v=1", variant=variant) for variant in ("limits=False", "", "battery=none")]
    for order in (runs, runs[::-1]):
        assert reference_of(gathered(*order).series).label == "ddsra:v=1"
