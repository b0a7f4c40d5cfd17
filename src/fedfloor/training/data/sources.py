"""Data sets, read from their official files or from the slice of Fashion-MNIST in this package."""

__all__ = ["EMBEDDED", "DataSet", "data_folder", "dataset_files", "load_dataset", "unpacked"]

import gzip
import io
import lzma
import os
import tarfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from types import MappingProxyType

import numpy as np
import scipy.io
from numpy.typing import NDArray

from fedfloor.errors import DataError, advice_for
from fedfloor.scenario.catalogue import DATASETS

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int64]

#: 10 classes of Fashion-MNIST in equal shares; written by benchmarks/embed_fashion_mnist.py
EMBEDDED = Path(__file__).parent / "embedded" / "fashion-mnist.npz.xz"

_CLASSES = 10  # of all three data sets
_CIFAR_FOLDER = "cifar-10-batches-bin"
_CIFAR_BATCHES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
_CIFAR_RECORDS = 10_000  # in every batch
_IDX_FILES = tuple(f"{half}-{kind}-ubyte" for half in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
_IDX_IMAGES, _IDX_LABELS = 0x803, 0x801  # magic numbers: bytes in three dimensions, and in one

#: data set -> the forms in which it is distributed -> the files of a form, each with its possible names
_FORMS = MappingProxyType(
    {
        "fashion-mnist": (tuple((file, f"{file}.gz") for file in _IDX_FILES),),
        "cifar10": (
            tuple((f"{_CIFAR_FOLDER}/{file}",) for file in _CIFAR_BATCHES),
            (("cifar-10-binary.tar.gz", "cifar-10-binary.tar.xz"),),
        ),
        "svhn": ((("train_32x32.mat",), ("test_32x32.mat",)),),
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class DataSet:
    """Images with labels; arrays are contiguous, and the caller may change them."""

    name: str
    origin: str  #: "embedded slice", or the path it was read from
    train_images: Pixels  #: (n, C, H, W)
    train_labels: Labels  #: (n,) from 0
    test_images: Pixels  #: (t, C, H, W)
    test_labels: Labels  #: (t,) from 0
    classes: int


@dataclass(frozen=True, slots=True, eq=False)
class _Samples:
    images: Pixels
    labels: Labels


class _BrokenFileError(DataError):
    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


def data_folder(folder: Path | None = None) -> Path:
    """Folder with data sets: `folder`, else FEDFLOOR_DATA, else `fedfloor` in the user's data folder."""
    path = folder or os.environ.get("FEDFLOOR_DATA")
    if path:
        return Path(path)
    return Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "fedfloor"


def dataset_files(name: str, folder: Path | None = None) -> tuple[Path, ...]:
    """Files of a data set, in `data_folder(folder)` or in its subfolder that is named after the data set."""
    if name not in _FORMS:
        raise DataError(f"data set '{name}': unknown. {advice_for(name, DATASETS)}")
    root = data_folder(folder)
    if not root.is_dir() and (folder is not None or os.environ.get("FEDFLOOR_DATA")):
        source = "--data-dir" if folder is not None else "FEDFLOOR_DATA"
        raise DataError(f"{root}: no such folder. Create it, or name another one with {source}")
    incomplete = ""
    for place in (root, root / name):
        for form in _FORMS[name]:
            matches = [next((place / file for file in names if (place / file).is_file()), None) for names in form]
            paths = tuple(path for path in matches if path is not None)
            if len(paths) == len(form):
                return paths
            if paths and not incomplete:
                incomplete = f"{place / form[matches.index(None)][0]}: missing, though {paths[0].name} is there"
    if incomplete:
        raise DataError(f"{incomplete}. Put it there, or {_fetching(name, folder)}")
    if name == "fashion-mnist":
        return (EMBEDDED,)
    forms = " or ".join(_listing(form) for form in _FORMS[name])
    where = f"in {root} or {root / name}"
    raise DataError(f"{name}: no {forms} {where}. Put it there, or {_fetching(name, folder)}")


def load_dataset(name: str, folder: Path | None = None) -> DataSet:
    """Read a data set by its name; `folder` as in `data_folder`."""
    files = dataset_files(name, folder)
    try:
        if files == (EMBEDDED,):
            return _read_embedded()
        readers = {"fashion-mnist": _read_fashion_mnist, "cifar10": _read_cifar10, "svhn": _read_svhn}
        halves = readers[name](files)
    except _BrokenFileError as error:
        remedy = f"Put the official file there, or remove it and {_fetching(name, folder)}"
        raise DataError(f"{error}. {remedy}") from None
    origin = files[0] if len(files) == 1 else files[0].parent
    train, test = halves
    return DataSet(name, str(origin), train.images, train.labels, test.images, test.labels, _CLASSES)


def unpacked(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of each official file in `path`: the file itself, or those in a .gz or a CIFAR-10 archive."""
    try:
        if path.name.endswith((".tar.gz", ".tar.xz")):
            yield from _members(path)
        elif path.suffix == ".gz":
            yield path.stem, gzip.decompress(path.read_bytes())
        else:
            yield path.name, path.read_bytes()
    except OSError as error:
        raise _BrokenFileError(path, f"cannot be read: {error.strerror or error}") from None
    except (EOFError, zlib.error, lzma.LZMAError, tarfile.TarError) as error:
        raise _BrokenFileError(path, f"is damaged or incomplete: {error}") from None


def _listing(form: tuple[tuple[str, ...], ...]) -> str:
    folder = PurePosixPath(form[0][0]).parent.name
    return f"folder {folder}" if folder else " and ".join(" or ".join(names) for names in form)


def _fetching(name: str, folder: Path | None) -> str:
    option = "" if folder is None else f" --data-dir {folder}"
    return f"run `fedfloor data fetch {name}{option}`"


def _checked(path: Path, labels: NDArray[np.generic], *, lowest: int, highest: int) -> Labels:
    """Check that labels are whole numbers within their range, and convert them to integers."""
    if labels.size == 0:
        raise _BrokenFileError(path, "holds no samples")
    wrong = np.flatnonzero(~np.isin(labels, np.arange(lowest, highest + 1)))
    if wrong.size:
        index = wrong[0]
        raise _BrokenFileError(path, f"label {index} is {labels[index]}, must be {lowest} to {highest}")
    return labels.astype(np.int64)


# Fashion-MNIST


def _read_embedded() -> DataSet:
    with lzma.open(EMBEDDED) as file, np.load(io.BytesIO(file.read()), allow_pickle=False) as arrays:
        # The images are stored column by column, which compresses better.
        images = {half: np.ascontiguousarray(arrays[f"{half}_columns"].swapaxes(2, 3)) for half in ("train", "test")}
        labels = {half: arrays[f"{half}_labels"].astype(np.int64) for half in ("train", "test")}
    return DataSet(
        "fashion-mnist", "embedded slice", images["train"], labels["train"], images["test"], labels["test"], _CLASSES
    )


def _read_fashion_mnist(files: tuple[Path, ...]) -> tuple[_Samples, _Samples]:
    train_images, train_labels, test_images, test_labels = files
    return _read_idx_pair(train_images, train_labels), _read_idx_pair(test_images, test_labels)


def _read_idx_pair(image_file: Path, label_file: Path) -> _Samples:
    images = _read_idx(image_file, _IDX_IMAGES)
    if images.shape[1:] != (28, 28):
        raise _BrokenFileError(image_file, f"its images are {images.shape[1]}x{images.shape[2]}, must be 28x28")
    labels = _checked(label_file, _read_idx(label_file, _IDX_LABELS), lowest=0, highest=_CLASSES - 1)
    if len(images) != len(labels):
        raise _BrokenFileError(label_file, f"holds {len(labels)} labels for {len(images)} images")
    return _Samples(images[:, np.newaxis], labels)


def _read_idx(path: Path, magic: int) -> Pixels:
    ((_, content),) = unpacked(path)
    expected = magic.to_bytes(4, "big")
    if content[:4] != expected:
        prefix = content[:4].hex() or "nothing"
        raise _BrokenFileError(path, f"is another kind of file: starts with {prefix}, must start with {expected.hex()}")
    start = 4 + 4 * (magic & 0xFF)  # the last byte of the magic number counts the dimensions
    shape = tuple(int.from_bytes(content[place : place + 4], "big") for place in range(4, start, 4))
    size = start + int(np.prod(shape, dtype=object))
    if len(content) != size:
        raise _BrokenFileError(path, f"holds {len(content):,} bytes, its header says {size:,}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()


# CIFAR-10


def _read_cifar10(files: tuple[Path, ...]) -> tuple[_Samples, _Samples]:
    images = np.empty((len(_CIFAR_BATCHES), _CIFAR_RECORDS, 3, 32, 32), np.uint8)
    labels = np.empty((len(_CIFAR_BATCHES), _CIFAR_RECORDS), np.int64)
    missing = set(_CIFAR_BATCHES)
    size = _CIFAR_RECORDS * 3073  # one byte of label, then the planes of red, green and blue
    for path in files:
        for name, content in unpacked(path):
            if name not in missing:
                continue
            where = path if path.name == name else path / name
            if len(content) != size:
                raise _BrokenFileError(where, f"holds {len(content):,} bytes, must hold {size:,}")
            records = np.frombuffer(content, np.uint8).reshape(_CIFAR_RECORDS, 3073)
            batch = _CIFAR_BATCHES.index(name)
            labels[batch] = _checked(where, records[:, 0], lowest=0, highest=_CLASSES - 1)
            images[batch] = records[:, 1:].reshape(-1, 3, 32, 32)
            missing.remove(name)
    if missing:
        raise _BrokenFileError(files[0], f"holds no {_CIFAR_FOLDER}/{min(missing)}")
    return _Samples(images[:5].reshape(-1, 3, 32, 32), labels[:5].ravel()), _Samples(images[5], labels[5])


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of the batches in an archive, in its order."""
    with _stream(path) as stream, tarfile.open(fileobj=stream, mode="r|", bufsize=1 << 20) as archive:
        for member in archive:
            place = PurePosixPath(member.name)
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None and place.parent.name == _CIFAR_FOLDER and place.name in _CIFAR_BATCHES:
                yield place.name, content.read()


def _stream(path: Path) -> io.BufferedIOBase:
    if path.suffix == ".gz":
        return gzip.open(path)
    blocks = _xz_blocks(path)
    if len(blocks) < 2:
        return lzma.open(path)
    return io.BufferedReader(_Joined(_unpack_blocks(path, blocks)), buffer_size=1 << 20)


# A .xz written with several threads consists of blocks that can be unpacked in parallel; its index comes last.
# https://tukaani.org/xz/xz-file-format.txt

_XZ_EDGE = 12  # bytes of the header and of the footer


@dataclass(frozen=True, slots=True)
class _Block:
    start: int  #: position in the file
    packed: int  #: bytes, padding included
    plain: int  #: bytes when unpacked


def _xz_blocks(path: Path) -> tuple[_Block, ...]:
    """Blocks that the index lists; empty if the file is not one simple stream."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(size - _XZ_EDGE, 0))
        footer = file.read()
        index_size = (int.from_bytes(footer[4:8], "little") + 1) * 4
        if footer[-2:] != b"YZ" or index_size > size - 2 * _XZ_EDGE:
            return ()
        file.seek(size - _XZ_EDGE - index_size)
        index = io.BytesIO(file.read(index_size))
    if index.read(1) != b"\0":
        return ()
    blocks, start = [], _XZ_EDGE
    for _ in range(_xz_number(index)):
        packed, plain = -(-_xz_number(index) // 4) * 4, _xz_number(index)
        blocks.append(_Block(start, packed, plain))
        start += packed
        if start > size:
            return ()
    return tuple(blocks) if start == size - _XZ_EDGE - index_size else ()


def _xz_number(index: io.BytesIO) -> int:
    """Read a number with 7 bits per byte, lowest first; every byte except the last has its top bit set."""
    value, shift = 0, 0
    while True:
        (byte,) = index.read(1) or b"\0"
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value


def _unpack_blocks(path: Path, blocks: tuple[_Block, ...]) -> Iterator[bytes]:
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:  # unpacking releases Python's global lock
        yield from pool.map(partial(_unpack_block, path), blocks)


def _unpack_block(path: Path, block: _Block) -> bytes:
    """Unpack one block; a wrong checksum raises an error."""
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    with path.open("rb") as file:
        unpacker.decompress(file.read(_XZ_EDGE))
        file.seek(block.start)
        content = unpacker.decompress(file.read(block.packed))
    if len(content) != block.plain:
        raise lzma.LZMAError(f"the block at byte {block.start} is incomplete")
    return content


class _Joined(io.RawIOBase):
    """Stream that joins chunks of bytes."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


# SVHN


def _read_svhn(files: tuple[Path, ...]) -> tuple[_Samples, _Samples]:
    train, test = files
    return _read_mat(train), _read_mat(test)


def _read_mat(path: Path) -> _Samples:
    try:
        arrays = scipy.io.loadmat(path, variable_names=["X", "y"])
    except Exception as error:  # a file of another kind can raise almost anything
        raise _BrokenFileError(path, f"cannot be read as a MATLAB 5 file: {type(error).__name__}: {error}") from None
    for key in ("X", "y"):
        if key not in arrays:
            raise _BrokenFileError(path, f"holds no {key}")
    images, labels = arrays["X"], arrays["y"]
    if images.shape[:3] != (32, 32, 3) or images.ndim != 4 or images.dtype != np.uint8:
        raise _BrokenFileError(path, f"X is {images.dtype} {images.shape}, must be uint8 (32, 32, 3, N)")
    if labels.dtype.kind not in "uif" or labels.shape != (images.shape[3], 1):
        rule = f"must be numbers ({images.shape[3]}, 1), one for each image in X"
        raise _BrokenFileError(path, f"y is {labels.dtype} {labels.shape}, {rule}")
    digits = _checked(path, labels.ravel(), lowest=1, highest=10) % 10  # the file writes 10 for 0
    return _Samples(np.ascontiguousarray(images.transpose(3, 2, 0, 1)), digits)
