"""Official files of data sets: download them, and check whether local files are the official ones."""

__all__ = ["REMOTES", "Fetched", "FileCheck", "Progress", "Remote", "Verified", "fetch", "verify"]

import contextlib
import hashlib
import http.client
import os
import ssl
import stat
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from fedfloor.errors import DataError, advice_for, shown
from fedfloor.files import only_writer, put_in_place
from fedfloor.training.data.sources import data_folder, dataset_files, load_dataset, unpacked

#: called with the name of a file, the bytes received so far and the bytes in all
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Remote:
    """An official file on its server."""

    url: str
    size_bytes: int
    md5: str

    @property
    def file(self) -> str:
        """Name of the file, without folders."""
        return self.url.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Fetched:
    """An official file that is now in the folder."""

    path: Path
    fresh: bool  #: False if the file was already there


@dataclass(frozen=True, slots=True)
class FileCheck:
    """Result of checking one file of a data set."""

    path: Path
    checksum: str  #: `official`; or `unknown`, if it differs or there is no official one


@dataclass(frozen=True, slots=True)
class Verified:
    """Contents of a data set that could be read."""

    name: str
    origin: str  #: "embedded slice", or the path it was read from
    files: tuple[FileCheck, ...]
    training: int  #: samples
    test: int  #: samples
    classes: int
    shape: tuple[int, ...]  #: (C, H, W)
    training_per_class: tuple[int, ...]
    test_per_class: tuple[int, ...]


_FASHION_MNIST = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_CIFAR10 = "https://www.cs.toronto.edu/~kriz"
_SVHN = "http://ufldl.stanford.edu/housenumbers"

