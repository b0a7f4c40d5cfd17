"""Which files a pattern names: links, hidden files, and folders that may not be read."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fedfloor import api
from fedfloor.errors import DataError
from fedfloor.training.data import paths
from fedfloor.training.data.holding import gather
from fedfloor.training.data.paths import files_below, named_files
from fedfloor.training.data.recorded import read_recorded
from tests.training.plants import draw, loaded, signal, write_csv


def names(pattern: str, folder: Path) -> list[str]:
    return [str(file.path.relative_to(folder)) for file in named_files(str(folder / pattern))]


def touch(*places: Path) -> None:
    for path in places:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x,label\n1,a\n", encoding="utf-8")


def test_links_that_lead_in_circles_are_followed_once(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    touch(logs / "a.csv", logs / "deep" / "b.csv")
    (logs / "again").symlink_to(".")
    (logs / "deep" / "twice").symlink_to("..")
    (logs / "self").symlink_to("self")
    assert names("logs/**/*.csv", tmp_path) == ["logs/a.csv", "logs/deep/b.csv"]
    assert names("logs/**/**/*.csv", tmp_path) == ["logs/a.csv", "logs/deep/b.csv"]


def test_a_folder_elsewhere_is_read_through_a_link(tmp_path: Path) -> None:
    touch(tmp_path / "archive" / "a.csv", tmp_path / "logs" / "b.csv")
    (tmp_path / "logs" / "old").symlink_to("../archive")
    assert names("logs/**/*.csv", tmp_path) == ["logs/b.csv", "logs/old/a.csv"]
    assert names("logs/old/*.csv", tmp_path) == ["logs/old/a.csv"]


def test_a_file_and_a_link_to_it_are_one_recording(tmp_path: Path) -> None:
    touch(tmp_path / "0302.csv", tmp_path / "p1" / "x.csv")
    (tmp_path / "0301-latest.csv").symlink_to("0302.csv")
    (tmp_path / "p2").symlink_to("p1")
    assert names("*.csv", tmp_path) == ["0302.csv"]
    assert names("{recording}.csv", tmp_path) == ["0302.csv"]
    assert names("p?/*.csv", tmp_path) == ["p1/x.csv"]
    assert names("{device}/*.csv", tmp_path) == ["p1/x.csv", "p2/x.csv"]  # which says that both hold it


def test_hidden_files_and_folders_are_left_out(tmp_path: Path) -> None:
    touch(tmp_path / "a.csv", tmp_path / "._a.csv", tmp_path / ".trash" / "b.csv", tmp_path / "c" / ".d" / "e.csv")
    for pattern in ("*.csv", "**/*.csv", "?*.csv", "{recording}.csv"):
        assert names(pattern, tmp_path) == ["a.csv"]
    assert names(".trash/*.csv", tmp_path) == [".trash/b.csv"]
    assert names("._*.csv", tmp_path) == ["._a.csv"]
    assert files_below(tmp_path) == [tmp_path / "a.csv"]


def test_copies_that_notebooks_and_other_systems_hide_are_no_pictures(tmp_path: Path) -> None:
    for kind in "ab":
        for number in range(3):
            draw(tmp_path / "images" / kind / f"{number}.png", number)
        draw(tmp_path / "images" / kind / ".ipynb_checkpoints" / "0-checkpoint.png", 0)
        (tmp_path / "images" / kind / "._0.png").write_bytes(b"no picture")
        (tmp_path / "images" / kind / "again").symlink_to(".")
    read = read_recorded(loaded(tmp_path, {"name": "images/"}, shape=(1, 4, 6), classes=2))
    assert len(read.samples) + len(read.test_samples) == 6


def test_many_stars_take_no_longer(tmp_path: Path) -> None:
    touch(tmp_path / f"{'a' * 60}.csv")
    assert names("*" * 40 + ".csv", tmp_path) == [f"{'a' * 60}.csv"]
    assert paths.matching(str(tmp_path / ("**/" * 30 + "b.csv")), [tmp_path / "/".join("a" * 60)]) == [False]


def _no_search(folder: Path) -> None:
    folder.chmod(0o600)


def _nothing(folder: Path) -> None:
    folder.chmod(0)


@contextmanager
def permissions_that_count() -> Iterator[None]:
    """Be another user for a moment if this one may read everything."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("change", [_no_search, _nothing])
@pytest.mark.parametrize("name", ["logs/*.csv", "logs/**/*.csv", "logs/0.csv", "images/"])
def test_a_folder_that_may_not_be_read_is_named_with_its_permissions(name: str, change: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory() as folder:  # whose parents every user may enter
        root = Path(folder)
        root.chmod(0o755)
        for number in range(4):
            write_csv(root / "logs" / f"{number}.csv", {"x": signal(8, number), "label": ["ab"[number % 2]] * 8})
            draw(root / "images" / "ab"[number % 2] / f"{number}.png", number)
        shape = (1, 4, 6) if name == "images/" else (1,)
        scenario = loaded(root, {"name": name}, shape=shape, classes=2)
        place = root / "images" / "a" if name == "images/" else root / "logs"
        change(place)
        problem = (
            rf"{place}: cannot be listed or entered: Permission denied, its permissions are d\S+\. Give yourself r"
        )
        for function in (gather, api.verify_data):
            with permissions_that_count(), pytest.raises(DataError, match=problem):
                function(scenario)
        place.chmod(0o700)


def test_a_link_that_may_not_be_followed_is_named_with_its_target() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        write_csv(root / "private" / "0.csv", {"x": signal(8, 0), "label": ["a"] * 8})
        (root / "logs").mkdir()
        (root / "logs" / "0.csv").symlink_to(root / "private" / "0.csv")
        scenario = loaded(root, {"name": "logs/*.csv"}, shape=(1,), classes=2)
        (root / "private").chmod(0)
        problem = rf"^{root}/logs/0\.csv: leads to {root}/private/0\.csv, which may not be entered: Permission denied"
        with permissions_that_count(), pytest.raises(DataError, match=problem):
            gather(scenario)
        (root / "private").chmod(0o700)
