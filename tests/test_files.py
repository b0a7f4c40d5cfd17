"""Whole files and folders with one writer."""

import subprocess
import sys
from pathlib import Path

import pytest

from fedfloor.errors import RunLogError
from fedfloor.files import only_writer, write_whole


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    for content in (b"old", b"new"):
        write_whole(tmp_path / "state.json", content)
    assert (tmp_path / "state.json").read_bytes() == b"new"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_has_one_writer_until_it_ends(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from fedfloor.files import only_writer\n"
    code += "with only_writer(Path(sys.argv[1]), again=''): print('mine', flush=True); sys.stdin.read()"
    asked = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"mine\n"
        refusal = r"another process is writing to it\. Wait for it, or name another folder"
        with pytest.raises(RunLogError, match=refusal), only_writer(tmp_path, again=""):
            pass
        other.kill()
    with only_writer(tmp_path, again=""):
        (tmp_path / "mine").touch()
    assert (tmp_path / "mine").exists()
