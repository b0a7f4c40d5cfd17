"""What commands print at a terminal of 80 columns: nothing that counts is cut."""

import dataclasses
import io
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from fedfloor import api
from fedfloor.cli.show import comparisons, datasets, machines, reports, runs, scenarios, terminal, watching
from fedfloor.rounds.events import Event
from fedfloor.rounds.record import GatewayRecord, RoundRecord
from fedfloor.rounds.summary import summarise
from fedfloor.runs.planned import PlannedRun, planned_run
from fedfloor.scheduling.registry import make_policy, parse_policy, shown_name
from fedfloor.scheduling.solver import compiling
from fedfloor.theory.bounds import Bound
from fedfloor.training.data.fetching import Verified
from fedfloor.training.data.holding import HoldingTable


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Standard output and error of 80 columns."""
    said = io.StringIO()
    out = Console(file=said, width=80, force_terminal=True, color_system=None, highlight=False, markup=False)
    for module in (terminal, datasets, runs, watching):
        for name in ("OUT", "ERR"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, out)
    return said


def lines(said: io.StringIO) -> list[str]:
    return said.getvalue().splitlines()


def test_a_table_cuts_no_word_and_no_number(narrow: io.StringIO) -> None:
    table = terminal.table_of("wide", "name", "a text of several words", *"abcdefgh")
    text = "words that go on until the line is full"
    table.add_row("hall-1", text, *["123,456.7"] * 8)
    terminal.print_table(table)
    assert "…" not in narrow.getvalue()
    assert narrow.getvalue().count("123,456.7") == 8
    assert all(word in narrow.getvalue() for word in text.split())


def test_a_table_that_fits_when_its_gaps_narrow_stays_in_the_line(narrow: io.StringIO) -> None:
    table = terminal.table_of("", "", *map(str, range(10)), "right")
    table.add_row("0", *["1000"] * 10, "100%")
    terminal.print_table(table)
    assert all(len(line) <= 80 for line in lines(narrow))
    assert narrow.getvalue().count("1000") == 10


def holding(classes: list[list[int]], name: str = "hall.camera-{}", asked: int = 0) -> HoldingTable:
    devices: Any = [
        {"floor": "hall", "name": name.format(n), "asked": max(asked, sum(row)), "held": sum(row), "classes": row}
        for n, row in enumerate(classes)
    ]
    return {"data": "mine", "origin": "here", "partition": "iid", "test_samples": 5, "devices": devices}


def test_who_holds_what_fits_80_columns_and_says_what_a_shade_means(narrow: io.StringIO) -> None:
    datasets.print_holding(holding([[0, 1, 80, 81, 161, 242, 322, 0, 0, 0]], asked=2000))
    assert "hall.camera-0   . ░ ░ ▒ ▒ █ █ . . .   887 of 2,000" in narrow.getvalue()
    assert ". no, ░ 1 to 80, ▒ 81 to 161, ▓ 162 to 241, █ 242 to 322 samples of a class" in narrow.getvalue()
    assert "floor" not in narrow.getvalue()


def test_the_floor_is_shown_where_no_device_says_it(narrow: io.StringIO) -> None:
    datasets.print_holding(holding([[1, 2]], name="camera-{}"))
    assert "hall    camera-0   ░" not in narrow.getvalue()  # 1 of 2 is half
    assert "hall    camera-0   ▒ █" in narrow.getvalue()
    assert ". no, ▒ 1, █ 2 samples of a class" in narrow.getvalue()


@pytest.mark.parametrize(("classes", "expected"), [(10, "█ █ █"), (50, "███"), (200, "      200   200")])
def test_many_classes_stand_closer_or_are_counted(classes: int, expected: str, narrow: io.StringIO) -> None:
    datasets.print_holding(holding([[1] * classes]))
    assert expected in narrow.getvalue()
    assert all(len(line) <= 80 for line in lines(narrow))


def test_numbers_to_predict_have_no_classes(narrow: io.StringIO) -> None:
    datasets.print_holding(holding([[7]], name="camera-{}"))
    assert "class" not in narrow.getvalue()
    assert "7" in narrow.getvalue()


def test_files_are_named_once(narrow: io.StringIO) -> None:
    datasets.print_holding(holding([[1, 2]]) | {"data": "logs/*.csv", "origin": "42 files logs/*.csv"})
    assert lines(narrow)[0].startswith("logs/*.csv (42 files)")


def test_own_data_has_no_partition(narrow: io.StringIO) -> None:
    table = holding([[1, 2]])
    table["partition"] = None
    datasets.print_holding(table)
    assert lines(narrow)[0] == "mine (here)"


def test_a_verified_data_set_shows_its_classes_as_rows(narrow: io.StringIO) -> None:
    report = Verified(
        name="mine", origin="here", files=(), training=12345, test=7, classes=10, shape=(1, 2, 2),
        training_per_class=(1012,) * 10, test_per_class=(100,) * 10,
    )  # fmt: skip
    datasets.print_verified(report)
    assert narrow.getvalue().count("1,012    100") == 10


def trained(policy: str, *bounds: Bound) -> Any:
    """A run of one round, resumed and with nothing left to do."""
    hall = GatewayRecord(
        name="hall", selected=True, completed=True, failure=None, delay_s=0.1, energy_j=0.5, queue=0.0,
        target_rate=0.5, loss=1.0,
    )  # fmt: skip
    record = RoundRecord(
        round=0, policy=policy, delay_s=0.1, clock_s=12.0, accuracy=0.6, loss=1.2, gateways=(hall,)
    )  # fmt: skip
    labels = SimpleNamespace(labels=SimpleNamespace(size=4415), test_labels=SimpleNamespace(size=1000))
    held = SimpleNamespace(samples=labels, histogram=SimpleNamespace(shape=(18, 10)), origin="embedded slice")
    confusion = SimpleNamespace(shape=(10, 10), sum=lambda: 1000)
    return SimpleNamespace(
        holding=held, confusion=confusion, bounds=bounds, accuracy=0.6, loss=1.2, best=(0.65, 15), best_error=None,
        resumed=0, records=(record,), summary=summarise([record]), solve_times=[], folder="runs/a",
    )  # fmt: skip


def test_after_training_the_notes_have_lines_of_their_own_and_the_result_comes_last(narrow: io.StringIO) -> None:
    note = "batch noise is not covered, weights of devices are means; training loss 4.943 -> 0.911"
    some = Bound("Theorem 4", "mean squared gradient", 1373.0, 1.08e9, note)
    none = Bound("Theorem 3", "loss", None, None, "no bound: ...")
    runs.print_training([trained("ddsra:v=1,solver=exact", some, none)], theory=True)
    said = lines(narrow)
    assert any(line.split()[-2:] == ["1373", "1.08e+09"] for line in said)
    assert f"Theorem 4: {note}" in " ".join(narrow.getvalue().split())
    assert "Theorem 3" not in narrow.getvalue()
    assert "…" not in narrow.getvalue()
    assert said[-1] == "log: runs/a"
    assert "ddsra:v=1: after 1 round and 12 s of simulated time" in " ".join(narrow.getvalue().split())
    assert said[-2].endswith("no sample left its device.")
    rows = {line[:20].strip(): line[20:].strip() for line in said}
    assert (rows["last accuracy"], rows["best accuracy"], rows["best after rounds"]) == ("60.00%", "65.00%", "15")
    assert rows["time to decide"] == "-"


def test_samples_that_devices_sent_to_their_gateways_have_left_their_devices(narrow: io.StringIO) -> None:
    run = trained("random")
    run.summary = dataclasses.replace(run.summary, raw_device_rounds=1)
    runs.print_training([run], theory=False)
    assert lines(narrow)[-2].endswith("no sample left its floor.")


def test_the_theorems_are_printed_only_if_they_are_asked_for(narrow: io.StringIO) -> None:
    some = Bound("Theorem 4", "mean squared gradient", 1373.0, 1.08e9, "batch noise is not covered")
    runs.print_training([trained("ddsra:v=1,solver=exact", some)], theory=False)
    assert "Theorem" not in narrow.getvalue()
    assert "theory" not in narrow.getvalue()
    assert lines(narrow)[-1] == "log: runs/a"


def test_an_evaluation_tells_the_test_accuracy_and_the_share_of_every_class(narrow: io.StringIO) -> None:
    Evaluation = pytest.importorskip("fedfloor.runs.evaluate").Evaluation  # noqa: N806  # needs torch
    evaluation = Evaluation(run="runs/a", rounds=20, accuracy=0.794, loss=0.6, samples=1000, same_data=True)
    evaluation |= {"confusion": [[397, 103], [103, 397]], "exported": None}
    runs.print_evaluation(evaluation)
    said = lines(narrow)
    assert "runs/a, after 20 rounds: test accuracy 79.40% (1,000 samples), test loss" in said[0]
    assert any(line.split() == ["0", "397", "103", "79%"] for line in said)
    runs.print_evaluation(Evaluation(evaluation | {"labels": ["worn", "new"]}))
    assert any(line.split() == ["worn", "397", "103", "79%"] for line in lines(narrow))
    assert "predicted worn" in Evaluation(evaluation | {"labels": ["worn", "new"], "exported": None})._repr_html_()


def shown_note(width: int, note: Any, monkeypatch: pytest.MonkeyPatch, label: str = "ddsra:v=1") -> str:
    said = io.StringIO()
    console = Console(file=said, width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr(terminal, "ERR", console)
    with terminal.progress(label, 1000, quiet=False) as (bar, task):
        bar.update(task, completed=17, note=note)
        console.print(bar.make_tasks_table(bar.tasks))
    return said.getvalue()


PARTS = ("accuracy 51.9%", "training loss 0.582", "clock 2.078 s", "training assembly, hall-1, hall-2, hall-3")


@pytest.mark.parametrize("label", ["ddsra:v=1", "a_package.of_mine.policies:Hungry:link=0.25,other=7,more=8"])
@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_bar_keeps_count_and_time_left_at_any_width(
    width: int, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = shown_note(width, PARTS, monkeypatch, label)
    assert "17/1000" in text
    assert "-:--:--" in text
    assert ("accuracy 51.9%" in text) == (width > 60 or label == "ddsra:v=1")
    assert ("hall-3" in text) == (width == 200)
    assert "…" not in text or label != "ddsra:v=1"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("ddsra:v=1", "ddsra:v=1"),
        ("ddsra", "ddsra:v=1000"),
        ("ddsra:v=1,solver=paper", "ddsra:v=1,solver=paper"),
        ("random", "random"),
    ],
)
def test_a_policy_has_one_name_without_the_solver_that_is_the_default(given: str, expected: str) -> None:
    logged = str(make_policy(parse_policy(given))[0])
    assert shown_name(logged) == shown_name(expected) == expected


@pytest.mark.slow
def test_columns_are_obeyed_in_a_pipe(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fedfloor", "profile", "cnn"]
    for columns, most in (("100", 100), ("", 160), ("nonsense", 160)):
        env = {**os.environ, "COLUMNS": columns}
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
        longest = max(map(len, done.stdout.splitlines()))
        assert longest <= most
        assert longest > 100 or most == 100


def planned() -> PlannedRun:
    return planned_run("quick", "random")


@pytest.mark.parametrize("live", [False, True])
def test_work_is_told_of_only_if_it_takes_long(live: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr(watching, "ERR", Console(file=said, force_terminal=live, markup=False))
    with watching.working("checking quick") as show:
        show("half of it")
    assert said.getvalue() == ""
    monkeypatch.setattr(watching, "_PATIENCE", 0.0)
    with watching.working("checking [campus]") as show:
        time.sleep(0.2)
        show("2 of 4 files")
        time.sleep(0.2)
    assert "checking [campus] ..." in said.getvalue()
    assert ("checking [campus]: 2 of 4 files ..." in said.getvalue()) == live


@pytest.mark.parametrize("quiet", [False, True])
def test_a_plant_here_says_that_it_starts(quiet: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr(machines, "ERR", Console(file=said, markup=False))
    with machines.plant_view(planned_run("quick", "random", 1), quiet=quiet):
        assert said.getvalue() == ("" if quiet else "starting the processes of 6 floors with 18 devices\n")


def test_reading_is_told_of_only_if_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr(watching, "ERR", Console(file=said))
    monkeypatch.setattr(watching, "_PATIENCE", 0.05)
    with watching.training(planned(), quiet=False) as view:
        view.show(Event(reading="quick one"))
        view.show(Event())
    with watching.training(planned(), quiet=False) as view:
        view.show(Event(reading="svhn"))
        time.sleep(0.3)
        view.show(Event())
    with watching.training(planned(), quiet=True) as view:
        view.show(Event(reading="quiet"))
        time.sleep(0.3)
    assert said.getvalue() == "reading svhn ...\n"


@pytest.mark.parametrize("live", [False, True])
def test_a_comparison_shows_what_it_reads_and_the_last_accuracy(live: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    err = Console(file=said, width=100, force_terminal=live, color_system=None, highlight=False, markup=False)
    monkeypatch.setattr(comparisons, "ERR", err)
    monkeypatch.setattr(terminal, "ERR", err)
    one, other = (dataclasses.replace(planned(), folder=Path(f"runs/{name}")) for name in ("one", "other"))
    with comparisons.comparing(quiet=False) as watch:
        watch.on_start([one, other])
        for run in (one, other):
            watch.on_reading(run, "cifar10")
        time.sleep(0.3)  # for the bars
        watch.on_test(one, "accuracy 51.9%")
        watch.on_round(one, 30)
        watch.on_round(other, 6)
        watch.on_tradeoff()
        watch.on_tradeoff()
        watch.on_report("reading")
        watch.on_report("tables")
        time.sleep(0.3)
    text = said.getvalue()
    assert "reading cifar10" in text
    assert "accuracy 51.9%" in text
    if not live:
        assert text.splitlines() == [
            "reading cifar10 ...",
            "random seed 7: 30 of 60 rounds done, last test: accuracy 51.9%",
            "random seed 7: 6 of 60 rounds done",
            "simulating the trade-off over V ...",
            "drawing figures and writing the report ...",
        ]


@pytest.mark.parametrize("quiet", [False, True])
def test_a_report_is_told_of_in_a_pipe_if_it_takes_long(quiet: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    for module in (reports, terminal, watching):
        monkeypatch.setattr(module, "ERR", Console(file=said, markup=False))
    monkeypatch.setattr(watching, "_PATIENCE", 0.05)
    with reports.reporting(quiet=quiet) as on_step:
        on_step("reading")
        time.sleep(0.3)
    assert said.getvalue() == ("" if quiet else "drawing figures and writing the report ...\n")


def test_a_floor_that_is_lost_is_named_with_its_reason(narrow: io.StringIO) -> None:
    with watching.training(planned(), quiet=True) as view:
        view.show(Event(lost=("hall-1: it is not connected",)))
    assert "round 0: lost: hall-1: it is not connected" in narrow.getvalue()


def test_a_partition_that_is_unknown_points_to_own_data(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fedfloor", "check", "quick", "--set", "data.partition=mine:split"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "data.partition: unknown partition, got 'mine:split'" in done.stderr
    assert "set data.name to a package.module:callable" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_what_has_been_compiled_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "mine.py"
    source.write_text("def plan():\n    return 0\n\ndef other():\n    return 1\n")
    later = time.time() + 60  # as from a machine whose clock is ahead
    os.utime(source, (later, later))
    names: dict[str, Any] = {}
    exec(compile(source.read_text(), str(source), "exec"), names)
    monkeypatch.setattr(compiling, "FOLDER", "")
    assert not compiling.is_compiled(compiling.compiled(names["plan"]))  # nowhere to keep it
    monkeypatch.setattr(compiling, "FOLDER", str(tmp_path / "cache"))
    compiling.compiled(names["other"])()
    assert not compiling.is_compiled(compiling.compiled(names["plan"]))
    compiling.compiled(names["plan"])()
    assert compiling.is_compiled(compiling.compiled(names["plan"]))


def complaints(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of `fedfloor check` that are yellow or red."""
    said = io.StringIO()
    out = Console(file=said, width=160, force_terminal=True, color_system="standard", highlight=False, markup=False)
    for module in (terminal, scenarios, datasets):
        monkeypatch.setattr(module, "OUT", out)
    checked = api.check(path)
    scenarios.print_check(checked.scenario, checked.headline)
    datasets.print_shortage(checked.shortage)
    assert "is valid" in said.getvalue()
    return [line for line in said.getvalue().splitlines() if "\x1b[33m" in line or "\x1b[31m" in line]


def test_check_complains_of_nothing_that_init_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDFLOOR_DATA", raising=False)
    path = tmp_path / "plant.toml"
    path.write_text(api.starter_scenario(), encoding="utf-8")
    assert complaints(path, monkeypatch) == []
    lines = path.read_text(encoding="utf-8").splitlines()
    poor = ["memory_gb = 0.0000001" if line.startswith("memory_gb") else line for line in lines]
    assert poor != lines
    path.write_text("\n".join(poor), encoding="utf-8")
    assert any("floors can ever take part" in line for line in complaints(path, monkeypatch))


def test_check_says_what_real_machines_may_do_if_the_scenario_says_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def printed(*overrides: str) -> str:
        said = io.StringIO()
        monkeypatch.setattr(scenarios, "OUT", Console(file=said, width=200))
        checked = api.check("quick", overrides=overrides)
        scenarios.print_check(checked.scenario, checked.headline)
        return said.getvalue()

    assert "real machines" not in printed()
    text = printed("deploy.gains=measured", "deploy.allow_samples=true", "participation.rates=updates")
    assert "activations, labels, samples may leave a device; measured gains, energy of the weather" in text
    assert "deadline 3 x predicted + 10 s" in text
    assert "updates in training runs, 0.9, 0.42" in text
