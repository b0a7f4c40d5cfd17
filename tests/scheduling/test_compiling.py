"""Compiled code is kept only where nobody else can put code of their own."""

import grp
import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedfloor.scheduling.solver import cache

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has no such owners and modes")


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, in which everybody may write; there is no other place."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    return folder


OTHERS = 54_321  #: a user, and a group, that this user is not


def change_owner(folder: Path, *, user: int = -1, group: int = -1) -> None:
    try:
        os.chown(folder, user, group)
    except PermissionError:
        pytest.skip("giving a folder away needs root")


def give_to_others(folder: Path, mode: int) -> None:
    """Let a group of others, or everybody, use a folder."""
    change_owner(folder, group=OTHERS)
    folder.chmod(mode)


@pytest.fixture
def private(monkeypatch: pytest.MonkeyPatch, shared: Path) -> Iterator[Path]:
    """A folder with no shared folder above it, and no second choice beside it."""
    shared.chmod(0o777)
    home = pwd.getpwuid(os.geteuid()).pw_dir
    if not os.access(home, os.W_OK):
        pytest.skip("this user has no home")
    with tempfile.TemporaryDirectory(dir=home, prefix=".fedfloor-test-") as name:
        yield Path(name).resolve()


def own(folder: Path) -> Path:
    return folder / f"fedfloor-{os.geteuid()}"


@pytest.mark.slow
def test_without_a_home_the_cache_is_a_folder_of_the_users_own(shared: Path) -> None:
    folder = Path(cache.find_folder())
    assert folder.parent == own(shared)
    assert [path.stat().st_mode & 0o777 for path in (folder, folder.parent)] == [0o700, 0o700]
    assert Path(cache.find_folder()) == folder  # again


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_is_not_used(mode: int, shared: Path) -> None:
    own(shared).mkdir()
    give_to_others(own(shared), mode)
    assert cache.find_folder() == ""


@pytest.mark.parametrize(("mode", "used"), [(0o770, False), (0o775, False), (0o707, False), (0o1775, True)])
def test_nobody_else_can_replace_a_folder_on_the_way(
    mode: int, used: bool, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (private / "group" / "home").mkdir(parents=True, mode=0o755)
    give_to_others(private / "group", mode)
    monkeypatch.setenv("HOME", str(private / "group" / "home"))
    assert bool(cache.find_folder()) == used


def test_a_folder_below_one_of_another_user_is_not_used(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (private / "theirs" / "home").mkdir(parents=True, mode=0o755)
    change_owner(private / "theirs", user=OTHERS)
    monkeypatch.setenv("HOME", str(private / "theirs" / "home"))
    assert cache.find_folder() == ""


def test_a_home_that_is_a_link_is_used_where_it_lies(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (private / "disk" / "home").mkdir(parents=True)
    (private / "home").symlink_to(private / "disk" / "home")
    monkeypatch.setenv("HOME", str(private / "home"))
    assert Path(cache.find_folder()).parents[2] == private / "disk" / "home"
    give_to_others(private / "disk", 0o775)
    assert cache.find_folder() == ""


def test_the_group_of_the_user_alone_is_no_other(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = pwd.getpwuid(os.geteuid())
    group = grp.getgrgid(user.pw_gid)
    if group.gr_name != user.pw_name or group.gr_mem:
        pytest.skip("this user has no group of its own")
    change_owner(private, group=group.gr_gid)
    private.chmod(0o775)
    monkeypatch.setenv("HOME", str(private))
    assert Path(cache.find_folder()).parent == private / ".cache" / "fedfloor"


def test_a_link_in_the_place_of_the_folder_is_not_followed(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    own(shared).symlink_to(tmp_path / "elsewhere")
    assert cache.find_folder() == ""
    own(shared).unlink()
    own(shared).symlink_to(tmp_path / "nowhere")
    assert cache.find_folder() == ""
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_of_another_user_is_not_used(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: user)  # so that what is made here belongs to another
    assert cache.find_folder() == ""


def test_a_shared_folder_in_which_everybody_can_rename_is_not_used(shared: Path) -> None:
    shared.chmod(0o777)
    assert cache.find_folder() == ""


def test_a_place_that_is_not_private_leaves_the_next_one(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shared / "numba").mkdir()
    (shared / "numba").chmod(0o777)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(shared / "numba"))
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = Path(cache.find_folder())
    assert folder.parent == tmp_path / ".cache" / "fedfloor"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(shared / "new" / "numba"))
    assert Path(cache.find_folder()).parent == shared / "new" / "numba" / "fedfloor"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir(mode=0o755)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert Path(cache.find_folder()).parent == tmp_path / "cache" / "fedfloor"


def test_a_configuration_in_the_working_folder_names_no_cache(tmp_path: Path) -> None:
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: ./cache\n")
    code = "from fedfloor.scheduling.solver import cache, compiling; numba = compiling._compiler(); "
    code += "print(cache.FOLDER, numba.config.CACHE_DIR)"
    command = [sys.executable, "-P", "-c", code]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in said
    assert "./cache" not in said
    assert not (tmp_path / "cache").exists()
