"""Programs that serve until a signal ends them: whenever it arrives, everything is closed and nothing is logged."""

import asyncio
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedfloor.deploy.running import run_until_stopped
from tests.cli.test_interrupted import hears_signals
from tests.deploy.programs import PATIENCE, free_port

PLACES = ("before the loop", "in the work", "in another task", "in a callback", "while it waits", "twice")


def strike(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_closes_all_tasks_wherever_it_arrives(
    number: signal.Signals, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    begun, closed = list[str](), list[str]()

    async def other() -> None:
        begun.append("other")
        try:
            if place == "in another task":
                strike(number)
            await asyncio.sleep(60.0)
        finally:
            await asyncio.sleep(0.01)
            closed.append("other")

    async def work() -> None:
        begun.append("work")
        task = asyncio.create_task(other())
        try:
            await asyncio.sleep(0.01)
            if place in ("in the work", "twice"):
                strike(number)
            if place == "in a callback":
                asyncio.get_running_loop().call_soon(strike, number)
            if place == "while it waits":
                threading.Timer(0.05, strike, [number]).start()
            await asyncio.sleep(60.0)
        finally:
            if place == "twice":
                strike(number)
            await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            closed.append("work")

    def begin() -> Coroutine[Any, Any, None]:
        if place == "before the loop":
            strike(number)
        return work()

    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    if number == signal.SIGINT:
        with pytest.raises(KeyboardInterrupt):
            run_until_stopped(begin)
    else:
        run_until_stopped(begin)
    gc.collect()  # what was never retrieved would be logged now
    assert sorted(closed) == sorted(begun)
    assert bool(begun) == (place != "before the loop")
    assert not [record for record in caplog.records if record.levelno > logging.WARNING]
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_a_signal_stops_the_work_where_event_loops_hear_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise NotImplementedError  # as on Windows

    monkeypatch.setattr(asyncio.SelectorEventLoop, "add_signal_handler", refuse)
    ended: list[str] = []

    async def work() -> None:
        threading.Timer(0.05, strike, [signal.SIGINT]).start()
        await asyncio.sleep(2.0)
        ended.append("by itself")

    with pytest.raises(KeyboardInterrupt):
        run_until_stopped(work)
    assert ended == []


def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise ValueError("of the work")

    with pytest.raises(ValueError, match="of the work"):
        run_until_stopped(work)


def test_work_in_another_thread_is_done_without_signals() -> None:
    done: list[int] = []

    async def work() -> None:
        done.append(1)

    thread = threading.Thread(target=run_until_stopped, args=[work])
    thread.start()
    thread.join()
    assert done == [1]


def started(command: list[str], log: Path) -> "subprocess.Popen[str]":
    """A program, as soon as it hears signals: before, it is Python that has not begun with our code."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "fedfloor", *command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509  # ignored in the background
        )
    while not hears_signals(process):
        time.sleep(0.002)
    return process


@pytest.mark.slow
@pytest.mark.parametrize("program", ["device", "gateway"])
def test_a_program_ends_in_order_whenever_the_signal_arrives(program: str, tmp_path: Path) -> None:
    """In imports, while the event loop starts, and while it dials a machine that is not there."""
    np.savez(tmp_path / "own.npz", samples=np.zeros((4, 1, 28, 28), np.uint8), labels=np.arange(4))
    port, log = free_port(), tmp_path / "log"
    command = {
        "device": ["device", "--gateway", f"127.0.0.1:{port}", "--name", "d", "--data", str(tmp_path / "own.npz")],
        "gateway": ["gateway", "--server", f"127.0.0.1:{port}", "--listen", "127.0.0.1:0", "--name", "g"],
    }[program]
    process, begun = started(command, log), time.monotonic()
    while "cannot be reached" not in log.read_text():
        assert time.monotonic() - begun < PATIENCE
        time.sleep(0.02)
    whole = time.monotonic() - begun  # from the first moment until it dials
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    for k, number in enumerate([signal.SIGINT, signal.SIGTERM] * 8):
        process = started(command, log)
        time.sleep(whole * k / 12)
        process.send_signal(number)
        code, said = process.wait(PATIENCE), log.read_text()
        assert code == (130 if number == signal.SIGINT else 0), said
        assert not any(sign in said for sign in ("Traceback", "never retrieved", "never awaited", "destroyed but")), (
            said
        )
        assert "interrupted" in said
