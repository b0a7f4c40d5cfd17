"""Data sets, read from their official files or from the slice of Fashion-MNIST in this package."""

__all__ = ["EMBEDDED", "DataSet", "data_folder", "dataset_files", "load_dataset", "refuse_missing", "unpacked"]

import gzip
import io
import lzma
import math
import os
import tarfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import BinaryIO, cast

import numpy as np
import scipy.io
from numpy.typing import NDArray

from fedfloor.errors import DataError, advice_for, shown
from fedfloor.scenario.catalogue import DATASETS
from fedfloor.training.data.matlab import NUMBERS, unpacked_mat

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int64]

#: 10 classes of Fashion-MNIST in equal shares; written by benchmarks/embed_fashion_mnist.py
EMBEDDED = Path(__file__).parent / "embedded" / "fashion-mnist.npz.xz"

_CLASSES = 10  # of all three data sets
_CIFAR_FOLDER = "cifar-10-batches-bin"
_CIFAR_BATCHES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
_CIFAR_RECORDS = 10_000  # in every batch
_CIFAR_RECORD = 3073  # bytes: the label, then the planes of red, green and blue
_IDX_FILES = tuple(f"{half}-{kind}-ubyte" for half in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
_IDX_IMAGES, _IDX_LABELS = 0x803, 0x801  # magic numbers: bytes in three dimensions, and in one

_CHUNK = 1 << 20  # bytes read at once
_LARGEST = 1 << 31  # bytes of one unpacked file: eight times the largest official one
_LARGEST_ARCHIVE = 1 << 28  # bytes of the unpacked CIFAR-10 archive, which officially has 184,380,928

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


def refuse_missing(folder: Path | None) -> None:
    """Refuse a folder with data sets that is named but does not exist, whether the data comes from there or not."""
    if folder is not None and not folder.is_dir():
        raise _missing(folder)


def _missing(folder: Path, how: str = "") -> DataError:
    return DataError(f"{folder}: no such folder. Create it, or name another one{how}")


def dataset_files(name: str, folder: Path | None = None) -> tuple[Path, ...]:
    """Files of a data set, in `data_folder(folder)` or in its subfolder that is named after the data set."""
    if name not in _FORMS:
        raise DataError(f"data set {shown(name)}: unknown. {advice_for(name, DATASETS)}")
    root = data_folder(folder)
    refuse_missing(folder)
    if not root.is_dir() and os.environ.get("FEDFLOOR_DATA"):
        raise _missing(root, " with FEDFLOOR_DATA")
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


def unpacked(path: Path) -> Iterator[tuple[str, bytes | bytearray]]:
    """Name and content of each official file in `path`: the file itself, or those in a .gz or a CIFAR-10 archive.

    No more is unpacked than such a file may hold, because a small file can unpack to any size.
    """
    try:
        if path.name.endswith((".tar.gz", ".tar.xz")):
            yield from _members(path)
        elif path.suffix == ".gz":
            with gzip.open(path) as packed:
                yield path.stem, _whole(path, packed)
        else:
            with path.open("rb") as file:
                yield path.name, _whole(path, file)
    except OSError as error:
        raise _BrokenFileError(path, f"cannot be read: {error.strerror or error}") from None
    except (EOFError, zlib.error, lzma.LZMAError, tarfile.TarError) as error:
        raise _BrokenFileError(path, f"is damaged or incomplete: {error}") from None


def _whole(path: Path, stream: BinaryIO | gzip.GzipFile) -> bytearray:
    """Content of a stream; one that goes on after what its IDX header says, or after `_LARGEST` bytes, is refused."""
    content = bytearray(stream.read(16))
    size = _idx_size(content)
    if size is not None and size > _LARGEST:
        raise _BrokenFileError(path, f"its header says {size:,} bytes, must be at most {_LARGEST:,}")
    limit = _LARGEST if size is None else size
    while len(content) <= limit and (chunk := stream.read(_CHUNK)):
        content += chunk
    if len(content) > limit:
        rule = f"must hold at most {limit:,}" if size is None else f"its header says {limit:,}"
        raise _BrokenFileError(path, f"holds more than {limit:,} bytes, {rule}")
    return content


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
    shape, size = _idx_shape(content), _idx_size(content)
    if len(content) != size:
        raise _BrokenFileError(path, f"holds {len(content):,} bytes, its header says {size:,}")
    return np.frombuffer(content, np.uint8, offset=size - math.prod(shape)).reshape(shape).copy()


def _idx_shape(content: bytes | bytearray) -> tuple[int, ...]:
    """Shape in the header of an IDX file; the last byte of the magic number counts the dimensions."""
    return tuple(int.from_bytes(content[4 * k : 4 * k + 4], "big") for k in range(1, 1 + content[3]))


def _idx_size(content: bytes | bytearray) -> int | None:
    """Bytes of an IDX file by its header; None if it is another kind of file."""
    if int.from_bytes(content[:4], "big") not in (_IDX_IMAGES, _IDX_LABELS):
        return None
    shape = _idx_shape(content)
    return 4 + 4 * len(shape) + math.prod(shape)


# CIFAR-10


def _read_cifar10(files: tuple[Path, ...]) -> tuple[_Samples, _Samples]:
    images = np.empty((len(_CIFAR_BATCHES), _CIFAR_RECORDS, 3, 32, 32), np.uint8)
    labels = np.empty((len(_CIFAR_BATCHES), _CIFAR_RECORDS), np.int64)
    missing = set(_CIFAR_BATCHES)
    size = _CIFAR_RECORDS * _CIFAR_RECORD
    for path in files:
        for name, content in unpacked(path):
            if name not in missing:
                continue
            where = path if path.name == name else path / name
            if len(content) != size:
                raise _BrokenFileError(where, f"holds {len(content):,} bytes, must hold {size:,}")
            records = np.frombuffer(content, np.uint8).reshape(_CIFAR_RECORDS, _CIFAR_RECORD)
            batch = _CIFAR_BATCHES.index(name)
            labels[batch] = _checked(where, records[:, 0], lowest=0, highest=_CLASSES - 1)
            images[batch] = records[:, 1:].reshape(-1, 3, 32, 32)
            missing.remove(name)
    if missing:
        raise _BrokenFileError(files[0], f"holds no {_CIFAR_FOLDER}/{min(missing)}")
    return _Samples(images[:5].reshape(-1, 3, 32, 32), labels[:5].ravel()), _Samples(images[5], labels[5])


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of the batches in an archive, in its order."""
    size = _CIFAR_RECORDS * _CIFAR_RECORD
    with _stream(path) as stream:
        limited = cast("BinaryIO", _Limited(path, stream))
        with tarfile.open(fileobj=limited, mode="r|", bufsize=_CHUNK) as archive:
            for member in archive:
                place = PurePosixPath(member.name)
                if not (member.isfile() and place.parent.name == _CIFAR_FOLDER and place.name in _CIFAR_BATCHES):
                    continue
                if member.size != size:
                    raise _BrokenFileError(path / place.name, f"holds {member.size:,} bytes, must hold {size:,}")
                content = archive.extractfile(member)
                if content is not None:
                    yield place.name, content.read()


class _Limited:
    """Stream of an unpacked archive that ends in an error after `_LARGEST_ARCHIVE` bytes."""

    def __init__(self, path: Path, stream: io.BufferedIOBase) -> None:
        self._path, self._stream, self._count = path, stream, 0

    def read(self, size: int) -> bytes:
        chunk = self._stream.read(size)
        self._count += len(chunk)
        if self._count > _LARGEST_ARCHIVE:
            raise _too_large(self._path)
        return chunk


def _too_large(path: Path) -> _BrokenFileError:
    return _BrokenFileError(path, f"unpacks to more than {_LARGEST_ARCHIVE:,} bytes, must be at most that")


def _stream(path: Path) -> io.BufferedIOBase:
    if path.suffix == ".gz":
        return gzip.open(path)
    blocks = _xz_blocks(path)
    if len(blocks) < 2:
        return lzma.open(path)
    if sum(block.plain for block in blocks) > _LARGEST_ARCHIVE:
        raise _too_large(path)
    return io.BufferedReader(_Joined(_unpack_blocks(path, blocks)), buffer_size=_CHUNK)


# A .xz written with several threads consists of blocks that can be unpacked in parallel; its index comes last.
# https://tukaani.org/xz/xz-file-format.txt

_XZ_EDGE = 12  # bytes of the header and of the footer
_XZ_INDEX = 1 << 20  # largest index in bytes that is read
_XZ_DIGITS = 9  # bytes of the longest number


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
        if footer[-2:] != b"YZ" or index_size > min(size - 2 * _XZ_EDGE, _XZ_INDEX):
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
        if packed == 0 or start > size:
            return ()
    return tuple(blocks) if start == size - _XZ_EDGE - index_size else ()


def _xz_number(index: io.BytesIO) -> int:
    """Read a number with 7 bits per byte, lowest first; every byte except the last has its top bit set."""
    value = 0
    for digit in range(_XZ_DIGITS):
        (byte,) = index.read(1) or b"\0"
        value |= (byte & 0x7F) << 7 * digit
        if byte < 0x80:
            return value
    raise lzma.LZMAError("its index has a number that is too long")


def _unpack_blocks(path: Path, blocks: tuple[_Block, ...]) -> Iterator[bytes]:
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:  # unpacking releases Python's global lock
        yield from pool.map(partial(_unpack_block, path), blocks)


def _unpack_block(path: Path, block: _Block) -> bytes:
    """Unpack one block; a wrong checksum raises an error, and so does more than the index says."""
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    with path.open("rb") as file:
        unpacker.decompress(file.read(_XZ_EDGE))
        file.seek(block.start)
        content = unpacker.decompress(file.read(block.packed), block.plain + 1)
    if len(content) != block.plain:
        raise lzma.LZMAError(f"the block at byte {block.start} has another size than the index says")
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
        plain = unpacked_mat(path, _LARGEST)
        kinds = {name: kind for name, _, kind in scipy.io.whosmat(plain)}  # type: ignore[arg-type]  # it may be a file
        for key in ("X", "y"):
            if key not in kinds:
                raise _BrokenFileError(path, f"holds no {key}")
            if kinds[key] not in NUMBERS:
                raise _BrokenFileError(path, f"{key} is a MATLAB {kinds[key]}, must be an array of numbers")
        arrays = scipy.io.loadmat(plain, variable_names=["X", "y"])  # type: ignore[arg-type]  # as above
    except (_BrokenFileError, MemoryError):
        raise
    except Exception as error:  # a file of another kind can raise almost anything
        raise _BrokenFileError(path, f"cannot be read as a MATLAB 5 file: {type(error).__name__}: {error}") from None
    images, labels = arrays["X"], arrays["y"]
    if images.shape[:3] != (32, 32, 3) or images.ndim != 4 or images.dtype != np.uint8:
        raise _BrokenFileError(path, f"X is {images.dtype} {images.shape}, must be uint8 (32, 32, 3, N)")
    if labels.dtype.kind not in "uif" or labels.shape != (images.shape[3], 1):
        rule = f"must be numbers ({images.shape[3]}, 1), one for each image in X"
        raise _BrokenFileError(path, f"y is {labels.dtype} {labels.shape}, {rule}")
    digits = _checked(path, labels.ravel(), lowest=1, highest=10) % 10  # the file writes 10 for 0
    return _Samples(np.ascontiguousarray(images.transpose(3, 2, 0, 1)), digits)