#: data set -> its official files, with the checksums that their authors publish
REMOTES: Mapping[str, tuple[Remote, ...]] = MappingProxyType(
    {
        "fashion-mnist": (
            Remote(f"{_FASHION_MNIST}/train-images-idx3-ubyte.gz", 26_421_880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
            Remote(f"{_FASHION_MNIST}/train-labels-idx1-ubyte.gz", 29_515, "25c81989df183df01b3e8a0aad5dffbe"),
            Remote(f"{_FASHION_MNIST}/t10k-images-idx3-ubyte.gz", 4_422_102, "bef4ecab320f06d8554ea6380940ec79"),
            Remote(f"{_FASHION_MNIST}/t10k-labels-idx1-ubyte.gz", 5_148, "bb300cfdad3c16e7a12a480ee83cd310"),
        ),
        "cifar10": (Remote(f"{_CIFAR10}/cifar-10-binary.tar.gz", 170_052_171, "c32a1d4ab5d03f1284b67883e8d87530"),),
        "svhn": (
            Remote(f"{_SVHN}/train_32x32.mat", 182_040_794, "e26dedcc434d2e4c54c9b2d4a06d8373"),
            Remote(f"{_SVHN}/test_32x32.mat", 64_275_384, "eb5a983be6a315427106f1b164d9cef3"),
        ),
    }
)

#: MD5 of the content of the official files, so that unpacked and repacked files are recognised too
_CONTENTS = MappingProxyType(
    {
        "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
        "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
        "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
        "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
        "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
        "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
        "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    }
)

_ELSEWHERE = "Name another folder for data"
_CHUNK = 1 << 18  # bytes
_TIMEOUT = 30.0  # seconds without a byte
#: errors of the network; any other OSError comes from the disk
_NETWORK = (urllib.error.URLError, http.client.HTTPException, ssl.SSLError, ConnectionError, TimeoutError)


def fetch(
    name: str,
    folder: Path | None = None,
    *,
    on_progress: Progress | None = None,
    remotes: Mapping[str, Sequence[Remote]] = REMOTES,
) -> tuple[Fetched, ...]:
    """Download the official files into `folder`/`name`; keeps correct files and resumes interrupted downloads."""
    if name not in remotes:
        raise DataError(f"data set {shown(name)}: unknown. {advice_for(name, remotes)}")
    root = data_folder(folder)
    present = [_present(remote, (root, root / name)) for remote in remotes[name]]
    if None not in present:  # nothing is written, so that the folder may be anybody's
        return tuple(Fetched(path, fresh=False) for path in present if path is not None)
    place = root / name
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(place, error) from None
    with only_writer(place, again="fetch again", elsewhere=_ELSEWHERE, kind=DataError):
        return tuple(_fetched(remotes[name], (root, place), on_progress or _silent))


def _fetched(remotes: Sequence[Remote], places: Sequence[Path], on_progress: Progress) -> Iterator[Fetched]:
    """Each official file that is in one of the places, or is downloaded into the last, which no other process writes.

    What is there is looked up again: another process may have fetched it before this one was the only writer.
    """
    present = {remote: _present(remote, places) for remote in remotes}
    by_hand = [f"{remote.url} to {places[-1] / remote.file}" for remote, path in present.items() if path is None]
    for remote, path in present.items():
        if path is not None:
            yield Fetched(path, fresh=False)
            continue
        target = places[-1] / remote.file
        try:
            _download(remote, target, on_progress)
        except _NETWORK as error:
            advice = f"Try again later: the bytes received so far are kept. Or download by hand: {'; '.join(by_hand)}"
            raise DataError(f"{remote.url}: {_reason(error)}. {advice}") from None
        except OSError as error:
            raise _unwritable(target, error) from None
        by_hand.pop(0)
        yield Fetched(target, fresh=True)


def _unwritable(path: Path, error: OSError) -> DataError:
    advice = f"Check the folder and its free space, or {_ELSEWHERE[0].lower()}{_ELSEWHERE[1:]}"
    return DataError(f"{path}: cannot be written: {error.strerror or error}. {advice}")


def verify(name: str, folder: Path | None = None, *, remotes: Mapping[str, Sequence[Remote]] = REMOTES) -> Verified:
    """Read a data set as training would, and compare its files with the official ones."""
    data = load_dataset(name, folder)
    checksums = {remote.file: remote.md5 for remote in remotes.get(name, ())}
    train, test = (np.bincount(labels, minlength=data.classes) for labels in (data.train_labels, data.test_labels))
    return Verified(
        name=name,
        origin=data.origin,
        files=tuple(FileCheck(path, _checksum(path, checksums)) for path in dataset_files(name, folder)),
        training=len(data.train_images),
        test=len(data.test_images),
        classes=data.classes,
        shape=data.train_images.shape[1:],
        training_per_class=tuple(train.tolist()),
        test_per_class=tuple(test.tolist()),
    )


def _silent(_file: str, _received: int, _total: int) -> None:
    """Report no progress."""


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _checksum(path: Path, checksums: Mapping[str, str]) -> str:
    if path.name in checksums and _md5(path) == checksums[path.name]:
        return "official"
    contents = {file: hashlib.md5(content, usedforsecurity=False).hexdigest() for file, content in unpacked(path)}
    return "official" if all(_CONTENTS.get(file) == md5 for file, md5 in contents.items()) else "unknown"


def _present(remote: Remote, places: Sequence[Path]) -> Path | None:
    """Path of the file if it is already there; a different file of that name raises an error."""
    for place in places:
        path = place / remote.file
        if not path.is_file():
            continue
        if path.stat().st_size != remote.size_bytes or _md5(path) != remote.md5:
            raise DataError(f"{path}: exists, but is not the official file. Move or remove it, then fetch again")
        return path
    return None


def _download(remote: Remote, target: Path, on_progress: Progress) -> None:
    part = target.with_name(f"{target.name}.part")
    size = 0
    with contextlib.suppress(FileNotFoundError):
        status = part.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise DataError(f"{part}: is a link or another special file. Remove it, then fetch again")
        size = status.st_size
    if size > remote.size_bytes:  # part of another file
        part.unlink()
        size = 0
    if size < remote.size_bytes:
        _receive(remote, part, size, on_progress)
    md5 = _md5(part)
    if md5 != remote.md5:
        part.unlink()
        problem = f"the download has MD5 {md5} instead of {remote.md5} and was removed"
        advice = "Fetch again; if this happens again, a proxy or the server sends another file"
        raise DataError(f"{remote.url}: {problem}. {advice}")
    put_in_place(part, target)


def _receive(remote: Remote, part: Path, size: int, on_progress: Progress) -> None:
    """Append the bytes after `size` to `part`; if the server sends the whole file, start over."""
    request = urllib.request.Request(remote.url, headers={"User-Agent": "fedfloor"})  # noqa: S310 - from our table
    if size:
        request.add_header("Range", f"bytes={size}-")
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310 - as above
        if not str(response.headers.get("Content-Range", "")).startswith(f"bytes {size}-"):
            size = 0
        if response.length is not None and size + response.length != remote.size_bytes:
            raise ConnectionError(f"the server offers {size + response.length:,} bytes, must be {remote.size_bytes:,}")
        with open(part, "ab" if size else "wb", opener=_open_itself) as file:  # a path takes no opener
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                size += len(chunk)
                on_progress(remote.file, size, remote.size_bytes)
    if size != remote.size_bytes:
        raise ConnectionError(f"the connection ended after {size:,} of {remote.size_bytes:,} bytes")


def _open_itself(path: str, flags: int) -> int:
    """Open a file, but not one that a link names, which someone else may have put there."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)  # Windows has no such flag


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        return f"HTTP {error.code} {error.reason}"
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    return str(getattr(cause, "strerror", None) or cause or type(error).__name__)
