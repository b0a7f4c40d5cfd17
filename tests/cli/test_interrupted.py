"""Commands that Ctrl-C or SIGTERM ends: the same words, whatever the command."""

import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from pydantic_core.core_schema import CoreSchema, any_schema

from fedfloor import cli
from fedfloor.errors import StoppedRunError
from fedfloor.signals import sigterm_interrupts


@pytest.mark.parametrize(
    ("number", "code", "settings", "kept"),
    [
        (signal.SIGINT, 130, [], "the log in run has the rounds so far. A simulation cannot be resumed"),
        (signal.SIGTERM, 143, [], "the log in run has the rounds so far. A simulation cannot be resumed"),
        (
            signal.SIGINT,
            130,
            ["--vary", "radio.channels=1,2"],
            "0 of 2 simulations are finished in run. Repeat the command to continue",
        ),
    ],
)
def test_a_simulation_says_what_is_left(
    number: signal.Signals, code: int, settings: list[str], kept: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "fedfloor", "simulate", "quick", "--policy", "random", "--rounds", "1000000"]
    process = subprocess.Popen(
        [*command, *settings, "--out", "run", "--quiet"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509  # ignored in the background
    )
    for _ in range(600):
        if list((tmp_path / "run").rglob("rounds.jsonl")):
            break
        time.sleep(0.1)
    process.send_signal(number)
    output, said = process.communicate(timeout=60)
    assert (process.returncode, output) == (code, "")
    assert said == f"interrupted: {kept}\n"


@pytest.mark.parametrize(
    ("arguments", "number", "code"),
    [
        (["check", "quick"], signal.SIGINT, 130),
        (["check", "quick"], signal.SIGTERM, 143),
        (["server", "quick"], signal.SIGINT, 130),
        (["local-plant", "quick"], signal.SIGTERM, 0),
    ],
)
@pytest.mark.parametrize("kept", ["", "the checkpoint has 5 rounds. Resume with the same command"])
def test_every_command_ends_with_the_same_word(
    arguments: list[str],
    number: signal.Signals,
    code: int,
    kept: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def command() -> None:
        try:
            os.kill(os.getpid(), number)
            time.sleep(5.0)
        except KeyboardInterrupt:
            if kept:
                raise StoppedRunError(kept) from None
            raise

    monkeypatch.setattr(sys, "argv", ["fedfloor", *arguments])
    monkeypatch.setattr(cli, "_run_command", command)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == code
    assert capsys.readouterr().err == (f"interrupted: {kept}\n" if kept else "interrupted\n")
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_signal_waits_until_an_import_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries print what is raised while they are imported, or take it for a mistake."""
    lines = ["import os, signal, time", "os.kill(os.getpid(), signal.SIGINT)", "time.sleep(0.1)", "IS_WHOLE = True"]
    (tmp_path / "interrupted_module.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)

    def load() -> None:
        with sigterm_interrupts():
            importlib.import_module("interrupted_module")
            time.sleep(60.0)

    with pytest.raises(KeyboardInterrupt):
        load()
    assert sys.modules.pop("interrupted_module").IS_WHOLE
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_waits_until_pydantic_has_built_a_schema() -> None:
    """Pydantic makes a SchemaError of whatever is raised there, and sometimes loses it."""
    built: list[bool] = []

    class Interrupting:
        @classmethod
        def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
            built.append(True)
            return any_schema()

    def build() -> None:
        with sigterm_interrupts():
            TypeAdapter(Interrupting)
            time.sleep(60.0)

    with pytest.raises(KeyboardInterrupt):
        build()
    assert built == [True]


def hears_signals(process: "subprocess.Popen[str]") -> bool:
    """Whether a program has a handler for SIGTERM, which Python itself has not."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return bool(int(status.partition("SigCgt:")[2].split()[0], 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux which signals a program hears")
@pytest.mark.parametrize("delay", [0.0, 0.2, 0.5])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_that_is_still_being_loaded_ends_without_a_traceback(
    number: signal.Signals, code: int, delay: float
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "fedfloor", "simulate", "factory", "--rounds", "100000", "--quiet"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509  # ignored in the background
    )
    while not hears_signals(process):
        time.sleep(0.002)
    time.sleep(delay)
    process.send_signal(number)
    output, said = process.communicate(timeout=600)
    assert (process.returncode, output) == (code, ""), said
    assert said.startswith("interrupted")
    assert said.count("\n") == 1
