"""The part of a scenario file that describes the data: which there is, how files are read, and who holds what."""

__all__ = ["READING_KEYS", "Data", "fields_of"]

import re
from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, Strict, field_validator, model_validator

from fedfloor.errors import advice_for, shown
from fedfloor.scenario.catalogue import DATASETS
from fedfloor.scenario.section import Flag, Int1, Section, finding, is_same

_TABLES = (".csv", ".parquet")  #: endings of sensor files
_FIELD = re.compile(r"\{(\w*)\}")
_FILE_FIELDS = ("device", "label", "recording")  #: what a part of a file's path can say
#: keys that say how the rows of sensor files become samples
READING_KEYS = (
    "channels",
    "label_column",
    "device_column",
    "recording_column",
    "time_column",
    "window_column",
    "window",
    "step",
)
_SENSOR_KEYS = (*READING_KEYS, "test_files", "test_by")  #: keys that only sensor files use
_FILE_KEYS = ("labels", "test_share")  #: keys that both kinds of files use
_LABEL_COLUMN, _TEST_SHARE = "label", 0.2
_DEFAULTS = {"label_column": _LABEL_COLUMN, "test_share": _TEST_SHARE, "test_by": "recording"}

Column = Annotated[str, Field(min_length=1, max_length=200)]
Text = Annotated[str, Field(min_length=1, max_length=250)]
Share = Annotated[float, Strict(), Field(gt=0, lt=1)]


def fields_of(pattern: str) -> tuple[str, ...]:
    """Names in braces in the path of files, such as `device` in `sensors/{device}/*.csv`."""
    return tuple(_FIELD.findall(pattern))


