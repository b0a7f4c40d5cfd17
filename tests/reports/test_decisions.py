"""Decisions of single rounds on the page are those of `fedfloor plan`, and their number is bounded."""

import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import fedfloor
from fedfloor.reports import decisions
from fedfloor.reports.decisions import with_decisions
from fedfloor.reports.drawing.plots import plain
from fedfloor.reports.exploring import single_runs
from fedfloor.reports.reading import Collection, ReadRun
from fedfloor.reports.results import results_of
from fedfloor.scenario.file import Policy
from fedfloor.scheduling.registry import PolicySpec
from tests.reports.logs import changed, collection_of, simulated


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """Six rounds of three policies, one of which decides by earlier rounds."""
    folder = tmp_path_factory.mktemp("compared")
    return collection_of(*(simulated(folder, policy) for policy in ("ddsra:v=1", "random", "cs_ucb_q")))


def embedded(collection: Collection) -> dict[str, Any]:
    """What the page contains, as its script reads it."""
    results = results_of(collection)
    data = with_decisions(results, single_runs(results)).data
    page: dict[str, Any] = json.loads(json.dumps(plain(data), allow_nan=False))
    return page


def planned(run: ReadRun, number: int, policy: str | None = None) -> dict[str, Any]:
    """What `fedfloor plan` answers, with the digits that a page has."""
    answer = dict(fedfloor.plan(run.folder, policy, round=number))
    del answer["solve_s"]  # it differs every time
    page: dict[str, Any] = json.loads(json.dumps(plain(answer)))
    return page


def put_together(page: Mapping[str, Any], entry: Mapping[str, Any], row: list[Any]) -> dict[str, Any]:
    """The answer that the lists of a round stand for, as the page's script puts it together."""
    keys, plant = page["answer"], page["plants"][entry["plant"]]
    idle = {key: None if key in ("channel", "failure") else 0 for key in keys["floor"]}
    gateways = []
    for m, (name, values) in enumerate(zip(plant["floors"], row[len(keys["round"])], strict=True)):
        devices = [device for device, floor in zip(plant["devices"], plant["of"], strict=True) if floor == m]
        if len(values) == len(keys["leftOut"]):
            gateways.append({"name": name, **idle, **dict(zip(keys["leftOut"], values, strict=True)), "devices": []})
            continue
        own = [
            {"name": device, **dict(zip(keys["device"], part, strict=False))}
            for device, part in zip(devices, values[-1], strict=True)
        ]
        gateways.append({"name": name, **dict(zip(keys["floor"], values[:-1], strict=True)), "devices": own})
    head = {key: entry["decisions"][key] for key in keys["head"]}
    return {**head, **dict(zip(keys["round"], row, strict=False)), "gateways": gateways}


def test_every_round_is_what_plan_answers(compared: Collection) -> None:
    page = embedded(compared)
    for run, entry in zip(compared.runs, page["runs"], strict=True):
        rows = entry["decisions"]["rounds"]
        assert [row[0] for row in rows] == list(range(len(run.records)))
        for number, row in enumerate(rows):
            assert put_together(page, entry, row) == planned(run, number)


def test_other_policies_decide_as_plan_with_their_names_does(compared: Collection) -> None:
    page = embedded(compared)
    run, entry = compared.runs[0], page["runs"][0]
    assert entry["decisions"]["others"] == [str(PolicySpec("random")), str(compared.runs[2].policy)]
    for number, row in enumerate(entry["decisions"]["rounds"]):
        for name, decided in zip(entry["decisions"]["others"], row[-1], strict=True):
            answer = planned(run, number, name)
            floors = [
                [m, floor["channel"], floor["delay_s"], floor["failure"], [part["cut"] for part in floor["devices"]]]
                for m, floor in enumerate(answer["gateways"])
                if floor["channel"] is not None
            ]
            assert decided == [answer["delay_s"], floors]


def test_queues_and_target_rates_are_those_of_the_log(compared: Collection) -> None:
    page = embedded(compared)
    for run, entry in zip(compared.runs, page["runs"], strict=True):
        for record, row in zip(run.records, entry["decisions"]["rounds"], strict=True):
            assert row[-3] == [plain(gateway.queue) for gateway in record.gateways]
            assert row[-2] == [plain(gateway.target_rate) for gateway in record.gateways]


