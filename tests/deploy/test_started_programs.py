"""Programs that another program starts: their files, their address and their end."""

from pathlib import Path

import numpy as np
import pytest

from fedfloor.deploy.programs import Programs
from tests.deploy.programs import free_port


def test_a_program_that_ends_does_not_listen_and_says_how_it_ended(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    try:
        programs.start("lists", ["list"])
        programs.start("fails", ["list", "everything"])
        assert programs.address("lists") is None
        assert programs.early_end("lists") == f"lists ended with code 0: {tmp_path}/lists.log is empty"
        assert "paper-cifar10" in (tmp_path / "lists.out").read_text()
        assert programs.early_end("fails").startswith("fails ended with code 2: error: ")
        assert (programs.code("lists"), programs.code("fails")) == (0, 2)
    finally:
        programs.close()
    programs.start("late", ["list"])
    assert programs.address("late") is None
    assert programs.early_end("late") == ""
    assert not (tmp_path / "late.log").exists()


def test_a_program_that_does_not_listen_has_no_address_after_a_while(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    try:
        own = tmp_path / "own.npz"
        np.savez(own, samples=np.zeros((4, 1, 28, 28), np.uint8), labels=np.arange(4))
        gateway = ["--gateway", f"127.0.0.1:{free_port()}", "--name", "camera", "--data", str(own)]
        programs.start("camera", ["device", *gateway])
        assert programs.address("camera", 0.2) is None
        assert programs.code("camera") is None
    finally:
        programs.close()


def test_two_programs_have_two_names(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    try:
        programs.start("hall", ["list"])
        with pytest.raises(AssertionError):
            programs.start("hall", ["list"])
    finally:
        programs.close()


def test_a_program_that_listens_has_an_address_until_it_is_told_to_end(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    try:
        server = ["--server", f"127.0.0.1:{free_port()}", "--listen", "127.0.0.1:0"]
        programs.start("hall", ["gateway", *server, "--name", "hall", "--processes", "1"])
        host, _, port = (programs.address("hall") or "").partition(":")
        assert (host, port.isdigit(), programs.code("hall")) == ("127.0.0.1", True, None)
    finally:
        programs.close()
    assert programs.code("hall") == 0
    assert programs.early_end("hall") == ""
