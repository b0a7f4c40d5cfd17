"""Commands that Ctrl-C or SIGTERM ends: the same words, whatever the command."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedfloor import cli
from fedfloor.errors import StoppedRunError


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
