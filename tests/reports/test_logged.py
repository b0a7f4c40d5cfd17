"""A log is read round by round: what it gives is what the whole log in memory would give."""

import gc
import json
from dataclasses import replace
from pathlib import Path

import pytest

import fedfloor
from fedfloor.errors import RunLogError
from fedfloor.reports.decisions import with_decisions
from fedfloor.reports.exploring import single_runs
from fedfloor.reports.logged import LoggedRounds, read_rounds
from fedfloor.reports.page import content_of, write_page
from fedfloor.reports.reading import ReadRun, collect
from fedfloor.reports.results import results_of
from fedfloor.reports.tables import tables
from fedfloor.rounds.lines import parse_record
from fedfloor.rounds.record import RoundRecord
from fedfloor.rounds.summary import summarise
from fedfloor.runs.folder import read_records, scenario_of
from tests.reports.made_up import gathered, made_up


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Eight rounds, of which every third was tested."""
    fedfloor.simulate("quick", "random", rounds=8, out=tmp_path / "run")
    path = tmp_path / "run" / "rounds.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records[::3]:
        record["accuracy"] = record["round"] / 10
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return tmp_path / "run"


def logged(folder: Path) -> LoggedRounds:
    return read_rounds(folder, scenario_of(folder)).rounds


def test_logged_rounds_are_the_records_of_the_log(folder: Path) -> None:
    rounds, records = logged(folder), read_records(folder)
    assert list(rounds) == records
    assert [rounds[at] for at in range(-8, 8)] == [records[at] for at in range(-8, 8)]
    assert list(rounds[2:7:2]) == records[2:7:2]
    assert (len(rounds), len(rounds[:3])) == (8, 3)
    with pytest.raises(IndexError):
        rounds[8]


def test_tests_are_known_without_another_pass(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = collect([folder]).runs[0]
    monkeypatch.setattr("fedfloor.reports.logged.parse_record", None)
    assert run.tests == ([1, 4, 7], [0.0, 0.3, 0.6])
    assert replace(run, records=run.records[2:5]).tests == ([4], [0.3])


def test_the_summary_of_a_log_is_that_of_its_records(folder: Path) -> None:
    assert collect([folder]).runs[0].summary == summarise(read_records(folder))


def test_no_round_of_a_log_stays_in_memory(folder: Path) -> None:
    def kept() -> int:
        return sum(type(entry) is RoundRecord for entry in gc.get_objects())

    before = kept()
    collection = collect([folder])
    results = results_of(collection)
    assert tables(collection)
    assert kept() == before
    assert results.series[0].runs[0].rounds.tolist() == list(range(1, 9))


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Lines that were parsed after a log was read."""
    lines: list[bytes] = []

    def parse(line: bytes) -> RoundRecord:
        lines.append(line)
        return parse_record(line)

    monkeypatch.setattr("fedfloor.reports.logged.parse_record", parse)
    return lines


def test_tables_and_figures_parse_no_round_again_but_the_first(folder: Path, parsed: list[bytes]) -> None:
    path = folder / "rounds.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        record["accuracy"], record["loss"] = 0.1 * record["round"], 1.0
        floor = next(entry for entry in record["gateways"] if entry["selected"])
        floor |= {"completed": False, "failure": "energy"}
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    collection = collect([folder])
    results = results_of(collection)
    assert tables(collection)
    assert len(content_of(results, (), single_runs(results)).parts) > 2
    assert set(parsed) <= set(path.read_bytes().splitlines(keepends=True)[:1])
    assert len(parsed) <= 1


def test_rounds_are_parsed_once_more_to_be_decided_again(folder: Path, parsed: list[bytes]) -> None:
    results = results_of(collect([folder]))
    decided = with_decisions(results, single_runs(results))
    assert parsed == (folder / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    assert len(decided.data["runs"][0]["decisions"]["rounds"]) == 8  # type: ignore[index]


def test_a_shorter_run_is_counted_once(folder: Path, parsed: list[bytes]) -> None:
    run = collect([folder]).runs[0]
    assert run.first(3).summary == summarise(read_records(folder)[:3])
    assert run.first(3) is run.first(3)
    assert run.first(8) is run
    assert len(parsed) == 3


def test_a_log_that_changes_while_it_is_read_is_named(folder: Path) -> None:
    rounds = logged(folder)
    path = folder / "rounds.jsonl"
    path.write_text(path.read_text()[10:])
    with pytest.raises(RunLogError, match=r"rounds\.jsonl: has changed while it was read. Report again"):
        list(rounds)


def page_of(run: ReadRun, folder: Path) -> str:
    path = folder / "report.html"
    write_page(results_of(gathered(run)), (), path)
    return path.read_text(encoding="utf-8")


def test_what_is_thinned_is_said_where_it_is_thinned(tmp_path: Path) -> None:
    short, long = (page_of(made_up("random", rounds=rounds), tmp_path) for rounds in (800, 1100))
    assert "evenly spread" not in short.split("<script")[0]
    delay = long.split('aria-label="Cumulative delay.')[1].split("</figure>")[0]
    assert "Long lines are drawn through 800 of their points, evenly spread; tables use all rounds." in delay
    run = long.split('<section id="run"')[1].split("</section>")[0]
    assert run.count("show some of the rounds, evenly spread") == 1
    assert "evenly spread" not in long.split("<footer>")[1].split("</footer>")[0]