class Data(Section):
    """Which data there is and who holds what."""

    name: Annotated[str, Field(min_length=1)] = "fashion-mnist"
    """a data set, sensor files such as `sensors/*.csv`, a folder of pictures `images/`, or `package.module:function`"""
    partition: Literal["classes", "dirichlet", "shards", "iid"] = "classes"
    """who holds what: q classes per device, Dirichlet shares of classes, pieces of the sorted data, or a blind draw"""
    non_iid_fraction: Annotated[float, Strict(), Field(ge=0, le=1)] = 1.0
    """chi, share of a device's samples that come from its own classes only; of `classes`"""
    concentration: Annotated[float, Strict(), Field(ge=1e-3, le=1e6)] = 0.5
    """of `dirichlet`: small for few classes per device, large for all alike"""
    shards: Annotated[int, Strict(), Field(ge=1, le=1000)] = 2
    """of `shards`: pieces per device"""
    pictures: Flag | None = None
    """whether samples are uint8, which cut 0 sends as they are; not given, true for built-in data, false for yours"""
    channels: Annotated[tuple[Column, ...], Field(min_length=1)] | None = None
    """of sensor files: columns that form a sample, in this order; not given, all columns without another meaning"""
    label_column: Column | None = None
    """of sensor files: column with the class of a row, or with the number to predict; not given, `label`"""
    device_column: Column | None = None
    """of sensor files: column with the device that holds a row; not given, windows are divided by `partition`"""
    recording_column: Column | None = None
    """of sensor files: column that tells recordings in a file apart; not given, every file is a recording"""
    time_column: Column | None = None
    """of sensor files: column by which rows are put in order; not given, the order of the file"""
    window_column: Column | None = None
    """of sensor files: column that numbers windows; rows of the same number are one sample"""
    window: Int1 | None = None
    """of sensor files: rows per sample; without it and `window_column`, every row is a sample"""
    step: Int1 | None = None
    """of sensor files: rows from the start of a window to the start of the next; not given, `window`"""
    labels: Annotated[tuple[Text, ...], Field(min_length=2)] | None = None
    """of files: names of the classes in the order of their numbers; not given, the sorted names that occur"""
    test_files: Annotated[str, Field(min_length=1)] | None = None
    """of sensor files: those of the files that are the test set, such as `sensors/*-load3.csv`"""
    test_share: Share | None = None
    """of files: share of recordings, or of the pictures of a class, that is the test set; not given, 0.2"""
    test_by: Literal["recording", "time"] | None = None
    """of sensor files without `test_files`: test on whole recordings, or on the end of each; not given, `recording`"""

    @property
    def kind(self) -> Literal["built-in", "own", "sensors", "images"]:
        """What the name stands for."""
        if self.name in DATASETS:
            return "built-in"
        if self.name.endswith("/"):
            return "images"
        return "sensors" if self.name.endswith(_TABLES) else "own"

    @property
    def says_holders(self) -> bool:
        """Whether the data itself says which device holds which sample, so that it is not divided by us."""
        return self.kind == "own" or self.device_column is not None or "device" in fields_of(self.name)

    @property
    def holds_pictures(self) -> bool:
        """Whether samples are pictures, which cut 0 sends with 8 bits per value."""
        return self.kind in ("built-in", "images") if self.pictures is None else self.pictures

    @property
    def column_of_labels(self) -> str | None:
        """Column of sensor files with the label of a row; None if the path says it."""
        return None if "label" in fields_of(self.name) else self.label_column or _LABEL_COLUMN

    @property
    def share_of_test(self) -> float:
        """Share of recordings, or of the pictures of a class, that is the test set."""
        return self.test_share or _TEST_SHARE

    def located(self, folder: Path) -> Self:
        """The same data with absolute paths of its files, which are relative to a folder."""
        if self.kind not in ("sensors", "images"):
            return self
        name = f"{(folder / self.name).absolute()}{'/' if self.kind == 'images' else ''}"
        test = None if self.test_files is None else str((folder / self.test_files).absolute())
        return self.model_copy(update={"name": name, "test_files": test})

    @model_validator(mode="before")
    @classmethod
    def _defaults_count_as_absent(cls, data: object) -> object:
        name = data.get("name", cls.model_fields["name"].default) if isinstance(data, dict) else None
        if not isinstance(data, dict) or not isinstance(name, str):
            return data
        defaults = {**_DEFAULTS, "pictures": name in DATASETS or name.endswith("/"), "step": data.get("window")}
        return {key: value for key, value in data.items() if key not in defaults or not is_same(value, defaults[key])}

    @model_validator(mode="after")
    def _pictures_are_what_they_are(self) -> Self:
        if self.pictures is False and self.kind in ("built-in", "images"):
            raise finding(f"must be true, because {self.name} are pictures, got False. Leave it out", below="pictures")
        if self.pictures is True and self.kind == "sensors":
            problem = "must be false, because sensor files hold other numbers than pixels, got True. Leave it out"
            raise finding(problem, below="pictures")
        return self

    @model_validator(mode="after")
    def _settings_of_files_have_an_effect(self) -> Self:
        for keys, kinds, what in (
            (_SENSOR_KEYS, ("sensors",), "sensor files, whose data.name ends in .csv or .parquet"),
            (_FILE_KEYS, ("sensors", "images"), "files, whose data.name ends in .csv, .parquet or /"),
        ):
            for key in keys:
                if getattr(self, key) is not None and self.kind not in kinds:
                    raise finding(f"has an effect only on {what}. Leave it out", below=key)
        for key, other in (("window", "window_column"), ("step", "window_column"), ("test_share", "test_files"),
                           ("test_by", "test_files")):  # fmt: skip
            if getattr(self, key) is not None and getattr(self, other) is not None:
                raise finding(f"has no effect together with data.{other}. Leave one of the two out", below=key)
        if self.step is not None and self.window is None:
            raise finding("has no effect without data.window. Add it, or leave the step out", below="step")
        for key in ("channels", "labels"):
            names = getattr(self, key) or ()
            double = next((name for name in names if names.count(name) > 1), None)
            if double is not None:
                raise finding(f"must name every entry once, got {shown(double)} twice", below=key)
        return self

    @model_validator(mode="after")
    def _columns_have_one_meaning(self) -> Self:
        if self.kind != "sensors":
            return self
        meanings: dict[str, str] = {}
        for key in (key for key in _SENSOR_KEYS if key.endswith("_column")):
            column = self.column_of_labels if key == "label_column" else getattr(self, key)
            if column is not None and column in meanings:
                raise finding(f"is the same column as data.{meanings[column]}, got {shown(column)}", below=key)
            if column is not None and column in (self.channels or ()):
                raise finding(f"is one of data.channels too, got {shown(column)}. Name it once", below=key)
            if column is not None:
                meanings[column] = key
        return self

    @model_validator(mode="after")
    def _path_says_what_columns_do_not(self) -> Self:
        if self.kind not in ("sensors", "images"):
            return self
        known, names = _FILE_FIELDS if self.kind == "sensors" else ("device",), fields_of(self.name)
        for name in names:
            if name not in known:
                choice = " or ".join(f"{{{field}}}" for field in known)
                raise finding(f"its path can have {choice}, got {shown('{' + name + '}')}", below="name")
            if names.count(name) > 1:
                raise finding(f"must have {{{name}}} once, got {shown(self.name)}", below="name")
            if self.kind == "sensors" and getattr(self, f"{name}_column") is not None:
                problem = f"says the same as {{{name}}} in data.name. Leave one of the two out"
                raise finding(problem, below=f"{name}_column")
        return self

    @field_validator("partition", mode="before")
    @classmethod
    def _partition_is_known(cls, partition: object) -> object:
        names = get_args(cls.model_fields["partition"].annotation)
        if isinstance(partition, str) and partition not in names:
            own = "For a split of your own, set data.name to a package.module:callable that returns it (docs/data.md)"
            raise finding(f"unknown partition, got {shown(partition)}. {advice_for(partition, names)} {own}")
        return partition

    @field_validator("name")
    @classmethod
    def _name_is_known(cls, name: str) -> str:
        if "\0" in name:
            raise finding(f"must not contain the character NUL, which no path has, got {shown(name)}")
        if name not in DATASETS and ":" not in name and not name.endswith((*_TABLES, "/")):
            files = "Files end in .csv or .parquet, as in 'sensors/*.csv', and a folder of pictures in '/'"
            raise finding(f"unknown data set, got {shown(name)}. {advice_for(name, DATASETS)} {files}")
        return name
