"""Folders of pictures, one folder per class, read with Pillow in the size and the colours that the network takes."""

__all__ = ["Pictures", "check_pictures", "read_pictures"]

import contextlib
import importlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Bools, Ints
from fedfloor.errors import DataError, MissingExtraError, named, shown
from fedfloor.scenario.data import Data
from fedfloor.streams import key_stream
from fedfloor.training.data.kept import kept_arrays
from fedfloor.training.data.paths import NamedFile
from fedfloor.training.data.samples import TEST_SHARE, drawn_for_test

_ENDINGS = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
_MODES = {1: "L", 3: "RGB"}  #: channels -> Pillow's name of the colours
_LARGEST = 100_000_000  #: pixels of one picture


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
        is_test[drawn_for_test(_classes(labels, open_, data.name), data.test_share or TEST_SHARE, rng)] = True
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
    halves = [(root / side, side) for side in ("train", "test") if (root / side).is_dir()]
    if len(halves) == 1:
        problem = f"has a folder {halves[0][1]!r} but no {'test' if halves[0][1] == 'train' else 'train'!r}"
        raise DataError(f"{named(root)}: {problem}. Add it, or put the folders of the classes directly below")
    pictures = []
    for place, side in halves or [(root, "")]:
        classes = sorted(entry for entry in place.iterdir() if entry.is_dir() and not entry.name.startswith("."))
        if not classes:
            raise DataError(f"{named(place)}: has no folder. Make one folder per class and put its pictures there")
        for kind in classes:
            files = sorted(entry for entry in kind.rglob("*") if entry.suffix.lower() in _ENDINGS and entry.is_file())
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


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Ignore Pillow's warnings: they do not affect training."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _read_one(pillow: Any, path: Path, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """One picture as (C, H, W)."""
    channels, height, width = shape
    try:
        with _without_warnings(), pillow.open(path) as picture:
            if picture.width * picture.height > _LARGEST:
                raise ValueError(f"it has more than {_LARGEST:,} pixels")
            if picture.mode.startswith(("I", "F")):
                raise ValueError("it has more than 8 bits per colour; convert it to 8 bits")
            pixels = picture.convert(_MODES[channels])
            if pixels.size != (width, height):
                pixels = pixels.resize((width, height), pillow.Resampling.BILINEAR)
            return np.asarray(pixels, np.uint8).reshape(height, width, channels).transpose(2, 0, 1)
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError) as error:
        problem = f"cannot be read as a picture: {' '.join(str(error).split())[:200].rstrip('.')}"
        raise DataError(f"{named(path)}: {problem}. Replace or remove it") from None
