"""Folders of pictures, one folder per class, read with Pillow in the size and the colours that the network takes."""

__all__ = ["Pictures", "check_pictures", "read_pictures"]

import contextlib
import importlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Bools, Ints
from fedfloor.characters import safe_line
from fedfloor.errors import DataError, MissingExtraError, named, shown
from fedfloor.scenario.data import Data
from fedfloor.streams import key_stream
from fedfloor.training.data.kept import kept_arrays
from fedfloor.training.data.paths import NamedFile, files_below, folders_in
from fedfloor.training.data.samples import drawn_for_test

_ENDINGS = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
_FORMATS = ("BMP", "JPEG", "PNG", "PPM", "TIFF", "WEBP")  #: Pillow's names; it would start Ghostscript for an EPS file
_MODES = {1: "L", 3: "RGB"}  #: channels -> Pillow's name of the colours
_LARGEST = 100_000_000  #: pixels of one picture
_BITS = 258  #: tag of a TIFF file: bits of every colour


@dataclass(frozen=True, slots=True, eq=False)
class Pictures:
    """Pictures of all folders."""

    samples: npt.NDArray[np.uint8]  #: (D, C, H, W)
    labels: npt.NDArray[np.str_]  #: (D,) names of the folders
    holders: npt.NDArray[np.str_]  #: (D,) devices; empty texts if the path does not say them
    is_test: Bools  #: (D,)


@dataclass(frozen=True, slots=True)
class _Picture:
    path: Path
    label: str
    holder: str
    side: str  #: "train" or "test" if the folders say it, else empty


def read_pictures(
    folders: Sequence[NamedFile],
    data: Data,
    shape: tuple[int, ...],
    seed: int,
    *,
    on_file: Callable[[int, int], None],
) -> Pictures:
    """Pictures of one or several folders as (C, H, W); `on_file` is told how many of how many have been read.

    The seed draws the test set of every device's pictures by itself, so that no device needs those of others.
    """
    _refuse_shape(data, shape)
    listing = [picture for folder in folders for picture in _listed(folder)]
    arrays = kept_arrays(
        [data.name, shape],
        [picture.path for picture in listing],
        lambda: {"samples": _read(listing, shape, on_file)},
    )
    labels, holders = (np.array([getattr(entry, key) for entry in listing]) for key in ("label", "holder"))
    said = np.array([picture.side for picture in listing])
    is_test = said == "test"
    for holder in np.unique(holders):
        open_ = np.flatnonzero((holders == holder) & (said == ""))
        rng = key_stream(seed, f"data.test.{holder}")
        is_test[drawn_for_test(_classes(labels, open_, data.name), data.share_of_test, rng)] = True
    return Pictures(**arrays, labels=labels, holders=holders, is_test=is_test)


def check_pictures(
    folders: Sequence[NamedFile], data: Data, shape: tuple[int, ...]
) -> tuple[list[Path], Iterator[int | DataError]]:
    """All pictures, and what is wrong with each of them, or 1 for a sample."""
    _refuse_shape(data, shape)
    paths = [picture.path for folder in folders for picture in _listed(folder)]

    def check() -> Iterator[int | DataError]:
        pillow = _pillow()
        for path in paths:
            try:
                _read_one(pillow, path, shape)
                yield 1
            except DataError as error:
                yield error

    return paths, check()


def _refuse_shape(data: Data, shape: tuple[int, ...]) -> None:
    if len(shape) != 3 or shape[0] not in _MODES:
        problem = f"must be [1, height, width] for grey pictures or [3, height, width], got {list(shape)}"
        raise DataError(f"model.input: {problem}, because {named(data.name)} are pictures")


