"""Work in other processes: what it tells, how it fails, and that none is left behind."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedfloor.workers.crew import LostError, News, Processes
from tests.workers.crew_work import count, die, fail, linger


@pytest.fixture
def crew() -> Iterator[Processes]:
    made = Processes(2)
    yield made
    made.close()


def all_news(crew: Processes, pieces: int) -> list[News]:
    found: list[News] = []
    while sum(news.ended for news in found) < pieces:
        found += crew.news()
    return found


def test_each_piece_of_work_is_heard_in_order(crew: Processes) -> None:
    crew.start(0, count, 3)
    crew.start(1, count, 5)
    found = all_news(crew, 2)
    for number, upto in ((0, 3), (1, 5)):
        assert [news.message for news in found if news.number == number and not news.ended] == list(range(upto))
    assert all(news.error is None for news in found)


def test_an_error_arrives_as_it_was_raised(crew: Processes) -> None:
    crew.start(0, fail, "no luck")
    error = all_news(crew, 1)[-1].error
    assert isinstance(error, ValueError)
    assert str(error) == "no luck"


def test_an_error_that_cannot_travel_is_told_in_words(crew: Processes) -> None:
    crew.start(0, fail, "stubborn")
    error = all_news(crew, 1)[-1].error
    assert "StubbornError: 1 and 2" in str(error)


def test_a_killed_process_is_lost_work_and_does_not_disturb_others(crew: Processes) -> None:
    crew.start(0, die)
    crew.start(1, count, 3)
    ended = {news.number: news.error for news in all_news(crew, 2) if news.ended}
    assert isinstance(ended[0], LostError)
    assert "SIGKILL" in str(ended[0])
    assert ended[1] is None


def is_gone(note: Path) -> bool:
    """Whether a lingering process has ended and left nothing in the folder for temporary files."""
    pid, folder = note.read_text().split()
    deadline = time.monotonic() + 10
    while (Path(f"/proc/{pid}").exists() or Path(folder).parent.exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not Path(f"/proc/{pid}").exists() and not Path(folder).parent.exists()


def test_a_process_ends_when_nobody_listens_any_more(tmp_path: Path) -> None:
    crew = Processes(1)
    crew.start(0, linger, tmp_path / "note")
    crew.news()
    crew.close()
    assert is_gone(tmp_path / "note")


@pytest.mark.parametrize("work", ["linger", "chatter"])
def test_a_process_ends_quietly_when_the_one_that_started_it_is_killed(work: str, tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from fedfloor.workers.crew import Processes; "
    code += f"from tests.workers.crew_work import {work}; "
    code += f"crew = Processes(1); crew.start(0, {work}, Path(sys.argv[1])); crew.news(); print(flush=True); "
    code += "import time; time.sleep(60)"
    command, folder = [sys.executable, "-c", code, str(tmp_path / "note")], Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder) as parent:
        assert parent.stdout is not None
        assert parent.stderr is not None
        parent.stdout.readline()
        parent.kill()
        assert is_gone(tmp_path / "note")
        assert parent.stderr.read() == b""


@pytest.mark.parametrize("message", [b"", b"\0\0\1\0half of its work"], ids=["before", "within"])
def test_a_process_whose_work_never_arrives_ends_quietly(message: bytes, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    one, other = socket.socketpair()
    with one, other:
        code = f"from fedfloor.workers.crew import serve; serve({other.fileno()}, {str(scratch)!r})"
        command = [sys.executable, "-c", code]
        with subprocess.Popen(command, pass_fds=[other.fileno()], stderr=subprocess.PIPE) as process:
            other.close()
            one.sendall(message)
            one.close()
            assert process.stderr is not None
            assert process.stderr.read() == b""
    assert not scratch.exists()
