"""`fedfloor report` and `fedfloor.report`: what they write, where, and what they say of folders that are not right."""

import csv
import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import fedfloor
import fedfloor.reports.making
from fedfloor.cli.show import reports as printed
from fedfloor.cli.show import terminal
from fedfloor.errors import FailedRunError, MissingExtraError, RunLogError
from fedfloor.files import only_writer
from fedfloor.reports.answers import answers
from fedfloor.reports.cells import Table
from fedfloor.reports.export import write_csv
from fedfloor.reports.making import Report
from fedfloor.reports.markup import table_html
from fedfloor.reports.reading import collect
from fedfloor.reports.saving import save
from fedfloor.reports.tables import tables
from fedfloor.rounds.summary import summarise
from fedfloor.theory.bounds import Bound
from tests.reports.made_up import gathered, made_up
from tests.test_packaging import without_extras

Command = Callable[..., subprocess.CompletedProcess[str]]
#: the beginning of a page that the first version of fedfloor with reports has written
OLD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="fedfloor">
"""
ALL = {"scenario.toml", "rounds.jsonl", "timings.jsonl", "report.html", "figures"}


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two policies and two seeds."""
    folder = tmp_path_factory.mktemp("simulated")
    for policy in ("random", "round_robin"):
        for seed in (1, 2):
            fedfloor.simulate("quick", policy, rounds=4, seed=seed, out=folder / f"{policy}-{seed}")
    return folder


@pytest.fixture
def runs(simulated: Path, tmp_path: Path) -> Path:
    """A copy to write to and to damage."""
    return Path(shutil.copytree(simulated, tmp_path / "runs"))


def test_one_run_is_reported_in_its_own_folder(runs: Path) -> None:
    done = fedfloor.report(runs / "random-1")
    assert {path.name for path in (runs / "random-1").iterdir()} == ALL
    assert done.page == runs / "random-1" / "report.html"
    assert done.page.read_text(encoding="utf-8").lower().startswith("<!doctype html>")
    assert set(done.figures) == set((runs / "random-1" / "figures").iterdir())
    assert repr(done) == f"Report(quick, 1 runs, {len(done.figures)} figures, page={done.page})"


def test_a_folder_of_runs_gets_the_report_and_the_runs_none(runs: Path, fedfloor_command: Command) -> None:
    done = fedfloor_command("report", "runs", "--quiet")
    assert done.returncode == 0, done.stderr
    assert "quick: policies side by side" in done.stdout
    assert "page: runs/report.html" in done.stdout
    assert (runs / "report.html").exists()
    assert not (runs / "random-1" / "report.html").exists()
    assert done.stderr == ""