def test_a_single_run_is_compared_with_well_known_policies(compared: Collection) -> None:
    (entry,) = embedded(collection_of(compared.runs[1]))["runs"]
    assert [name.partition(":")[0] for name in entry["decisions"]["others"]] == [
        name for name in decisions.OTHERS if name != "random"
    ]


def test_rounds_are_thinned_and_counted_before_they_are_decided(
    compared: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "_ROUNDS", 9)  # three per run
    monkeypatch.setattr(decisions, "_OTHER_ROUNDS", 12)  # of two policies, two rounds per run
    results, told = results_of(compared), list[tuple[int, int]]()
    data = with_decisions(results, single_runs(results), lambda done, of, _: told.append((done, of))).data
    page = json.loads(json.dumps(plain(data)))
    for entry in page["runs"]:
        assert [row[0] for row in entry["decisions"]["rounds"]] == [0, 2, 5]
        assert [row[-1] is not None for row in entry["decisions"]["rounds"]] == [True, False, True]
    assert told[-1] == (21, 21)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_page_has_a_bounded_number_of_numbers(compared: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "_NUMBERS", 0)
    for entry in embedded(compared)["runs"]:
        assert [row[0] for row in entry["decisions"]["rounds"]] == [0, 5]


@pytest.mark.parametrize("settings", ["", ":alpha=2", ":alpha=2,beta=a:b=c"])
def test_code_that_a_folder_names_is_not_run(
    compared: Collection, settings: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "foreign_policy.py").write_text("raise SystemExit('this code ran')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    own, random = compared.runs[0], compared.runs[1]
    policy = own.scenario.policy.model_copy(update={"name": "foreign_policy:Policy", "settings": {}})
    scenario = own.scenario.model_copy(update={"policy": policy})
    foreign = dataclasses.replace(own, scenario=scenario, policy=f"foreign_policy:Policy{settings}")
    first, second = embedded(collection_of(foreign, random))["runs"]
    assert "foreign_policy" not in sys.modules
    assert "names code that would run" in first["decisions"]["problem"]
    assert second["decisions"]["others"] == []
    assert "a report does not run" in second["decisions"]["omissions"][0]


def test_a_log_that_disagrees_with_its_scenario_is_told_of(compared: Collection) -> None:
    def change(t: int, record: dict[str, Any]) -> None:
        record["gateways"][0]["energy_budget_j"] = 123.0

    (entry,) = embedded(collection_of(changed(compared.runs[1], change)))["runs"]
    assert "disagree about the energy of round 0" in entry["decisions"]["problem"]


def test_paths_of_this_machine_stay_off_the_page(compared: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    (entry,) = embedded(collection_of(compared.runs[1]))["runs"]
    assert compared.runs[1].folder.is_absolute()
    assert entry["decisions"]["folder"] == compared.runs[1].folder.name
    monkeypatch.chdir(compared.runs[1].folder.parent.parent)
    relative = Path(compared.runs[1].folder.parent.name, compared.runs[1].folder.name)
    (entry,) = embedded(collection_of(dataclasses.replace(compared.runs[1], folder=relative)))["runs"]
    assert entry["decisions"]["folder"] == str(relative)


def test_rounds_that_are_decided_otherwise_than_logged_are_told_of(compared: Collection) -> None:
    run = compared.runs[1]
    assert all(entry["decisions"]["differing"] == [] for entry in embedded(compared)["runs"])
    scenario = run.scenario.model_copy(update={"policy": Policy(name="round_robin")})
    (entry,) = embedded(collection_of(dataclasses.replace(run, scenario=scenario)))["runs"]
    decided = [fedfloor.plan(run.folder, "round_robin", round=at).gateways for at in range(len(run.records))]
    differing = [
        at
        for at, (record, floors) in enumerate(zip(run.records, decided, strict=True))
        if [floor["channel"] for floor in floors] != [floor.channel for floor in record.gateways]
    ]
    assert 0 < len(differing) < len(run.records)
    assert entry["decisions"]["differing"] == differing


def test_the_last_digits_of_another_machine_make_no_other_decision(compared: Collection) -> None:
    def change(t: int, record: dict[str, Any]) -> None:
        for gateway in record["gateways"]:
            for device in gateway.get("devices", ()):
                device["gateway_frequency_hz"] *= 1.0 + (1e-15 if t else 1e-3)

    (entry,) = embedded(collection_of(changed(compared.runs[1], change)))["runs"]
    assert entry["decisions"]["differing"] == [0]
