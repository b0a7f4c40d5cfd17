"""Names in received files give no orders to terminals, browsers and spreadsheets."""

import io
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tomli_w

import fedfloor
from fedfloor.characters import printable, safe_line
from fedfloor.cli.show.terminal import _Terminal, table_of
from tests.conftest import Table, small_table
from tests.runs.test_plan import EXAMPLE

Command = Callable[..., subprocess.CompletedProcess[str]]
ORDERS = "\x1b]0;title\x07\x1b[2J\x9b31m\x7f\u202egnp.exe\u2066"
OBEYED = set("\x1b\x07\x9b\x7f\u202e\u2066")


EVERY_ORDER = "".join(chr(code) for code in [*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, 0x202E, 0x2066])


def test_only_newlines_and_tabs_are_left_of_the_control_characters() -> None:
    every = "".join(map(chr, [*range(0xA0), *range(0x2028, 0x2030), *range(0x2066, 0x206A)]))
    left = printable(every)
    assert len(left) == len(every)
    assert {character for character in left if not character.isprintable()} == {"\n", "\t", "\u202f"}
    assert printable("\udcff\ud800\ufeff") == "\ufffd" * 3
    assert printable("Halle 1, größer als ± 3 µm…") == "Halle 1, größer als ± 3 µm…"


def test_colours_and_progress_reach_the_terminal_and_orders_do_not() -> None:
    said = io.StringIO()
    out = _Terminal(file=said, force_terminal=True, color_system="standard", markup=False)
    table = table_of(ORDERS, "name")
    table.add_row(ORDERS, style="red")
    out.print(table)
    with out.status("deciding"):
        out.print(ORDERS)
    assert "\x1b[31m" in said.getvalue()
    assert "\x1b[2K" in said.getvalue()  # the spinner clears its line
    assert not {"\x1b[2J", "\x1b]0;"} & {said.getvalue()[at : at + 4] for at in range(len(said.getvalue()))}
    assert not (OBEYED - {"\x1b"}) & set(said.getvalue())
    assert said.getvalue().count("gnp.exe") >= 3


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_snapshot_gives_no_orders(form: str, fedfloor_command: Command, tmp_path: Path) -> None:
    snapshot = json.loads(json.dumps(EXAMPLE))
    snapshot["gateways"][0]["name"] = ORDERS
    (tmp_path / "round.json").write_text(json.dumps(snapshot))
    done = fedfloor_command("plan", "round.json", "--format", form)
    assert done.returncode == 0, done.stderr
    assert "gnp.exe" in done.stdout
    assert not OBEYED & set(done.stdout + done.stderr)


@pytest.mark.slow
def test_an_error_gives_no_orders(fedfloor_command: Command, tmp_path: Path) -> None:
    changes: tuple[Table, ...] = ({"name": ORDERS}, {ORDERS: 1}, {"policy": {"name": ORDERS}})
    for number, change in enumerate(changes):
        file = tmp_path / f"plant-{number}.toml"
        file.write_text(tomli_w.dumps(small_table() | change), encoding="utf-8")
        done = fedfloor_command("check", file.name)
        assert (done.returncode, "\\x1b]0;title" in done.stderr) == (2, True), done.stderr
        assert not OBEYED & set(done.stderr)
    done = fedfloor_command("check", f"{ORDERS}.toml")
    assert (done.returncode, "\\x1b]0;title" in done.stderr) == (2, True)
    assert not OBEYED & set(done.stderr)


@pytest.mark.slow
def test_a_log_gives_no_orders(fedfloor_command: Command, tmp_path: Path) -> None:
    assert fedfloor_command("simulate", "quick", "--policy", "random", "--rounds", "2", "--out", "run").returncode == 0
    log = tmp_path / "run" / "rounds.jsonl"
    records = [json.loads(line) | {"policy": ORDERS} for line in log.read_text().splitlines()]
    log.write_text("".join(json.dumps(record) + "\n" for record in records))
    done = fedfloor_command("report", "run")
    assert done.returncode == 0, done.stderr
    assert "gnp.exe" in done.stdout
    assert not OBEYED & set(done.stdout + done.stderr)


def test_the_page_and_the_csv_of_a_report_give_no_orders(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"run \x1b[2J \xff \xe2\x80\xaegnp.exe")
    fedfloor.simulate("quick", "random", rounds=2, out=folder, overrides=["floors.0.gateway.max_energy_j=0"])
    log = folder / "rounds.jsonl"
    records = [json.loads(line) | {"policy": f"policy {EVERY_ORDER}"} for line in log.read_text().splitlines()]
    records[0]["gateways"][0] |= {"failure": f"cause {EVERY_ORDER}", "completed": False}
    log.write_text("".join(json.dumps(record) + "\n" for record in records))
    (tmp_path / os.fsdecode(b"damaged \x1b[2J \xff")).mkdir()
    (tmp_path / os.fsdecode(b"damaged \x1b[2J \xff") / "rounds.jsonl").write_text("{}")
    done = fedfloor.report(tmp_path, csv=tmp_path / "rounds.csv")

    table = (tmp_path / "rounds.csv").read_text(encoding="utf-8")
    assert "policy \ufffd\ufffd" in table
    assert "failed_cause \ufffd\ufffd" in table
    page = done.page.read_text(encoding="utf-8")
    data = page.split('id="report-data">')[1].split("</script>")[0]
    markup = page.split("</style>")[1].split("<script")[0]
    assert "policy \ufffd\ufffd" in markup
    assert "damaged \ufffd[2J \ufffd" in markup
    orders = set(map(ord, EVERY_ORDER)) - {ord("\n"), ord("\t")} | {0xDCFF, 0x202E}
    for text in (table, markup, "".join(texts(json.loads(data)))):
        assert "policy \ufffd\ufffd" in text
        assert not orders & set(map(ord, text))


def texts(value: object) -> Iterator[str]:
    """All texts in a JSON document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for pair in value.items() for part in pair for text in texts(part))
    elif isinstance(value, list):
        yield from (text for part in value for text in texts(part))


def test_what_others_say_is_one_short_line() -> None:
    assert safe_line(ValueError("a\n  b\tc\x1b[2J\u202e")) == "a b c\ufffd[2J\ufffd"
    assert safe_line("x" * 1000, 20) == "x" * 20