@pytest.mark.parametrize("width", [60, 80, 120, 160])
@pytest.mark.parametrize("several", [2, 9])
def test_all_tables_are_printed_and_nothing_is_cut(
    width: int, several: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    report = with_all_tables(several)
    monkeypatch.setattr(terminal.OUT, "width", width)
    printed.print_report(report)
    text = capsys.readouterr().out
    assert len(report.tables) == 6
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    words = set(text.replace(";", " ").split())
    for table in report.tables:
        assert table.title.split()[-1] in words
        for row in table.rows:
            assert {word for cell in row for word in cell.replace(";", " ").split()} <= words, row


@cache
def with_all_tables(several: int) -> Report:
    """So many policies of the paper's scenario on two seeds."""
    policies = ["ddsra:v=0.01,solver=exact", "ddsra:v=0.01,solver=paper", "random", "round_robin", "loss_driven"]
    policies += ["delay_driven", "participation", "ddsra:v=10000,solver=exact", "ddsra:v=10000,solver=paper"]
    bound = Bound("Theorem 2", "worst shortfall", 0.1, 0.2, "a note")
    runs = [
        made_up(policy, seed, accuracies=[0.5 + seed / 100], failed=(0,), delay=9.0 + seed, bounds=(bound,))
        for policy in policies[:several]
        for seed in (1, 2)
    ]
    collection = gathered(*runs)
    return Report(collection, answers(collection), tables(collection), Path("report.html"), (), None)


def test_programs_find_the_names_of_the_tables(tmp_path: Path) -> None:
    report = with_all_tables(2)
    labels = {row[0] for row in report.tables[0].rows}
    assert labels == {"ddsra:v=0.01", "ddsra:v=0.01,solver=paper"}
    runs: Any = report.as_json()["runs"]
    assert {run["label"] for run in runs} == labels
    assert {run["policy"] for run in runs} == {"ddsra:v=0.01,solver=exact", "ddsra:v=0.01,solver=paper"}
    write_csv(report.collection, tmp_path / "all.csv")
    with (tmp_path / "all.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["label"] for row in rows} == labels
    assert {row["policy"] for row in rows} == {run["policy"] for run in runs}


def test_every_failure_is_in_a_column_of_the_csv(tmp_path: Path) -> None:
    run = made_up("random", rounds=30, failed=(0,))
    records = [
        replace(
            record, gateways=tuple(replace(floor, failure=floor.failure and f"cause {at}") for floor in record.gateways)
        )
        for at, record in enumerate(run.records)
    ]
    collection = gathered(replace(run, records=tuple(records), summary=summarise(records)))
    write_csv(collection, tmp_path / "all.csv")
    with (tmp_path / "all.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [sum(int(value) for key, value in row.items() if key.startswith("failed_")) for row in rows] == [1] * 30
    assert sum(int(row["failed_other"]) for row in rows) == collection.runs[0].summary.failures["other"] == 10


def test_a_table_is_turned_before_its_rows_are_written_one_by_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table("title", ("policy", *(f"figure-{n}" for n in range(9))), (("ours", *"123456789"),) * 2, "")
    for width, line in ((120, "ours 1 2 3 4 5 6 7 8 9"), (40, "figure-8 9 9"), (12, "figure-0:")):
        monkeypatch.setattr(terminal.OUT, "width", width)
        printed._print(table)
        shown = [" ".join(text.split()) for text in capsys.readouterr().out.splitlines()]
        assert any(text.startswith(line) for text in shown), shown


def test_a_long_text_is_no_tower(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal.OUT, "width", 80)
    rows = tuple((f"a-policy-of-{n:060}", "a word " * 20) for n in range(30))
    printed._print(Table("title", ("policy", "note"), rows, ""))
    assert len(capsys.readouterr().out.splitlines()) < 4 * len(rows)


def test_several_folders_are_reported_in_report(runs: Path, tmp_path: Path, fedfloor_command: Command) -> None:
    done = fedfloor_command("report", "runs/random-1", "runs/round_robin-1", "--format", "json", "--csv", "all.csv")
    found = json.loads(done.stdout)
    assert found["report"] == "report/report.html"
    assert [run["policy"] for run in found["runs"]] == ["random", "round_robin"]
    assert found["runs"][0]["final_accuracy"] is None
    assert found["runs"][0]["mean_delay_s"] > 0
    assert all((tmp_path / path).exists() for path in (*found["figures"], found["report"], found["csv"]))
    assert found["tables"][0]["columns"][0] == "policy"


def test_an_old_report_is_replaced_and_nothing_else_touched(runs: Path) -> None:
    (runs / "figures").mkdir()
    for name in ("figures/delay.png", "figures/divergence.png", "figures/mine.png", "notes.txt"):
        (runs / name).write_text("old")
    (runs / "report.html").write_text(OLD)
    before = (runs / "random-1" / "rounds.jsonl").read_bytes()
    fedfloor.report(runs)
    assert (runs / "report.html").stat().st_size > 1000
    assert (runs / "figures" / "delay.png").read_bytes().startswith(b"\x89PNG")
    assert not (runs / "figures" / "divergence.png").exists()  # of no use: these runs have no such figure
    assert (runs / "figures" / "mine.png").read_text() == (runs / "notes.txt").read_text() == "old"
    assert (runs / "random-1" / "rounds.jsonl").read_bytes() == before


@pytest.mark.parametrize("content", ["<!doctype html><title>of somebody else</title>", "", "fedfloor report", None])
def test_a_page_of_somebody_elses_is_not_replaced(content: str | None, runs: Path, fedfloor_command: Command) -> None:
    page = runs / "report.html"
    os.mkfifo(page) if content is None else page.write_text(content)
    before = sorted(runs.rglob("*"))
    done = fedfloor_command("report", "runs", "--csv", "rounds.csv")
    assert (done.returncode, done.stdout) == (2, "")
    advice = "Name another folder, or remove the file first"
    assert done.stderr == f"error: runs/report.html: exists, but is not a report of fedfloor. {advice}\n"
    assert sorted(runs.rglob("*")) == before
    assert not (runs.parent / "rounds.csv").exists()
    assert content is None or page.read_text() == content


def test_a_comparison_refuses_a_page_of_somebody_elses_before_it_trains(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(RunLogError, match=r"report\.html: exists, but is not a report of fedfloor"):
        fedfloor.compare("quick", ["random"], seeds=1, rounds=1, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_report_is_recognised_as_one(runs: Path) -> None:
    page = fedfloor.report(runs / "random-1").page
    first = page.read_bytes()
    assert fedfloor.report(runs / "random-1").page.read_bytes() == first


@pytest.mark.parametrize(
    ("name", "cell"),
    [(name, f"'{name}") for name in ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1+1")]
    + [("\n=1+1", "'\n=1+1"), ("\r=1+1", "\ufffd=1+1"), ("a\r=1+1", "a\ufffd=1+1")],
)
def test_no_text_in_the_csv_is_a_formula(name: str, cell: str, runs: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(runs / "random-1", tmp_path / "run")
    records = [json.loads(line) | {"policy": name} for line in (folder / "rounds.jsonl").read_text().splitlines()]
    (folder / "rounds.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    fedfloor.report(folder, csv=tmp_path / "all.csv", out=tmp_path / "here")
    with (tmp_path / "all.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["policy"] for row in rows} == {cell}
    assert [float(row["delay_s"]) for row in rows] == [record["delay_s"] for record in records]


def test_the_csv_has_a_row_per_run_and_round(runs: Path, tmp_path: Path) -> None:
    fedfloor.report(runs, csv=tmp_path / "all.csv", out=tmp_path / "here")
    with (tmp_path / "all.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 16
    assert list(rows[0]) == [
        "folder", "policy", "variant", "seed", "round", "delay_s", "clock_s", "accuracy", "loss", "selected",
        "completed", "failed_energy", "failed_memory", "failed_lost", "energy_j", "raw_devices", "label",
    ]  # fmt: skip
    columns = fedfloor.read(runs / "random-1")
    mine = [row for row in rows if row["folder"] == str(runs / "random-1")]
    assert [float(row["clock_s"]) for row in mine] == columns["clock_s"]
    assert [float(row["energy_j"]) for row in mine] == columns["energy_j"]
    assert {row["accuracy"] for row in rows} == {""}
    for row in rows:
        failed = sum(int(row[f"failed_{cause}"]) for cause in ("energy", "memory", "lost"))
        assert int(row["selected"]) == int(row["completed"]) + failed


def damage(folder: Path, kind: str) -> str:
    """Make a run folder wrong; returns what the message has to say."""
    log, scenario = folder / "rounds.jsonl", folder / "scenario.toml"
    if kind == "empty":
        shutil.rmtree(folder)
        folder.mkdir()
        return ""
    if kind == "no rounds":
        log.write_text("")
        return "has no round yet"
    if kind == "no log":
        log.unlink()
        return "has no rounds.jsonl"
    if kind == "no scenario":
        scenario.unlink()
        return "has no scenario.toml"
    if kind == "torn in the middle":
        lines = log.read_text().splitlines()
        log.write_text("\n".join([lines[0], lines[1][:40], *lines[2:]]) + "\n")
        return "line 2: is not JSON"
    if kind == "unknown scenario key":
        scenario.write_text("colour = 3\n" + scenario.read_text())
        return "colour"
    if kind == "missing record key":
        entries = [json.loads(line) for line in log.read_text().splitlines()]
        log.write_text("".join(json.dumps({k: v for k, v in e.items() if k != "clock_s"}) + "\n" for e in entries))
        return "line 1: has no 'clock_s'. It is damaged, or was written by another version"
    if kind in ("fewer floors", "no rate", "device without energy"):
        entries = [json.loads(line) for line in log.read_text().splitlines()]
        gateways = entries[1]["gateways"]
        if kind == "fewer floors":
            gateways.pop()
        elif kind == "no rate":
            gateways[0]["target_rate"] = None
        else:
            at = next(m for m, gateway in enumerate(gateways) if gateway["selected"])
            del gateways[at]["devices"][0]["energy_j"]
        log.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
        return {
            "fewer floors": "line 2: gateways: must be the 6 floors of the scenario",
            "no rate": "line 2: gateways[0].target_rate: must be a number, got None",
            "device without energy": ".devices[0].energy_j'. It is damaged",
        }[kind]
    assert kind == "other scenario"
    scenario.write_text(scenario.read_text().replace('name = "quick"', 'name = "other"', 1))
    return "is of scenario"


KINDS = ["no rounds", "no log", "no scenario", "torn in the middle", "unknown scenario key", "missing record key"]
KINDS += ["fewer floors", "no rate", "device without energy"]


@pytest.mark.parametrize("kind", [*KINDS, "other scenario"])
def test_a_bad_run_is_told_of_and_the_others_are_shown(kind: str, runs: Path) -> None:
    expected = damage(runs / "round_robin-2", kind)
    found = collect([runs])
    (problem,) = found.problems
    assert "round_robin-2" in problem
    assert expected in problem
    assert len(found.runs) == 3


@pytest.mark.parametrize("kind", ["empty", *KINDS])
def test_a_bad_run_alone_is_an_error(kind: str, runs: Path) -> None:
    expected = damage(runs / "random-1", kind)
    with pytest.raises(
        RunLogError if kind != "unknown scenario key" else fedfloor.FedfloorError, match="random-1"
    ) as e:
        fedfloor.report(runs / "random-1")
    assert (expected or "is empty") in str(e.value)
    assert not (runs / "random-1" / "report.html").exists()


@pytest.mark.parametrize("wrong", ["nowhere", "plant.toml"])
def test_a_path_that_is_no_folder_is_refused_before_anything_is_written(
    runs: Path, fedfloor_command: Command, wrong: str
) -> None:
    (runs.parent / "plant.toml").touch()
    done = fedfloor_command("report", "runs/random-1", wrong, "--out", "here", "--quiet")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {wrong}: {'does not exist' if wrong == 'nowhere' else 'is a file'}")
    assert not (runs.parent / "here").exists()


def test_problems_are_warnings_and_none_left_is_exit_code_2(runs: Path, fedfloor_command: Command) -> None:
    damage(runs / "random-1", "no rounds")
    done = fedfloor_command("report", "runs/random-1", "runs/random-2", "--out", "here", "--quiet")
    assert done.returncode == 0
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["warning"]
    done = fedfloor_command("report", "runs/random-1")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: runs/random-1: has no round yet")
    assert done.stdout == ""


def test_a_torn_last_line_is_a_round_that_is_still_going(runs: Path) -> None:
    log = runs / "random-1" / "rounds.jsonl"
    log.write_text(log.read_text()[:-50])
    done = fedfloor.report(runs / "random-1")
    assert done.collection.problems == ()
    assert done.tables[0].rows[0][-2] == "still running: 3 of 4"


def test_a_folder_that_is_named_twice_is_read_once_and_first(runs: Path) -> None:
    found = collect([runs / "round_robin-1", runs])
    assert found.series[0].label == "round_robin"
    assert not any("repeats" in problem for problem in found.problems)


def test_places_that_cannot_be_written_are_refused(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunLogError, match=r"file: is a file, not a folder. Name another folder"):
        fedfloor.report(runs, out=tmp_path / "file")
    with pytest.raises(RunLogError, match=r"/proc/nowhere: cannot be written: .* Name another folder"):
        fedfloor.report(runs, out="/proc/nowhere")
    with pytest.raises(RunLogError, match=r"there is no folder .*missing. Make it, or name another file"):
        fedfloor.report(runs, csv=tmp_path / "missing" / "all.csv")
    with pytest.raises(RunLogError, match=r"is a folder. Name a file"):
        fedfloor.report(runs, csv=tmp_path)
    before = (runs / "random-1" / "rounds.jsonl").read_bytes()
    with pytest.raises(RunLogError, match=r"rounds.jsonl: must end in .csv. Name it rounds.csv"):
        fedfloor.report(runs, csv=runs / "random-1" / "rounds.jsonl")
    assert (runs / "random-1" / "rounds.jsonl").read_bytes() == before
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(RunLogError, match=r"pipe.csv: is a pipe or a device, not a plain file"):
        fedfloor.report(runs, csv=tmp_path / "pipe.csv")
    assert (tmp_path / "file").read_text() == "mine"


def test_two_reports_into_one_folder_do_not_mix(runs: Path, tmp_path: Path) -> None:
    out, table = tmp_path / "out", tmp_path / "rounds.csv"
    (out / "figures").mkdir(parents=True)
    refusal = r"figures: another process is writing to it. Wait for it, or name another folder"
    with only_writer(out / "figures", again=""):
        with pytest.raises(RunLogError, match=refusal):
            fedfloor.report(runs / "random-1", out=out, csv=table)
        assert (list((out / "figures").iterdir()), (out / "report.html").exists(), table.exists()) == ([], False, False)
    seen: list[str] = []

    def meanwhile(step: str) -> None:
        if step == "page":
            with pytest.raises(RunLogError, match="another process is writing to it"):
                fedfloor.report(runs / "random-2", out=out)
            seen.append(step)

    fedfloor.report(runs / "random-1", out=out, on_step=meanwhile)
    assert seen == ["page"]
    fedfloor.report(runs / "random-2", out=out)  # the lock is gone


def test_a_report_that_is_interrupted_leaves_everything_as_it_was(runs: Path, tmp_path: Path) -> None:
    def interrupt(step: str) -> None:
        if step == "page":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedfloor.report(runs / "random-1", out=tmp_path / "new", on_step=interrupt)
    assert list((tmp_path / "new").iterdir()) == []
    old = fedfloor.report(runs / "random-1", out=tmp_path / "old")
    files = {path: path.read_bytes() for path in (old.page, *old.figures)}
    with pytest.raises(KeyboardInterrupt):
        fedfloor.report(runs, out=tmp_path / "old", on_step=interrupt)
    assert {path: path.read_bytes() for path in (tmp_path / "old").rglob("*.*")} == files


def test_a_run_that_goes_on_can_be_reported_in_its_folder(runs: Path) -> None:
    with only_writer(runs / "random-1", again=""):
        assert fedfloor.report(runs / "random-1").page.exists()


def test_figures_are_not_written_through_a_link(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "figures").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunLogError, match="figures: is a symbolic link"):
        fedfloor.report(runs / "random-1", out=tmp_path / "out")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_only_the_user_can_read_a_new_report(runs: Path, tmp_path: Path) -> None:
    fedfloor.report(runs / "random-1", out=tmp_path / "new")
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "new", tmp_path / "new" / "figures")] == [0o700, 0o700]


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_text("old")

    def fail(part: Path) -> None:
        part.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(FailedRunError, match=r"page: cannot be written: No space left on device. Make room"):
        save(path, fail)
    assert [entry.name for entry in tmp_path.iterdir()] == ["page"]
    assert path.read_text() == "old"


def test_other_things_than_folders_are_refused() -> None:
    with pytest.raises(RunLogError, match=r"runs that have one, got Run\(.*folder=None\)\. Run it with out"):
        fedfloor.report(fedfloor.simulate("quick", "random", rounds=1))
    with pytest.raises(RunLogError, match="runs: must be run folders, or runs that have one, got 3"):
        fedfloor.report([3])  # type: ignore[list-item]
    with pytest.raises(RunLogError, match="no run folder is named"):
        fedfloor.report([])


def test_without_the_extra_nothing_is_written_and_its_install_command_is_named(runs: Path) -> None:
    before = sorted(runs.parent.rglob("*"))
    done = without_extras("report", "runs", "--csv", "all.csv", cwd=runs.parent)
    assert done.returncode == 2
    assert "pip install 'fedfloor[report]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(runs.parent.rglob("*")) == before


@pytest.mark.parametrize("library", ["matplotlib", "plotly"])
def test_either_library_of_the_extra_is_needed(library: str, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # as if it were not installed
    with pytest.raises(MissingExtraError, match=r"a report needs the extra 'report'.*pip install 'fedfloor\[report\]'"):
        fedfloor.report(runs)
    assert not (runs / "figures").exists()


def test_help_has_an_example(fedfloor_command: Command) -> None:
    assert "fedfloor report" in fedfloor_command("report", "--help").stdout.split("Example:")[1]


@pytest.mark.slow
def test_a_training_run_shows_what_it_learnt(tmp_path: Path) -> None:
    overrides = ["participation.observe_every=1", "training.evaluate_every=1"]
    fedfloor.run("quick", "random", rounds=2, workers=1, overrides=overrides, out=tmp_path / "run")
    done = fedfloor.report(tmp_path / "run")
    assert {"accuracy-rounds", "accuracy-time", "data", "rates", "divergence"} <= {path.stem for path in done.figures}
    assert [table.title for table in done.tables][-1] == "theory"
    assert done.tables[0].rows[0][1].endswith(" %")


def test_a_column_without_any_value_is_not_drawn() -> None:
    table = Table("at a glance", ("policy", "steadiness", "rounds"), (("random", "", "4"), ("ddsra", "", "")), "")
    drawn = table_html(table, ())
    assert "steadiness" not in drawn
    assert "rounds" in drawn
    assert drawn.count("<td>") == 2
