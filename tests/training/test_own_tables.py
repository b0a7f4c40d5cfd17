"""Sensor files with odd contents: long texts, large numbers, short recordings, and recordings over several files."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from fedfloor import api
from fedfloor.errors import DataError, ScenarioError
from fedfloor.training.data import kept, tables
from fedfloor.training.data.checking import checked_pair
from fedfloor.training.data.holding import gather, held_out, share_of, shortage_of
from fedfloor.training.data.recorded import read_recorded
from tests.conftest import Table
from tests.training.plants import loaded, signal, write_csv


def files(folder: Path, labels: str = "ab", length: int = 8) -> None:
    """Two recordings of every label."""
    for number, label in enumerate(labels * 2):
        write_csv(folder / f"{number}.csv", {"x": signal(length, 100.0 * number), "label": [label] * length})


@pytest.mark.parametrize("fast", [True, False])
def test_a_long_text_is_refused_before_it_fills_the_memory(
    fast: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not fast:
        monkeypatch.setattr(tables, "_fast_columns", lambda *_: None)
    (tmp_path / "a.csv").write_text(f"x,label\n1,a\n2,{'b' * 100_000}\n" + "3,a\n" * 60_000, encoding="utf-8")
    scenario = loaded(tmp_path, {"name": "a.csv"}, shape=(1,), classes=2)
    problem = r"a\.csv: line 3, column 'label': must have at most 250 characters, got 100,000: 'bbb.*\. Shorten it"
    with pytest.raises(DataError, match=problem):
        read_recorded(scenario)


def test_a_label_may_be_as_long_as_any_text(tmp_path: Path) -> None:
    files(tmp_path, labels="ab")
    for path in tmp_path.glob("*.csv"):
        path.write_text(path.read_text().replace(",a", f",{'a' * 250}"))
    for named in ({}, {"labels": ["a" * 250, "b"]}):
        read = read_recorded(loaded(tmp_path, {"name": "*.csv", **named}, shape=(1,), classes=2))
        assert read.classes == ("a" * 250, "b")


def test_a_long_text_of_a_parquet_file_is_refused(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"x": [1.0, 2.0], "label": ["a", "b" * 300]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"row 1, column 'label': must have at most 250 characters, got 300"):
        read_recorded(loaded(tmp_path, {"name": "a.parquet"}, shape=(1,), classes=2))


def test_whole_numbers_of_any_size_are_labels_of_parquet_files(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for number, label in enumerate((1e19, 2.0, 1e19, 2.0)):
        parquet.write_table(arrow.table({"x": [1.0, 2.0], "label": [label, label]}), tmp_path / f"{number}.parquet")
    read = read_recorded(loaded(tmp_path, {"name": "*.parquet"}, shape=(1,), classes=2))
    assert read.classes == ("10000000000000000000", "2")


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (f"x,{'y' * 140_000},label", r"a\.csv: line 1: field larger than field limit.*\. Correct this line"),
        (",".join("y" * 100_000 for _ in range(11)), r"a\.csv: line 1: has more than 1,048,576 characters"),
    ],
    ids=["one name", "all names"],
)
def test_a_header_that_is_too_long_is_refused(header: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"{header}\n1,2,a\n", encoding="utf-8")
    with pytest.raises(DataError, match=problem):
        read_recorded(loaded(tmp_path, {"name": "a.csv"}, shape=(1,), classes=2))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"], ids=["comma", "semicolon", "tab"])
@pytest.mark.parametrize("fast", [True, False])
def test_a_file_with_only_a_header_is_refused(
    fast: bool, delimiter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not fast:
        monkeypatch.setattr(tables, "_fast_columns", lambda *_: None)
    (tmp_path / "a.csv").write_text(delimiter.join(("t", "x", "label")) + "\n", encoding="utf-8")
    scenario = loaded(tmp_path, {"name": "a.csv", "time_column": "t"}, shape=(1,), classes=2)
    with pytest.raises(DataError, match=r"a\.csv: has no rows below its header\. Remove it, or fill it"):
        read_recorded(scenario)


def test_no_path_has_the_character_nul(tmp_path: Path) -> None:
    for name in ("logs\0/*.csv", "images\0/"):
        with pytest.raises(ScenarioError, match=r"data\.name: must not contain the character NUL"):
            loaded(tmp_path, {"name": name}, shape=(1, 4, 6), classes=2)


@pytest.mark.parametrize("label", ["inf", "nan", "1e39"])
def test_a_number_to_predict_that_is_too_large_is_refused_in_the_path(label: str, tmp_path: Path) -> None:
    for text in (label, "2"):
        write_csv(tmp_path / f"{text}.csv", {"x": signal(8, 0.0)})
    data = {"name": "{label}.csv", "test_by": "time"}
    with pytest.raises(DataError, match=rf"{label}\.csv: \{{label\}} in data\.name must be a number .* got '{label}'"):
        read_recorded(loaded(tmp_path, data, shape=(1,), classes=1, task="regression"))


def test_numbers_that_are_too_large_are_refused_without_a_warning(tmp_path: Path) -> None:
    files(tmp_path)
    model = loaded(tmp_path, {"name": "*.csv"}, shape=(1,), classes=2).model
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            DataError, match=r"mine: samples must fit float32 \(up to 3\.4e\+38\), got 1e\+39 at sample 1"
        ):
            checked_pair([[1.0], [1e39]], [0, 1], label="mine", model=model, predicts_numbers=False)
        with pytest.raises(
            DataError, match=r"mine: labels must fit float32 \(up to 3\.4e\+38\), got 1e\+39 at sample 0"
        ):
            checked_pair([[1.0], [1.0]], [1e39, 1.0], label="mine", model=model, predicts_numbers=True)


def test_a_recording_that_is_shorter_than_a_window_is_left_out(tmp_path: Path) -> None:
    for number in range(4):
        recordings = ["a"] * 8 + ["b"] * 2 + ["c"] * 8  # the one in the middle is short
        labels = [("good", "worn")[number % 2]] * 18
        write_csv(tmp_path / f"{number}.csv", {"x": signal(18, 100.0 * number), "run": recordings, "label": labels})
    data = {"name": "*.csv", "recording_column": "run", "window": 4}
    read = read_recorded(loaded(tmp_path, data, shape=(1, 4), classes=2))
    train, test = ({*np.unique(part[:, 0, 0] // 10)} for part in (read.samples, read.test_samples))
    assert len(read.samples) + len(read.test_samples) == 16
    assert not train & test


def test_files_whose_paths_say_one_recording_are_on_one_side(tmp_path: Path) -> None:
    for number in range(4):
        for piece in range(5):
            rows = signal(4, 1000.0 * number + 10.0 * piece)
            write_csv(tmp_path / f"day{number}-{piece}.csv", {"x": rows, "label": ["ab"[number % 2]] * 4})
    data = {"name": "{recording}-*.csv", "test_share": 0.5}
    read = read_recorded(loaded(tmp_path, data, shape=(1,), classes=2))
    train, test = ({*np.unique(part[:, 0] // 1000)} for part in (read.samples, read.test_samples))
    assert len(train) == len(test) == 2
    assert not train & test


def test_recordings_of_different_labels_are_different_ones(tmp_path: Path) -> None:
    for name in ("a/1", "a/2", "b/2"):
        write_csv(tmp_path / f"logs/{name}.csv", {"x": signal(8, 0.0)})
    scenario = loaded(tmp_path, {"name": "logs/{label}/{recording}.csv"}, shape=(1,), classes=2)
    with pytest.raises(DataError, match=r"'b'.*recording"):
        read_recorded(scenario)


def test_times_may_have_a_decimal_comma_too(tmp_path: Path) -> None:
    for number, label in enumerate("abab"):
        rows = "".join(f"{time};{1 if time == '0,5' else 2};{label}\n" for time in ("1,25", "0,5"))
        (tmp_path / f"{number}.csv").write_text(f"t;x;label\n{rows}", encoding="utf-8")
    data = {"name": "*.csv", "time_column": "t", "window": 2}
    read = read_recorded(loaded(tmp_path, data, shape=(1, 2), classes=2))
    assert read.samples[:, 0].tolist() == [[1.0, 2.0]] * 2


@pytest.mark.parametrize(
    "default",
    [{"label_column": "label"}, {"test_share": 0.2}, {"test_by": "recording"}, {"window": 4, "step": 4}],
    ids=lambda default: [*default][-1],
)
def test_a_key_with_its_default_counts_as_absent(default: Table, tmp_path: Path) -> None:
    window = {key: value for key, value in default.items() if key == "window"}
    absent = loaded(tmp_path, {"name": "x.csv", **window}, shape=(1,), classes=2)
    assert loaded(tmp_path, {"name": "x.csv", **default}, shape=(1,), classes=2) == absent
    if not window:  # neither has an effect, so that neither contradicts another key or kind of data
        loaded(tmp_path, {"name": "{label}.csv", "test_files": "a.csv", **default}, shape=(1,), classes=2)
        loaded(tmp_path, {"name": "fashion-mnist", **default}, shape=(1, 28, 28), classes=10)


@pytest.mark.parametrize("data", [{"device_column": "label"}, {"channels": ["x", "label"]}])
def test_the_column_that_labels_have_by_default_has_no_other_meaning(data: Table, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"data\.\w+: is .*got 'label'"):
        loaded(tmp_path, {"name": "x.csv", **data}, shape=(1,), classes=2)


def test_damaged_kept_samples_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_WORTH", 0.0)
    files(tmp_path)
    scenario = loaded(tmp_path, {"name": "*.csv"}, shape=(1,), classes=2)
    first = read_recorded(scenario)
    [place] = kept.cache_folder().iterdir()
    content = place.read_bytes()
    header = content.index(b"{'descr'")
    for damaged in (
        b"",
        content[:100],
        content.replace(b"{'descr'", b"{'descr("),
        content[: header + 20] + b"(" * 20 + content[header + 40 :],
        content.replace(b"PK\x01\x02", b"PK\x01\x02\xff\xff\xff\xff"),
        content.replace(b"\x00\x00stamp.npy", b"\x63\x00stamp.npy"),
        content.replace(b"PK\x03\x04", b"PK\x03\x05"),
    ):
        assert damaged != content
        place.write_bytes(damaged)
        again = read_recorded(scenario)
        assert again.samples.tolist() == first.samples.tolist()
        assert again.classes == first.classes


def own_samples() -> None:
    """Stand for a function of the user, which is not called."""


@pytest.mark.parametrize("name", ["*.csv", "tests.training.test_own_tables:own_samples", "fashion-mnist"])
def test_a_folder_of_data_that_does_not_exist_is_refused_for_any_data(name: str, tmp_path: Path) -> None:
    files(tmp_path)
    shape = (1, 28, 28) if name == "fashion-mnist" else (1,)
    scenario = loaded(tmp_path, {"name": name}, shape=shape, classes=10 if name == "fashion-mnist" else 2)
    problem = r"nowhere: no such folder\. Create it, or name another one"
    for function in (gather, shortage_of, held_out, lambda *given: share_of(given[0], "p1", given[1])):
        with pytest.raises(DataError, match=problem):
            function(scenario, tmp_path / "nowhere")
    if name == "*.csv":
        with pytest.raises(DataError, match=problem):
            api.check(tmp_path / "plant.toml", data_dir=tmp_path / "nowhere")
