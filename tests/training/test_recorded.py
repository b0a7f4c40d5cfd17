"""A plant's own files as data: sensor files, folders of pictures, who holds what, and what a wrong file is told."""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedfloor
from fedfloor import api
from fedfloor.errors import DataError, MissingExtraError, ScenarioError
from fedfloor.training.data import kept, tables
from fedfloor.training.data.holding import gather, held_out, share_of
from fedfloor.training.data.recorded import read_recorded
from fedfloor.training.data.tables import Columns, read_table
from fedfloor.training.data.verifying import VerifiedData
from tests.conftest import Table
from tests.training.plants import draw, loaded, signal, write_csv

PICTURES = pytest.importorskip("PIL.Image", reason="pictures need Pillow, of the extra 'files'")


def test_windows_of_one_recording_are_never_on_both_sides(tmp_path: Path) -> None:
    for label in ("good", "worn"):
        for number in range(5):
            start = 1000.0 * number + (10_000.0 if label == "worn" else 0.0)
            write_csv(tmp_path / f"{label}-{number}.csv", {"a": signal(50, start), "label": [label] * 50})
    for seed in range(4):
        data = {"name": "*.csv", "window": 8, "step": 3, "test_share": 0.4}
        scenario = loaded(tmp_path, data, shape=(1, 8), classes=2).model_copy(update={"plant_seed": seed})
        read = read_recorded(scenario)
        train, test = ({*np.unique(part[:, 0] // 1000)} for part in (read.samples, read.test_samples))
        assert not train & test
        assert len(train) == 6
        assert len(test) == 4
        assert all(np.array_equal(np.diff(window[0]), np.ones(7)) for window in read.samples)  # rows in a row
        assert len(read.samples) == 6 * 15
        assert {*read.labels} == {*read.test_labels} == {0, 1}
        assert np.array_equal(read.labels == 1, read.samples[:, 0, 0] >= 10_000)
        assert read.classes == ("good", "worn")


def test_the_end_of_a_recording_can_be_the_test_set_without_sharing_a_row(tmp_path: Path) -> None:
    labels = ["good"] * 50 + ["worn"] * 50
    write_csv(tmp_path / "log.csv", {"a": signal(100, 0.0), "label": labels})
    data = {"name": "log.csv", "window": 5, "step": 2, "test_by": "time", "test_share": 0.3}
    read = read_recorded(loaded(tmp_path, data, shape=(1, 5), classes=2))
    assert not {*read.samples.ravel().tolist()} & {*read.test_samples.ravel().tolist()}
    assert {*read.test_samples[read.test_labels == 0].ravel().tolist()} <= {*range(35, 50)}
    assert {*read.test_samples[read.test_labels == 1].ravel().tolist()} <= {*range(85, 100)}
    assert read.samples.max() == 84.0


def test_a_window_never_spans_two_labels_devices_or_recordings(tmp_path: Path) -> None:
    rows = 60
    device = np.where(np.arange(rows) % 2, "p1", "q1")  # rows of two devices take turns, as in a log of a plant
    label = np.repeat(["good", "worn", "good"], rows // 3)
    time = np.arange(rows)[::-1]
    columns = {"t": time, "a": time * 1.0, "machine": device, "label": label}
    write_csv(tmp_path / "one.csv", columns)
    write_csv(tmp_path / "two.csv", columns)
    data = {"name": "*.csv", "window": 5, "device_column": "machine", "time_column": "t", "test_files": "two.csv"}
    read = read_recorded(loaded(tmp_path, data, shape=(1, 5), classes=2))
    assert np.all(np.diff(read.samples[:, 0], axis=1) == 2.0)  # in the order of time, every other row
    of_row = dict(zip(time.tolist(), zip(device, label, strict=True), strict=True))
    for window, number, holder in zip(read.samples[:, 0], read.labels, read.holders, strict=True):
        assert {of_row[int(value)] for value in window} == {(holder, read.classes[number])}
    assert len(read.samples) == len(read.test_samples) == 12


def test_paths_can_say_device_label_and_recording(tmp_path: Path) -> None:
    for device in ("p1", "p2", "q1"):
        for label in ("good", "worn"):
            write_csv(tmp_path / device / f"{label}-1.csv", {"a": signal(10, 0.0)})
    write_csv(tmp_path / "bench" / "good-1.csv", {"a": signal(20, 0.0)})
    write_csv(tmp_path / "bench" / "worn-1.csv", {"a": signal(20, 0.0)})
    data = {"name": "{device}/{label}-{recording}.csv", "window": 5, "test_files": "bench/*.csv"}
    scenario = loaded(tmp_path, data, shape=(1, 5), classes=2)
    holding = gather(scenario)
    assert holding.histogram.tolist() == [[2, 2]] * 3
    assert holding.samples.test_labels.tolist() == [0] * 4 + [1] * 4
    assert holding.table()["partition"] is None
    assert holding.table()["labels"] == ["good", "worn"]


def test_files_without_devices_are_divided_like_any_data_set(tmp_path: Path) -> None:
    for number in range(4):
        labels = np.repeat(np.arange(5), 80)
        write_csv(tmp_path / f"{number}.csv", {"a": signal(400, 0.0), "b": signal(400, 0.0), "label": labels})
    data = {"name": "*.csv", "partition": "iid", "test_files": "3.csv"}
    holding = gather(loaded(tmp_path, data, shape=(2,), classes=5))
    assert holding.histogram.sum(1).tolist() == [100, 100, 100]
    assert holding.samples.images.shape == (300, 2)
    assert holding.samples.test_labels.size == 400


def test_numbered_windows_and_rows_are_samples_too(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", {"x": range(12), "w": np.repeat([7, 8, 9], 4), "label": np.repeat([0, 1, 0], 4)})
    write_csv(tmp_path / "b.csv", {"x": range(4), "w": [1] * 4, "label": [1] * 4})
    data = {"name": "*.csv", "window_column": "w", "test_files": "b.csv"}
    read = read_recorded(loaded(tmp_path, data, shape=(1, 4), classes=2))
    assert read.samples[:, 0].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert read.labels.tolist() == [0, 1, 0]
    by_time = {"name": "a.csv", "window_column": "w", "test_by": "time", "test_share": 0.5}
    halved = read_recorded(loaded(tmp_path, by_time, shape=(1, 4), classes=2))
    assert halved.samples[:, 0].tolist() == [[0, 1, 2, 3]]  # the window of label 1 lies across the border
    assert halved.test_samples[:, 0].tolist() == [[8, 9, 10, 11]]
    rows = {"name": "*.csv", "channels": ["x", "w"], "test_files": "b.csv"}
    assert read_recorded(loaded(tmp_path, rows, shape=(2,), classes=2)).samples.shape == (12, 2)


def test_numbers_to_predict_are_those_of_the_last_row(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_csv(tmp_path / f"{name}.csv", {"x": signal(20, 0.0), "wear": signal(20, 0.5)})
    data = {"name": "*.csv", "label_column": "wear", "window": 4, "test_files": "b.csv"}
    read = read_recorded(loaded(tmp_path, data, shape=(1, 4), classes=1, task="regression"))
    assert np.array_equal(read.labels, read.samples[:, 0, -1] + 0.5)
    assert read.labels.dtype == np.float32
    assert read.classes == ()


def test_both_csv_readers_and_parquet_give_the_same_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow, of the extra 'files'")
    parquet = pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    columns: dict[str, list[object]] = {
        "t": [f"2026-03-01T12:00:{second:02d}" for second in range(40)],
        "a": rng.normal(size=40).tolist(),
        "b": rng.integers(0, 9, 40).tolist(),
        "label": rng.choice(["good", "worn"], 40).tolist(),
    }
    write_csv(tmp_path / "x.csv", columns)
    parquet.write_table(arrow.table(columns), tmp_path / "x.parquet")
    wanted = Columns(None, (), ("label",), ("t",))
    fast, stored = read_table(tmp_path / "x.csv", wanted), read_table(tmp_path / "x.parquet", wanted)
    monkeypatch.setattr(tables, "_fast_columns", lambda *_: None)
    plain = read_table(tmp_path / "x.csv", wanted)
    for other in (fast, stored):
        assert other.channels == plain.channels == ("a", "b")
        assert np.array_equal(other.values, plain.values)
        assert np.array_equal(other.texts["label"], plain.texts["label"])
        assert np.array_equal(other.numbers["t"], plain.numbers["t"])
    parquet.write_table(arrow.table({"a": [1.0, None], "label": ["x", "y"]}), tmp_path / "gap.parquet")
    with pytest.raises(DataError, match=r"gap\.parquet: row 1, column 'a': must be a finite number, got nothing"):
        read_table(tmp_path / "gap.parquet", Columns(None, (), ("label",)))
    (tmp_path / "no.parquet").write_bytes(b"PAR1 but nothing else")
    with pytest.raises(DataError, match=r"no\.parquet: cannot be read as a Parquet file"):
        read_table(tmp_path / "no.parquet", Columns(None, (), ("label",)))


def test_semicolons_tabs_and_decimal_commas_are_understood(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x;label\r\n1,5;good\r\n\r\n2,25; worn \r\n", encoding="utf-8-sig")
    table = read_table(tmp_path / "a.csv", Columns(None, (), ("label",)))
    assert table.values.tolist() == [[1.5], [2.25]]
    assert table.texts["label"].tolist() == ["good", "worn"]
    write_csv(tmp_path / "b.csv", {"x": [1, 2], "label": ["u", "v"]}, delimiter="\t")
    assert read_table(tmp_path / "b.csv", Columns(("x",), (), ("label",))).values.tolist() == [[1.0], [2.0]]


def ok(rows: int = 12, **more: Sequence[object]) -> dict[str, Sequence[object]]:
    return {"a": list(range(rows)), "label": ["good", "worn"] * (rows // 2), **more}


@pytest.mark.parametrize(
    ("text", "more", "problem"),
    [
        ("a,label\n1,x\n2\n", {}, r"bad\.csv: line 3: has 1 cells, the header has 2\. Correct this line"),
        ("a,label\n1,x\n2,y,z\n", {}, r"bad\.csv: line 3: has 3 cells"),
        ("a,label\n1,x\nNaN,y\n", {}, r"bad\.csv: line 3, column 'a': must be a finite number, got 'NaN'\. Fill"),
        ("a,label\n1,x\n,y\n", {}, r"line 3, column 'a': must be a finite number, got nothing"),
        ("a,label\n1,x\n\nten,y\n", {}, r"line 4, column 'a': must be a finite number, got 'ten'"),
        ("a,label\n1,x\n2,\n", {}, r"row 2 below the header, column 'label': is empty"),
        ("a,lable\n1,x\n", {}, r"has no column 'label'\. Did you mean 'lable'\?"),
        ("a,label\n1,x\n", {"channels": ["a", "b"]}, r"has no column 'b'"),
        ("a,a,label\n1,1,x\n", {}, r"has the column 'a' twice"),
        ("label\nx\n", {}, r"has no column for a channel"),
        ("a,label\n", {}, r"has no rows below its header"),
        ("", {}, r"line 1: has no names of columns"),
        ("a,label\n1,x\n2,x\n", {"window": 3}, r"has at most 2 rows of one recording and label"),
        ("a,label,t\n1,x,noon\n", {"time_column": "t"}, r"column 't': must be a number, or a time .*got 'noon'"),
        ("a,label,w\n1,x,1\n2,x,1\n3,x,2\n", {"window_column": "w"}, r"window '2' has 1 rows, window '1' has 2"),
        ("a,label,w\n1,x,1\n2,y,1\n", {"window_column": "w"}, r"window '1' has rows of several labels"),
        ("a,label,w\n1,x,1\n2,x,2\n3,x,1\n", {"window_column": "w"}, r"rows of window '1' do not follow each other"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_its_line_and_column(text: str, more: Table, problem: str, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=problem):
        read_recorded(loaded(tmp_path, {"name": "*.csv", "test_by": "time", **more}, shape=(1,), classes=2))


@pytest.mark.parametrize(
    ("data", "shape", "classes", "problem"),
    [
        ({"name": "none-*.csv"}, (1,), 2, r"none-\*\.csv: no file matches it\. Correct data\.name; a relative path"),
        ({"name": "*.csv", "test_files": "c.csv"}, (1,), 2, r"test_files .*matches none of the 2 files"),
        ({"name": "*.csv", "test_files": "*.csv"}, (1,), 2, r"test_files .*matches all 2 files"),
        ({"name": "a.csv"}, (1,), 2, r"a\.csv: label 'good' has only one recording.*data\.test_by = \"time\""),
        ({"name": "*.csv"}, (3,), 2, r"model\.input: must be \[1\], because the files have 1 channels in a row"),
        ({"name": "*.csv"}, (1,), 3, r"model\.classes: must be 2, because the data has the labels 'good'"),
        ({"name": "*.csv", "labels": ["god", "worn"]}, (1,), 2, r"data\.labels: 'good' occurs .*Did you mean 'god'"),
        ({"name": "*.csv", "device_column": "label"}, (1,), 2, r"names the device 'good', which is not in"),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused_with_what_the_files_have(
    data: Table, shape: tuple[int, ...], classes: int, problem: str, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        write_csv(tmp_path / f"{name}.csv", ok(label2=["good", "worn"] * 6) if "device_column" in data else ok())
    if "device_column" in data:
        data = data | {"label_column": "label2", "channels": ["a"]}
    with pytest.raises(DataError, match=problem):
        gather(loaded(tmp_path, data, shape=shape, classes=classes))


def test_a_device_without_a_row_is_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_csv(tmp_path / f"{name}.csv", ok(machine=["p1", "p2"] * 6))
    data = {"name": "*.csv", "device_column": "machine", "test_files": "b.csv"}
    with pytest.raises(DataError, match="q1 holds no samples for training: the files do not name it"):
        gather(loaded(tmp_path, data, shape=(1,), classes=2))


def test_devices_without_a_row_are_named_at_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_csv(tmp_path / f"{name}.csv", ok(machine=["p1"] * 12))
    data = {"name": "*.csv", "device_column": "machine", "test_files": "b.csv"}
    with pytest.raises(DataError, match="p2, q1 hold no samples for training: the files do not name them"):
        gather(loaded(tmp_path, data, shape=(1,), classes=2))


def test_fewer_classes_than_devices_may_hold_are_all_of_them(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_csv(tmp_path / f"{name}.csv", ok(label2=["good", "worn"] * 6))
    data = {"name": "*.csv", "label_column": "label2", "channels": ["a"], "test_files": "b.csv"}
    loaded(tmp_path, data, shape=(1,), classes=2)
    samples = gather(fedfloor.load(tmp_path / "plant.toml", ["floors.0.classes_per_device=5"])).samples
    assert set(samples.labels[samples.of_device(0)].tolist()) == {0, 1}


def test_one_class_only_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_csv(tmp_path / f"{name}.csv", {"a": range(5), "label": ["good"] * 5})
    with pytest.raises(DataError, match=r"model\.classes: must be 1, because the data has the labels 'good'; got 2"):
        gather(loaded(tmp_path, {"name": "*.csv"}, shape=(1,), classes=2))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"name": "sensors/*.txt"}, r"data\.name: unknown data set, got 'sensors/\*\.txt'.*end in \.csv or \.parquet"),
        ({"name": "x/*.csv", "step": 2}, r"data\.step: has no effect without data\.window"),
        ({"name": "x/", "window": 2}, r"data\.window: has an effect only on sensor files"),
        ({"labels": ["a", "b"]}, r"data\.labels: has an effect only on files"),
        ({"name": "x/{machine}.csv"}, r"data\.name: its path can have \{device\} or \{label\} or \{recording\}"),
        ({"name": "x/{label}.csv", "label_column": "y"}, r"data\.label_column: says the same as \{label\}"),
        ({"name": "x.csv", "channels": ["a", "a"]}, r"data\.channels: must name every entry once, got 'a' twice"),
        ({"name": "x.csv", "time_column": "t", "label_column": "t"}, r"is the same column as data\.label_column"),
        ({"name": "x.csv", "pictures": True}, r"data\.pictures: must be false"),
        ({"name": "x/", "pictures": False}, r"data\.pictures: must be true"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(data: Table, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=problem):
        loaded(tmp_path, data, shape=(1, 2), classes=2)


def test_a_folder_per_class_is_read_in_the_size_and_colours_of_the_network(tmp_path: Path) -> None:
    for number in range(10):
        draw(tmp_path / "images" / "dent" / f"{number}.png", 10 + number)
        draw(tmp_path / "images" / "crack" / "deeper" / f"{number}.PNG", 100 + number, (12, 8))
    scenario = loaded(tmp_path, {"name": "images/", "test_share": 0.3}, shape=(1, 4, 6), classes=2)
    read = read_recorded(scenario)
    assert read.classes == ("crack", "dent")
    assert read.samples.shape == (14, 1, 4, 6)
    assert read.samples.dtype == np.uint8
    values = [{*part[:, 0, 0, 0].tolist()} for part in (read.samples, read.test_samples)]
    assert not values[0] & values[1]
    assert values[0] | values[1] == {*range(10, 20), *range(100, 110)}
    assert np.array_equal(read.labels == 0, read.samples[:, 0, 0, 0] >= 100)
    assert scenario.data.holds_pictures
    other = read_recorded(scenario.model_copy(update={"seed": 5}))
    assert {*other.test_samples[:, 0, 0, 0].tolist()} != values[1]
    colour = loaded(tmp_path, {"name": "images/"}, shape=(3, 2, 2), classes=2)
    assert read_recorded(colour).samples.shape == (16, 3, 2, 2)


def test_folders_train_and_test_and_devices_are_respected(tmp_path: Path) -> None:
    for device in ("p1", "p2", "q1"):
        for side, grey in (("train", 10), ("test", 20)):
            for kind in ("a", "b"):
                draw(tmp_path / "images" / device / side / kind / "x.png", grey)
    holding = gather(loaded(tmp_path, {"name": "images/{device}/"}, shape=(1, 4, 6), classes=2))
    assert holding.histogram.tolist() == [[1, 1]] * 3
    assert {*holding.samples.images.ravel().tolist()} == {10}
    assert {*holding.samples.test_images.ravel().tolist()} == {20}


def _broken(folder: Path) -> None:
    (folder / "a" / "x.png").write_bytes((folder / "a" / "x.png").read_bytes()[:40])


def _empty(folder: Path) -> None:
    (folder / "c").mkdir()


def _single(folder: Path) -> None:
    (folder / "a" / "y.png").unlink()


def _one_side(folder: Path) -> None:
    (folder / "train").mkdir()


def _deep(folder: Path) -> None:
    PICTURES.new("I;16", (6, 4)).save(folder / "a" / "x.png")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_broken, r"a/x\.png: cannot be read as a picture: .*Replace or remove it"),
        (_empty, r"images/c: has no picture, which ends in \.bmp"),
        (_single, r"class 'a' has only one picture"),
        (_one_side, r"images: has a folder 'train' but no 'test'"),
        (_deep, r"a/x\.png: .*more than 8 bits per colour"),
    ],
)
def test_wrong_pictures_and_folders_are_named(change: Callable[[Path], None], problem: str, tmp_path: Path) -> None:
    for kind in ("a", "b"):
        for name in ("x", "y"):
            draw(tmp_path / "images" / kind / f"{name}.png", 1)
    change(tmp_path / "images")
    with pytest.raises(DataError, match=problem):
        read_recorded(loaded(tmp_path, {"name": "images/"}, shape=(1, 4, 6), classes=2))


def test_an_empty_folder_and_a_missing_one_are_refused(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    with pytest.raises(DataError, match=r"images: has no folder\. Make one folder per class"):
        read_recorded(loaded(tmp_path, {"name": "images/"}, shape=(1, 4, 6), classes=2))
    with pytest.raises(DataError, match="no such folder"):
        read_recorded(loaded(tmp_path, {"name": "elsewhere/"}, shape=(1, 4, 6), classes=2))


def test_missing_extras_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.parquet").write_bytes(b"")

    def refuse(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", refuse)
    with pytest.raises(MissingExtraError, match=r"x\.parquet: reading Parquet files needs the extra 'files'"):
        read_table(tmp_path / "x.parquet", Columns(None, (), ()))


def test_what_was_slow_to_read_is_kept_until_a_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_WORTH", 0.0)
    for name in ("a", "b"):
        write_csv(tmp_path / f"{name}.csv", ok())
    scenario = loaded(tmp_path, {"name": "*.csv", "test_files": "b.csv"}, shape=(1,), classes=2)
    steps: list[str] = []
    first = read_recorded(scenario, on_step=steps.append)
    again = read_recorded(scenario, on_step=steps.append)
    assert steps == ["1 of 2 files", "2 of 2 files"]
    assert np.array_equal(first.samples, again.samples)
    assert np.array_equal(first.test_labels, again.test_labels)
    (stored,) = kept.cache_folder().iterdir()
    assert stored.stat().st_mode & 0o077 == 0
    write_csv(tmp_path / "a.csv", ok(14))
    os.utime(tmp_path / "a.csv", ns=(1, 1))
    assert len(read_recorded(scenario).samples) == 14
    stored.write_bytes(b"damaged")
    assert len(read_recorded(scenario).samples) == 14


def test_a_device_reads_only_its_own_files_and_the_base_station_the_test_set(tmp_path: Path) -> None:
    for place, count in (("p1", 10), ("bench", 6)):
        for label in ("good", "worn"):
            write_csv(tmp_path / place / f"{label}.csv", {"a": signal(count, 0.0)})
    data = {"name": "{device}/{label}.csv", "window": 2, "test_files": "bench/*.csv", "labels": ["good", "worn"]}
    scenario = loaded(tmp_path, data, shape=(1, 2), classes=2)
    samples, labels = share_of(scenario, "p1")
    assert samples.shape == (10, 1, 2)
    assert labels.tolist() == [0] * 5 + [1] * 5
    tests = held_out(scenario)
    assert tests is not None
    assert tests[1].tolist() == [0] * 3 + [1] * 3
    with pytest.raises(DataError, match=r"data \S+q1/\{label\}\.csv: no file matches it"):
        share_of(scenario, "q1")
    elsewhere = loaded(tmp_path, data | {"name": "far/{device}/{label}.csv"}, shape=(1, 2), classes=2)
    assert held_out(elsewhere) is None
    drawn = loaded(tmp_path, {key: data[key] for key in ("name", "window")}, shape=(1, 2), classes=2)
    with pytest.raises(DataError, match=r"data\.test_files: must be given on real machines"):
        share_of(drawn, "p1")


ROWS = "".join(f"{row},b\n" for row in range(8))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('x,label\n1,"b\n2,b\n3,b\n', "line 4: unexpected end of data"),
        ("x,label\n1,b\n2,\n3,b\n", "row 2 below the header, column 'label': is empty"),
        (f"x,label\n{'9' * 60},b\n", "line 2, column 'x': must be a finite number, got '999"),
        ("x,label\n1,b\n0x10,b\n", "line 3, column 'x': must be a finite number, got '0x10'"),
        (f"x,label\n{ROWS}".encode("utf-16"), "is not UTF-8 text"),
        ("", "line 1: has no names of columns"),
        (f"x,label\n{ROWS}".replace(",b", ",b\x1b[31m"), r"no control characters, got 'b\x1b[31m'"),
        (f"x,label\n{ROWS}".replace(",b", f",{'7' * 5000}"), "must have at most 250 characters"),
    ],
    ids=["quotation", "gap", "huge", "hexadecimal", "utf-16", "empty", "control", "long"],
)
@pytest.mark.parametrize(
    "name", ["8.csv", "line\nbreak.csv", os.fsdecode(b"\xff.csv")], ids=["plain", "break", "bytes"]
)
def test_odd_files_end_in_one_line_that_names_them(
    name: str, content: str | bytes, problem: str, tmp_path: Path
) -> None:
    for number in range(4):
        write_csv(tmp_path / "logs" / f"{number}.csv", {"x": signal(8, number), "label": ["ab"[number % 2]] * 8})
    path = tmp_path / "logs" / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    scenario = loaded(tmp_path, {"name": "logs/*.csv", "window": 2, "test_by": "time"}, shape=[1, 2], classes=2)
    with pytest.raises(DataError) as caught:
        gather(scenario)
    message = str(caught.value)
    assert problem in message
    assert message.isprintable()


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: text.replace("x,label", " x , label "),
        lambda text: text.replace(",b", ',"b"').replace(",a", ',"a"'),
    ],
    ids=["byte order mark and CRLF", "CR", "spaces", "quotes"],
)
def test_files_of_other_programs_are_read_alike(change: Callable[[str], str], tmp_path: Path) -> None:
    for number in range(4):
        path = tmp_path / "l[1]" / f"{number}.csv"  # brackets have no meaning in data.name
        write_csv(path, {"x": signal(8, number), "label": ["ab"[number % 2]] * 8})
    scenario = loaded(tmp_path, {"name": "l[1]/*.csv", "window": 2}, shape=[1, 2], classes=2)
    before = read_recorded(scenario)
    for path in (tmp_path / "l[1]").iterdir():
        path.write_bytes(change(path.read_text()).encode())
    after = read_recorded(scenario)
    assert np.array_equal(after.samples, before.samples)
    assert (after.classes, after.labels.tolist()) == (("a", "b"), before.labels.tolist())


@pytest.mark.parametrize("time", ["nan", "inf", "", "NaT", "noon"])
@pytest.mark.parametrize("first", ["1", "2026-03-01T12:00:00+01:00"])
def test_a_time_that_is_none_is_refused_with_its_row(first: str, time: str, tmp_path: Path) -> None:
    write_csv(tmp_path / "0.csv", {"t": [first, time], "x": [1, 2]})
    with pytest.raises(DataError, match=r"row 2 below the header, column 't': must be a number, or a time such as"):
        read_table(tmp_path / "0.csv", Columns(("x",), (), (), ("t",)))


def test_a_device_that_is_not_in_the_scenario_is_refused_on_either_side(tmp_path: Path) -> None:
    for device in ("p1", "p2", "q1", "stranger"):
        for number in range(2 if device == "stranger" else 4):
            columns: dict[str, Iterable[object]] = {"x": signal(8, number), "label": ["ab"[number % 2]] * 8}
            write_csv(tmp_path / "logs" / f"{device}-{number}.csv", columns)
    scenario = loaded(tmp_path, {"name": "logs/{device}-*.csv", "window": 2}, shape=[1, 2], classes=2)
    for seed in range(6):  # which draws the test set
        with pytest.raises(DataError, match="names the device 'stranger', which is not in the scenario"):
            gather(scenario.model_copy(update={"seed": seed}))


def test_columns_of_parquet_files_that_are_no_labels_are_refused(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = Columns(("x",), (), ("label",))
    for labels, problem in (
        ([0.0, math.nan], "row 1, column 'label': must be a finite number, got nan"),
        ([[1], [2]], "column 'label': must be text or numbers, got list"),
        ([b"\xff", b"a"], "column 'label': must be text or numbers, got binary"),
    ):
        parquet.write_table(arrow.table({"x": [1.0, 2.0], "label": labels}), tmp_path / "0.parquet")
        with pytest.raises(DataError, match=problem):
            read_table(tmp_path / "0.parquet", columns)
    parquet.write_table(arrow.table({"x": [1.0, 2.0], "label": [b"a ", b"b"]}), tmp_path / "0.parquet")
    assert read_table(tmp_path / "0.parquet", columns).texts["label"].tolist() == ["a", "b"]
    content = bytearray((tmp_path / "0.parquet").read_bytes())
    content[4:40] = bytes(range(200, 236))
    (tmp_path / "0.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"0\.parquet: cannot be read as a Parquet file: .*\. Write it again") as caught:
        read_table(tmp_path / "0.parquet", columns)
    assert str(caught.value).isprintable()


def test_pictures_of_other_kinds_are_converted_or_refused_without_a_warning(tmp_path: Path) -> None:
    for number in range(3):
        draw(tmp_path / "images" / "a" / f"{number}.png", grey=number)
        draw(tmp_path / "images" / "b" / f"{number}.png", grey=number)
    PICTURES.new("CMYK", (6, 4), (0, 0, 0, 0)).save(tmp_path / "images" / "a" / "cmyk.jpg")
    palette = PICTURES.new("P", (6, 4))
    palette.putpalette([7, 7, 7] * 256)
    palette.save(tmp_path / "images" / "a" / "palette.png", transparency=bytes([0, 1]))
    scenario = loaded(tmp_path, {"name": "images/"}, shape=[3, 4, 6], classes=2)
    read = read_recorded(scenario)
    values = {*np.concatenate([read.samples, read.test_samples])[:, 0, 0, 0].tolist()}
    assert {0, 1, 2, 7, 255} >= values >= {7}
    for name, mode in (("deep.png", "I;16"), ("float.tif", "F")):
        PICTURES.new(mode, (6, 4)).save(tmp_path / "images" / "a" / name)
        with pytest.raises(DataError, match=rf"{name}: .* more than 8 bits per colour"):
            read_recorded(scenario)
        (tmp_path / "images" / "a" / name).unlink()


def test_verify_reads_every_file_and_names_all_that_are_wrong(
    tmp_path: Path, fedfloor_command: Callable[..., Any]
) -> None:
    for number in range(6):
        label = "bad" if number % 2 else "good"
        write_csv(tmp_path / "logs" / f"{number}.csv", {"x": signal(8, number), "label": [label] * 8})
    data: Table = {"name": "logs/*.csv", "window": 2}
    scenario = loaded(tmp_path, data, shape=[1, 2], classes=2)
    steps: list[str] = []
    verified = api.verify_data(scenario, on_step=steps.append)
    assert isinstance(verified, VerifiedData)
    assert [file.samples for file in verified.files] == [4] * 6
    assert (verified.wrong, steps[5]) == ((), "6 of 6 files")
    assert (verified.classes, verified.shape) == (("bad", "good"), (1, 2))
    assert (verified.training, verified.test, verified.test_per_class) == (16, 8, (4, 4))
    (tmp_path / "logs" / "1.csv").write_text("x,label\n1,bad\n,bad\n")
    (tmp_path / "logs" / "4.csv").write_text("y,label\n1,bad\n")
    done = fedfloor_command("data", "verify", "plant.toml")
    assert done.returncode == 2
    first, second = done.stdout.splitlines()
    assert "1.csv: line 3, column 'x': must be a finite number, got nothing. Fill the gap" in first
    assert "4.csv: has no column 'x'." in second
    assert "2 of 6 files cannot be used" in done.stderr


def test_verify_takes_pictures_presets_and_functions(tmp_path: Path) -> None:
    for number in range(4):
        draw(tmp_path / "images" / "ab"[number % 2] / f"{number}.png", grey=number)
    (tmp_path / "images" / "a" / "broken.png").write_bytes(b"no picture")
    scenario = loaded(tmp_path, {"name": "images/"}, shape=[1, 4, 6], classes=2)
    verified = api.verify_data(scenario)
    assert isinstance(verified, VerifiedData)
    assert [file.path.name for file in verified.wrong] == ["broken.png"]
    assert "cannot be read as a picture" in str(verified.wrong[0].problem)
    assert api.verify_data("quick").name == "fashion-mnist"
    with pytest.raises(DataError, match="data set 'cifar11': unknown"):
        api.verify_data("cifar11")


def test_check_show_and_run_work_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    for device in ("p1", "p2", "q1", "bench"):
        for k, label in enumerate(("good", "worn")):
            wave = np.sin(np.arange(160) * (0.3 + k)) + rng.normal(0.0, 0.1, 160)
            write_csv(tmp_path / "plant" / "logs" / device / f"{label}.csv", {"a": wave})
    data = {"name": "logs/{device}/{label}.csv", "window": 16, "step": 4, "test_files": "logs/bench/*.csv"}
    (tmp_path / "plant").rename(tmp_path / "plant:one")  # not a reference to code
    loaded(tmp_path / "plant:one", data, shape=(1, 16), classes=2)
    monkeypatch.chdir(tmp_path)
    checked = api.check("plant:one/plant.toml")
    assert checked.shortage["devices"] == []
    assert [entry["held"] for entry in api.holding("plant:one/plant.toml")["devices"]] == [74] * 3
    settings = ["training.learning_rate=0.2", "limits=false", "training.batch_fraction=0.5"]
    done = fedfloor.run("plant:one/plant.toml", "random", 15, overrides=settings, out="run", workers=1)
    assert done.accuracy is not None
    assert done.accuracy > 0.9
    assert api.evaluate("run")["same_data"]
    assert fedfloor.run(
        "plant:one/plant.toml", "random", 16, overrides=settings, out="run", workers=1, resume=True
    ).resumed


def test_a_model_of_sensors_with_negative_means_is_loaded_from_its_run(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for device in ("p1", "p2", "q1", "bench"):
        for k, label in enumerate(("cold", "frozen")):
            columns = {"celsius": rng.normal(-20.0 - 10.0 * k, 1.0, 80), "pressure": rng.normal(5.0, 1.0, 80)}
            write_csv(tmp_path / "logs" / device / f"{label}.csv", columns)
    data = {"name": "logs/{device}/{label}.csv", "window": 4, "test_files": "logs/bench/*.csv"}
    scenario = loaded(tmp_path, data, shape=(2, 4), classes=2)
    run = tmp_path / "run"
    settings = {"overrides": ["limits=false", "training.learning_rate=0.1"], "workers": 1, "out": run}
    done = fedfloor.run(tmp_path / "plant.toml", "random", 3, **settings)  # type: ignore[arg-type]
    model, samples = fedfloor.load_model(run), gather(scenario).samples
    assert model.mean.flatten().tolist() == pytest.approx([-25.0, 5.0], abs=0.5)
    predicted = model(torch.from_numpy(samples.test_images)).argmax(1).numpy()
    assert float((predicted == samples.test_labels).mean()) == done.accuracy == api.evaluate(run)["accuracy"]
    assert fedfloor.run(tmp_path / "plant.toml", "random", 4, resume=True, **settings).resumed == 3  # type: ignore[arg-type]