def _listed(folder: NamedFile) -> list[_Picture]:
    """Pictures of a folder: one folder per class, all of them below `train` and `test` if it has these two."""
    root, holder = folder.path, folder.fields.get("device", "")
    folders = folders_in(root)
    halves = [(root / side, side) for side in ("train", "test") if root / side in folders]
    if len(halves) == 1:
        problem = f"has a folder {halves[0][1]!r} but no {'test' if halves[0][1] == 'train' else 'train'!r}"
        raise DataError(f"{named(root)}: {problem}. Add it, or put the folders of the classes directly below")
    pictures = []
    for place, side in halves or [(root, "")]:
        classes = folders_in(place)
        if not classes:
            raise DataError(f"{named(place)}: has no folder. Make one folder per class and put its pictures there")
        for kind in classes:
            files = [path for path in files_below(kind) if path.suffix.lower() in _ENDINGS]
            if not files:
                problem = f"has no picture, which ends in {', '.join(_ENDINGS)}"
                raise DataError(f"{named(kind)}: {problem}. Put pictures there, or remove the folder")
            pictures += [_Picture(path, kind.name, holder, side) for path in files]
    return pictures


def _classes(labels: npt.NDArray[np.str_], among: Ints, name: str) -> list[Ints]:
    """Pictures of every class; a class with only one is refused."""
    classes = []
    for label in np.unique(labels[among]):
        those = among[labels[among] == label]
        if those.size < 2:
            problem = f"class {shown(str(label))} has only one picture, so that training and test cannot both have one"
            raise DataError(f"data {named(name)}: {problem}. Add pictures, or make folders train/ and test/")
        classes.append(those)
    return classes


def _read(
    listing: Sequence[_Picture], shape: tuple[int, ...], on_file: Callable[[int, int], None]
) -> npt.NDArray[np.generic]:
    pillow = _pillow()
    samples = np.empty((len(listing), *shape), np.uint8)
    for number, entry in enumerate(listing):
        samples[number] = _read_one(pillow, entry.path, shape)
        on_file(number + 1, len(listing))
    return samples


def _pillow() -> Any:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError:
        raise MissingExtraError("reading pictures", "files") from None


def _read_one(pillow: Any, path: Path, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """One picture as (C, H, W)."""
    channels, height, width = shape
    try:
        with _without_warnings(), pillow.open(path, formats=_FORMATS) as picture:
            if picture.width * picture.height > _LARGEST:
                raise ValueError(f"it has more than {_LARGEST:,} pixels")
            if _is_deep(picture):
                raise ValueError("it has more than 8 bits per colour; convert it to 8 bits")
            with _silent_library() if picture.format == "TIFF" else contextlib.nullcontext():
                pixels = picture.convert(_MODES[channels])
            if pixels.size != (width, height):
                pixels = pixels.resize((width, height), pillow.Resampling.BILINEAR)
            return np.asarray(pixels, np.uint8).reshape(height, width, channels).transpose(2, 0, 1)
    except Exception as error:  # Pillow raises errors of many kinds on damaged files
        reason = safe_line(error, 200).rstrip(".") or type(error).__name__
        raise DataError(f"{named(path)}: cannot be read as a picture: {reason}. Replace or remove it") from None


def _is_deep(picture: Any) -> bool:
    """Whether a picture has more than 8 bits per colour, of which Pillow would drop the lower ones in some formats."""
    if picture.mode.startswith(("I", "F")):
        return True
    if picture.format == "TIFF":
        return bool(max(picture.tag_v2.get(_BITS, (1,))) > 8)
    details = picture.tile[0][3] if picture.tile else ""  # what Pillow tells its decoder
    if picture.format == "PNG":
        return str(details).endswith(";16B")
    return picture.format == "PPM" and isinstance(details, tuple) and details[1] > 255


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Ignore Pillow's warnings: they do not affect training."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _silent_library() -> Iterator[None]:
    """Drop what libtiff itself writes to the standard error; Pillow raises an error too."""
    try:
        errors = os.dup(2)
    except OSError:  # it is closed
        yield
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        yield
    finally:
        os.dup2(errors, 2)
        os.close(errors)
