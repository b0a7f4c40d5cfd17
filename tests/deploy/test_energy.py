"""Where the energy of a round comes from, and what is said when it cannot be read."""

import logging
import os
import sys
import time
from pathlib import Path

import pytest

from fedfloor.deploy.energy import (
    CommandEnergy,
    EnergyBudget,
    FileEnergy,
    FixedEnergy,
    parse_energy,
    parse_meter,
)
from fedfloor.errors import DeploymentError
from tests.runs.test_machine import put


def command(code: str, seconds: float = 20.0) -> CommandEnergy:
    return CommandEnergy((sys.executable, "-S", "-c", code), seconds)


def is_alive(process: int) -> bool:
    """Whether a process is there and not merely waiting for its parent to notice its end."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_number_a_file_and_a_command_are_sources(tmp_path: Path) -> None:
    assert parse_energy("5") == FixedEnergy(5.0)
    assert parse_energy("0").read() == 0.0
    assert parse_energy("2.5e3").read() == 2500.0
    assert parse_energy("file:/run/energy_j") == FileEnergy(Path("/run/energy_j"))
    assert parse_energy("command:/usr/local/bin/energy --now 'a b'") == CommandEnergy(
        ("/usr/local/bin/energy", "--now", "a b")
    )


def test_a_file_is_read_anew_every_round(tmp_path: Path) -> None:
    budget = None
    for joules in (3.0, 4.5):
        put(tmp_path, "energy", f" {joules}\n")
        budget = budget or EnergyBudget(parse_energy(f"file:{tmp_path}/energy"))
        assert budget.read() == joules


def test_the_first_line_of_a_command_counts_and_no_shell_reads_its_arguments() -> None:
    assert command("print(7.5); print('and more')").read() == 7.5
    assert CommandEnergy(("echo", "$((1+1))")).words == ("echo", "$((1+1))")
    with pytest.raises(DeploymentError, match=r"must be a number of joules, got '\$\(\(1\+1\)\)'"):
        CommandEnergy(("echo", "$((1+1))")).read()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("-1", "must be from 0 J to 1e[+]30 J, got '-1'"),
        ("nan", "must be from 0 J .* got 'nan'"),
        ("inf", "must be from 0 J .* got 'inf'"),
        ("lots", "must be a number of joules, got 'lots'"),
        ("", "must be a number of joules, got ''"),
        ("file:", "names no source of energy"),
        ("file: ", "names no source of energy"),
        ("file:/a\0b", "must be a path that can exist"),
        ("command:", "names no source of energy"),
        ("command:''", "names no source of energy"),
        ("command:energy 'now", "cannot be split into words: No closing quotation"),
        ("http://meter", "names no source of energy"),
        ("x" * 10**5, "must be a number"),
    ],
)
def test_a_text_that_names_no_energy_is_refused_with_advice(text: str, problem: str) -> None:
    with pytest.raises(DeploymentError, match=rf"--energy .*: {problem}") as caught:
        parse_energy(text)
    assert "joules" in str(caught.value) or "Close" in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read: No such file"),
        (b"", "must be a number of joules, got ''"),
        (b"1 2", "must be a number of joules, got '1 2'"),
        (b"-4", "must be from 0 J"),
        (b"nan\n", "must be from 0 J"),
        (b"\xff\x00\x1b[2J", "must be a number of joules"),
        (b"1" * 2000, "has more than 1000 bytes"),
    ],
)
def test_a_file_without_one_energy_is_refused_with_its_name(
    content: bytes | None, problem: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "energy").write_bytes(content)
    with pytest.raises(DeploymentError, match=rf"/energy: {problem}.*\. Write one number") as caught:
        EnergyBudget(parse_energy(f"file:{tmp_path}/energy"))
    assert str(caught.value).isprintable()


def test_a_pipe_and_a_folder_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(DeploymentError, match="is not a regular file"):
            FileEnergy(path).read()


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("raise SystemExit(3)", "ended with code 3"),
        ("import os; os.kill(os.getpid(), 9)", "was ended by SIGKILL"),
        ("pass", "must be a number of joules, got ''"),
        ("print('empty')", "must be a number of joules, got 'empty'"),
        ("print(-2)", "must be from 0 J to 1e[+]30 J, got '-2'"),
        ("while True: print('0' * 1000)", "wrote more than 65536 bytes"),
    ],
)
def test_a_command_that_fails_is_refused_with_its_name(code: str, problem: str) -> None:
    with pytest.raises(DeploymentError, match=rf"^command .*: {problem}.*\. Correct the program"):
        command(code).read()


def test_a_command_that_is_not_there_is_refused() -> None:
    with pytest.raises(DeploymentError, match="command '/no/such/program': cannot be started: No such file"):
        EnergyBudget(parse_energy("command:/no/such/program"))


def test_a_command_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    started = tmp_path / "started"
    hanging = (
        f"import subprocess, time, os; child = subprocess.Popen(['sleep', '600']); "
        f"open('{started}.part', 'w').write(f'{{os.getpid()}} {{child.pid}}'); "
        f"os.replace('{started}.part', '{started}'); print(5, flush=True); time.sleep(600)"
    )
    with pytest.raises(DeploymentError, match="did not end within 2 s"):
        command(hanging, seconds=2.0).read()
    processes = [int(word) for word in started.read_text().split()]
    deadline = time.monotonic() + 20
    while any(map(is_alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(is_alive, processes))


def test_a_bad_reading_keeps_the_last_good_one_and_warns_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(tmp_path, "energy", "3")
    budget = EnergyBudget(FileEnergy(tmp_path / "energy"))
    with caplog.at_level(logging.INFO):
        for text in ("broken", "-1", "nan"):
            put(tmp_path, "energy", text)
            assert budget.read() == 3.0
        (tmp_path / "energy").unlink()
        assert budget.read() == 3.0
        (warning,) = caplog.records
        assert "the last one counts: 3 J" in warning.message
        assert "got 'broken'" in warning.message
        put(tmp_path, "energy", "8")
        assert budget.read() == 8.0
        put(tmp_path, "energy", "broken again")
        assert budget.read() == 8.0
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "WARNING"]


RAPL = "sys/class/powercap/intel-rapl:{}/{}"


def test_counters_of_the_processor_give_what_was_spent(tmp_path: Path) -> None:
    for index, name in enumerate(("package-0", "package-1", "psys")):
        put(tmp_path, RAPL.format(index, "name"), f"{name}\n")
        put(tmp_path, RAPL.format(index, "energy_uj"), "1000000\n")
        put(tmp_path, RAPL.format(index, "max_energy_range_uj"), "262143328850\n")
    end = parse_meter("rapl", tmp_path).start()
    put(tmp_path, RAPL.format(0, "energy_uj"), "3500000\n")
    put(tmp_path, RAPL.format(1, "energy_uj"), "500000\n")  # wrapped
    put(tmp_path, RAPL.format(2, "energy_uj"), "9000000\n")  # contains the packages
    assert end() == pytest.approx(2.5 + 262143.328850 - 0.5)


def test_a_file_that_counts_gives_what_was_spent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(tmp_path, "counter", "100.5")
    meter = parse_meter(f"file:{tmp_path}/counter")
    end = meter.start()
    put(tmp_path, "counter", "103")
    assert end() == 2.5
    end = meter.start()
    put(tmp_path, "counter", "1")
    assert end() is None
    (tmp_path / "counter").unlink()
    assert meter.start()() is None
    (warning,) = caplog.records
    assert "has run backwards, by 102 J" in warning.message


def test_without_a_counter_nothing_is_measured(tmp_path: Path) -> None:
    for text in ("none", "auto"):
        assert parse_meter(text, tmp_path).start()() is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("rapl", "--energy-meter 'rapl': this machine has no RAPL counters. Run as"),
        ("file:/no/such/counter", "/no/such/counter: cannot be read: No such file"),
        ("file:", "--energy-meter 'file:': names no counter"),
        ("meter", "--energy-meter 'meter': names no counter. Give none, auto, rapl or file:PATH"),
    ],
)
def test_a_counter_that_is_not_there_is_refused(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(DeploymentError, match=problem):
        parse_meter(text, tmp_path)
