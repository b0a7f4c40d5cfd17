"""Data sets are read from official files in every form they come in, and nothing else passes for one."""

import dataclasses
import gzip
import io
import lzma
import os
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from fedfloor.errors import DataError
from fedfloor.training.data import sources
from fedfloor.training.data.sources import EMBEDDED, DataSet, data_folder, dataset_files, load_dataset

REAL = os.environ.get("FEDFLOOR_DATA", "")
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
RECORDS = 20  # of a CIFAR-10 batch in these tests
IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
BATCHES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")


def idx(values: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    return bytes([0, 0, 8, values.ndim]) + sizes + values.astype(np.uint8).tobytes()


def write_fashion_mnist(folder: Path, count: int = 30, *, packed: bool = False) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    arrays = []
    folder.mkdir(parents=True, exist_ok=True)
    for name in IDX:
        values = rng.integers(0, 256, (count, 28, 28)) if "images" in name else rng.integers(0, 10, count)
        content = idx(values)
        (folder / f"{name}{'.gz' if packed else ''}").write_bytes(gzip.compress(content) if packed else content)
        arrays.append(values)
    return arrays


def cifar_batches() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    records = {name: rng.integers(0, 256, (RECORDS, 3073), dtype=np.uint8) for name in BATCHES}
    for batch in records.values():
        batch[:, 0] %= 10
    return records


def cifar_tar(batches: dict[str, np.ndarray], names: tuple[str, ...] = BATCHES) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name in reversed(names):  # the order in an archive is nobody's promise
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = batches[name].nbytes
            archive.addfile(member, io.BytesIO(batches[name].tobytes()))
    return plain.getvalue()


def write_svhn(folder: Path, labels: list[float], count: int | None = None) -> np.ndarray:
    images = np.random.default_rng(3).integers(0, 256, (32, 32, 3, count or len(labels)), dtype=np.uint8)
    folder.mkdir(parents=True, exist_ok=True)
    for half in ("train", "test"):
        y = np.array(labels, dtype=float).reshape(-1, 1)
        scipy.io.savemat(folder / f"{half}_32x32.mat", {"X": images, "y": y})
    return images


def xz_in_blocks(content: bytes, sizes: list[int]) -> bytes:
    """One .xz stream of several blocks, as `xz --threads` writes it, put together from streams of one block."""
    blocks, records, place = b"", b"", 0
    for size in sizes:
        whole = lzma.compress(content[place : place + size], check=lzma.CHECK_CRC64)
        index_size = (int.from_bytes(whole[-8:-4], "little") + 1) * 4
        blocks += whole[12 : -12 - index_size]
        records += whole[-12 - index_size + 2 : -12 - 4].rstrip(b"\0")
        place += size
    assert place == len(content)
    index = bytes([0, len(sizes)]) + records
    index += b"\0" * (-len(index) % 4)
    index += crc32(index)
    tail = (len(index) // 4 - 1).to_bytes(4, "little") + whole[6:8]
    return whole[:12] + blocks + index + crc32(tail) + tail + b"YZ"


def crc32(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(4, "little")


@pytest.fixture
def small_cifar(monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    monkeypatch.setattr(sources, "_CIFAR_RECORDS", RECORDS)
    return cifar_batches()


def assert_is_cifar(data: DataSet, batches: dict[str, np.ndarray]) -> None:
    train = np.concatenate([batches[name] for name in BATCHES[:5]])
    np.testing.assert_array_equal(data.train_labels, train[:, 0])
    np.testing.assert_array_equal(data.train_images, train[:, 1:].reshape(-1, 3, 32, 32))
    np.testing.assert_array_equal(data.test_images.reshape(RECORDS, -1), batches["test_batch.bin"][:, 1:])
    np.testing.assert_array_equal(data.test_labels, batches["test_batch.bin"][:, 0])


# where it is looked for


def test_the_folder_comes_before_the_environment_and_the_users_data_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("FEDFLOOR_DATA", str(tmp_path / "env"))
    assert data_folder(tmp_path) == tmp_path
    assert data_folder() == tmp_path / "env"
    monkeypatch.setenv("FEDFLOOR_DATA", "")
    assert data_folder() == tmp_path / "xdg" / "fedfloor"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder() == tmp_path / ".local" / "share" / "fedfloor"


def test_a_named_folder_must_exist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere: no such folder\. Create it, or name another one"):
        load_dataset("fashion-mnist", tmp_path / "nowhere")
    monkeypatch.setenv("FEDFLOOR_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"nowhere: no such folder.*FEDFLOOR_DATA"):
        load_dataset("cifar10", None)


def test_an_unknown_name_gets_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'cifar-10': unknown. Did you mean 'cifar10'"):
        load_dataset("cifar-10", tmp_path)


@pytest.mark.parametrize("name", ["cifar10", "svhn"])
def test_what_is_missing_names_the_place_and_the_command(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"{name}: no .* in {tmp_path} or .*run `fedfloor data fetch {name}"):
        load_dataset(name, tmp_path)


def test_a_missing_half_is_named(tmp_path: Path) -> None:
    write_svhn(tmp_path, [1, 2])
    (tmp_path / "test_32x32.mat").unlink()
    with pytest.raises(DataError, match=r"test_32x32.mat: missing, though train_32x32.mat is there"):
        load_dataset("svhn", tmp_path)


# Fashion-MNIST


def test_the_embedded_slice_is_balanced_and_small(tmp_path: Path) -> None:
    data = load_dataset("fashion-mnist", tmp_path)
    assert data.origin == "embedded slice"
    assert data.train_images.shape[1:] == data.test_images.shape[1:] == (1, 28, 28)
    assert len(data.train_images) == len(data.train_labels) >= 6000
    assert len(data.test_images) == len(data.test_labels) >= 1000
    for labels in (data.train_labels, data.test_labels):
        assert len(set(np.bincount(labels, minlength=10))) == 1
    assert sum(file.stat().st_size for file in EMBEDDED.parent.iterdir()) <= 4_000_000
    assert "Zalando SE" in (EMBEDDED.parent / "LICENSE-fashion-mnist.txt").read_text()


@pytest.mark.skipif(not DEBIAN.is_dir(), reason="needs the Debian package dataset-fashion-mnist")
def test_the_embedded_slice_is_the_beginning_of_the_whole_in_its_order(tmp_path: Path) -> None:
    part, whole = load_dataset("fashion-mnist", tmp_path), load_dataset("fashion-mnist", DEBIAN)
    assert whole.train_images.shape == (60_000, 1, 28, 28)
    each = len(part.train_labels) // 10
    kept = np.sort(np.concatenate([np.flatnonzero(whole.train_labels == label)[:each] for label in range(10)]))
    np.testing.assert_array_equal(part.train_images, whole.train_images[kept])
    np.testing.assert_array_equal(part.train_labels, whole.train_labels[kept])


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("inside", ["", "fashion-mnist"])
def test_idx_files_come_before_the_embedded_slice(inside: str, packed: bool, tmp_path: Path) -> None:
    images, labels, test_images, test_labels = write_fashion_mnist(tmp_path / inside, packed=packed)
    data = load_dataset("fashion-mnist", tmp_path)
    assert data.origin == str(tmp_path / inside)
    np.testing.assert_array_equal(data.train_images[:, 0], images)
    np.testing.assert_array_equal(data.train_labels, labels)
    np.testing.assert_array_equal(data.test_images[:, 0], test_images)
    np.testing.assert_array_equal(data.test_labels, test_labels)
    assert data.train_images.flags.writeable  # torch warns of anything else
    assert data.train_labels.dtype == np.int64


def shortened(content: bytes) -> bytes:
    return content[:-5]


def with_label_12(content: bytes) -> bytes:
    return content[:11] + bytes([12]) + content[12:]


@pytest.mark.parametrize(
    ("file", "spoil", "said"),
    [
        (IDX[0], shortened, "holds 23,531 bytes, its header says 23,536"),
        (IDX[0], lambda _: b"<html>", "starts with 3c68746d, must start with 00000803"),
        (IDX[0], lambda _: b"", "starts with nothing"),
        (IDX[0], lambda content: content[:6], "holds 6 bytes"),
        (IDX[2], lambda _: idx(np.zeros((30, 32, 32))), "its images are 32x32, must be 28x28"),
        (IDX[1], with_label_12, "label 3 is 12, must be 0 to 9"),
        (IDX[3], lambda _: idx(np.zeros(29)), "holds 29 labels for 30 images"),
        (IDX[3], lambda _: idx(np.zeros(0)), "holds no samples"),
    ],
)
def test_a_spoiled_idx_file_is_named(file: str, spoil: Callable[[bytes], bytes], said: str, tmp_path: Path) -> None:
    write_fashion_mnist(tmp_path)
    (tmp_path / file).write_bytes(spoil((tmp_path / file).read_bytes()))
    with pytest.raises(DataError, match=f"{file}: .*{said}.*remove it and run `fedfloor data fetch fashion-mnist"):
        load_dataset("fashion-mnist", tmp_path)


@pytest.mark.parametrize("spoil", [shortened, lambda _: b"plain", lambda content: content[:40] + b"?" + content[41:]])
def test_a_spoiled_gz_is_named(spoil: Callable[[bytes], bytes], tmp_path: Path) -> None:
    write_fashion_mnist(tmp_path, packed=True)
    file = tmp_path / f"{IDX[0]}.gz"
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz: (is damaged or incomplete|cannot be read)"):
        load_dataset("fashion-mnist", tmp_path)


# CIFAR-10


def test_cifar10_reads_the_same_from_every_form(small_cifar: dict[str, np.ndarray], tmp_path: Path) -> None:
    plain = cifar_tar(small_cifar)
    forms = {
        "cifar-10-binary.tar.gz": gzip.compress(plain),
        "cifar-10-binary.tar.xz": lzma.compress(plain),
        "cifar10/cifar-10-binary.tar.xz": xz_in_blocks(plain, [100_000, 1_000, len(plain) - 101_000]),
    }
    forms |= {f"cifar-10-batches-bin/{name}": batch.tobytes() for name, batch in small_cifar.items()}
    for number, (file, content) in enumerate(forms.items()):
        path = tmp_path / ("bin" if file.endswith(".bin") else str(number)) / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for folder in tmp_path.iterdir():
        assert_is_cifar(load_dataset("cifar10", folder), small_cifar)


def test_blocks_of_an_xz_are_found_and_joined(tmp_path: Path) -> None:
    content = np.random.default_rng(0).integers(0, 9, 300_000, dtype=np.uint8).tobytes()
    path = tmp_path / "some.xz"
    path.write_bytes(xz_in_blocks(content, [100_000, 150_000, 50_000]))
    assert [block.plain for block in sources._xz_blocks(path)] == [100_000, 150_000, 50_000]
    assert lzma.decompress(path.read_bytes()) == content  # the library agrees that this is a file
    with sources._stream(path) as stream:
        assert stream.read() == content


@pytest.mark.parametrize("place", [20, 60_000, -40])
def test_a_changed_byte_of_an_xz_does_not_pass(small_cifar: dict[str, np.ndarray], place: int, tmp_path: Path) -> None:
    plain = cifar_tar(small_cifar)
    packed = bytearray(xz_in_blocks(plain, [100_000, len(plain) - 100_000]))
    packed[place] ^= 0x55
    (tmp_path / "cifar-10-binary.tar.xz").write_bytes(packed)
    with pytest.raises(DataError, match=r"cifar-10-binary.tar.xz: is damaged or incomplete"):
        load_dataset("cifar10", tmp_path)


@pytest.mark.parametrize("ending", ["gz", "xz"])
@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.9])
def test_a_truncated_archive_does_not_pass(
    small_cifar: dict[str, np.ndarray], ending: str, keep: float, tmp_path: Path
) -> None:
    plain = cifar_tar(small_cifar)
    whole = gzip.compress(plain) if ending == "gz" else xz_in_blocks(plain, [99_000, len(plain) - 99_000])
    size = int(keep * len(whole)) if keep < 1 else int(keep)
    (tmp_path / f"cifar-10-binary.tar.{ending}").write_bytes(whole[:size])
    with pytest.raises(DataError, match=rf"cifar-10-binary.tar.{ending}: .*fedfloor data fetch cifar10"):
        load_dataset("cifar10", tmp_path)


def test_an_archive_without_a_batch_or_of_something_else_is_refused(
    small_cifar: dict[str, np.ndarray], tmp_path: Path
) -> None:
    path = tmp_path / "cifar-10-binary.tar.gz"
    path.write_bytes(gzip.compress(cifar_tar(small_cifar, BATCHES[1:])))
    with pytest.raises(DataError, match=r"tar.gz: holds no cifar-10-batches-bin/data_batch_1.bin"):
        load_dataset("cifar10", tmp_path)
    path.write_bytes(gzip.compress(b"no archive" * 100))
    with pytest.raises(DataError, match=r"tar.gz: is damaged"):
        load_dataset("cifar10", tmp_path)


def test_a_short_batch_and_a_wrong_label_name_their_file(small_cifar: dict[str, np.ndarray], tmp_path: Path) -> None:
    path = tmp_path / "cifar-10-binary.tar.gz"
    path.write_bytes(gzip.compress(cifar_tar({**small_cifar, "data_batch_2.bin": small_cifar["data_batch_2.bin"][:7]})))
    with pytest.raises(DataError, match=r"tar.gz/data_batch_2.bin: holds 21,511 bytes, must hold 61,460"):
        load_dataset("cifar10", tmp_path)
    small_cifar["test_batch.bin"][4, 0] = 10
    path.write_bytes(gzip.compress(cifar_tar(small_cifar)))
    with pytest.raises(DataError, match=r"tar.gz/test_batch.bin: label 4 is 10, must be 0 to 9"):
        load_dataset("cifar10", tmp_path)


# SVHN


@pytest.mark.parametrize("inside", ["", "svhn"])
def test_svhn_reads_10_as_the_digit_0(inside: str, tmp_path: Path) -> None:
    images = write_svhn(tmp_path / inside, [1, 10, 9, 10])
    data = load_dataset("svhn", tmp_path)
    assert data.train_labels.tolist() == [1, 0, 9, 0]
    assert data.train_images.shape == (4, 3, 32, 32)
    assert data.test_images[2, 1, 5, 7] == images[5, 7, 1, 2]
    assert data.train_images.flags.c_contiguous


@pytest.mark.parametrize(
    ("labels", "count", "said"),
    [
        ([1, 0], None, "label 1 is 0.0, must be 1 to 10"),
        ([11, 1], None, "label 0 is 11.0"),
        ([1, 2.5], None, "label 1 is 2.5"),
        ([1, float("nan")], None, "label 1 is nan"),
        ([1, 2, 3], 2, r"y is float64 \(3, 1\), must be numbers \(2, 1\)"),
    ],
)
def test_wrong_svhn_labels_are_named(labels: list[float], count: int | None, said: str, tmp_path: Path) -> None:
    write_svhn(tmp_path, labels, count)
    with pytest.raises(DataError, match=rf"train_32x32.mat: {said}"):
        load_dataset("svhn", tmp_path)


def test_foreign_and_truncated_mat_files_are_refused(tmp_path: Path) -> None:
    write_svhn(tmp_path, [1, 2, 3])
    path = tmp_path / "test_32x32.mat"
    whole = path.read_bytes()
    for content in (b"", b"hello", whole[:130], whole[: len(whole) // 2], bytes(500), gzip.compress(whole)):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"test_32x32.mat: (cannot be read as a MATLAB 5 file|holds no X)"):
            load_dataset("svhn", tmp_path)
    scipy.io.savemat(path, {"X": np.zeros((3, 32, 32, 4)), "y": np.ones((4, 1))})
    with pytest.raises(DataError, match=r"X is float64 \(3, 32, 32, 4\), must be uint8 \(32, 32, 3, N\)"):
        load_dataset("svhn", tmp_path)


# files that unpack to far more than they should


@contextmanager
def little_memory() -> Iterator[None]:
    """Check that the block needs no more than a few tens of megabytes at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()


def ten_gigabytes() -> bytes:
    """A .gz of 10 MB that unpacks to 10 GB of zeros."""
    return gzip.compress(bytes(1 << 24)) * 640


def test_an_idx_file_that_unpacks_to_more_than_its_header_says_is_refused(tmp_path: Path) -> None:
    write_fashion_mnist(tmp_path, packed=True)
    file = tmp_path / f"{IDX[0]}.gz"
    file.write_bytes(file.read_bytes() + ten_gigabytes())
    with little_memory(), pytest.raises(DataError, match=r"holds more than 23,536 bytes, its header says 23,536"):
        load_dataset("fashion-mnist", tmp_path)
    header = bytes([0, 0, 8, 3]) + (2**32 - 1).to_bytes(4, "big") + 2 * (28).to_bytes(4, "big")
    file.write_bytes(gzip.compress(header) + ten_gigabytes())
    with (
        little_memory(),
        pytest.raises(DataError, match=r"its header says 3,367,\d{3},\d{3},\d{3} bytes, must be at most"),
    ):
        load_dataset("fashion-mnist", tmp_path)


def test_a_file_without_a_known_size_is_read_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_LARGEST", 1 << 24)
    write_fashion_mnist(tmp_path, packed=True)
    (tmp_path / f"{IDX[0]}.gz").write_bytes(ten_gigabytes())
    with (
        little_memory(),
        pytest.raises(DataError, match=r"ubyte.gz: holds more than 16,777,216 bytes, must hold at most"),
    ):
        load_dataset("fashion-mnist", tmp_path)


@pytest.mark.parametrize("size", [10_000_000_000, 0])
def test_an_archive_with_a_huge_member_is_refused(
    size: int, small_cifar: dict[str, np.ndarray], tmp_path: Path
) -> None:
    member = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
    member.size = size
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(gzip.compress(member.tobuf()) + ten_gigabytes())
    said = f"data_batch_1.bin: holds {size:,} bytes, must hold 61,460"
    with little_memory(), pytest.raises(DataError, match=said):
        load_dataset("cifar10", tmp_path)


@pytest.mark.parametrize("ending", ["gz", "xz"])
def test_an_archive_is_unpacked_up_to_a_limit(
    ending: str, small_cifar: dict[str, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_LARGEST_ARCHIVE", 1 << 24)
    member = tarfile.TarInfo("cifar-10-batches-bin/readme.html")
    member.size = 10_000_000_000
    pack = gzip.compress if ending == "gz" else lzma.compress
    path = tmp_path / f"cifar-10-binary.tar.{ending}"
    path.write_bytes(pack(member.tobuf()) + 10 * pack(bytes(1 << 23)))
    with little_memory(), pytest.raises(DataError, match=r"tar...: unpacks to more than 16,777,216 bytes, must"):
        load_dataset("cifar10", tmp_path)


def test_blocks_of_an_xz_are_unpacked_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_LARGEST_ARCHIVE", 1 << 20)
    path = tmp_path / "cifar-10-binary.tar.xz"
    path.write_bytes(xz_in_blocks(bytes(1 << 21), [1 << 20, 1 << 20]))
    with pytest.raises(DataError, match=r"tar.xz: unpacks to more than 1,048,576 bytes, must be at most that"):
        load_dataset("cifar10", tmp_path)


def test_a_block_of_an_xz_is_unpacked_up_to_the_size_in_the_index(tmp_path: Path) -> None:
    path = tmp_path / "some.xz"
    path.write_bytes(xz_in_blocks(bytes(1 << 26), [1 << 25, 1 << 25]))
    first, _ = sources._xz_blocks(path)
    with little_memory(), pytest.raises(lzma.LZMAError, match="another size than the index says"):
        sources._unpack_block(path, dataclasses.replace(first, plain=1000))


def xz_with_index(records: bytes) -> bytes:
    """A .xz whose index is not what it should be; its checksums are right."""
    whole = lzma.compress(b"")
    index = b"\0" + records
    index += b"\0" * (-len(index) % 4)
    index += crc32(index)
    tail = (len(index) // 4 - 1).to_bytes(4, "little") + whole[6:8]
    return whole[:12] + index + crc32(tail) + tail + b"YZ"


@pytest.mark.parametrize(
    "records",
    [b"\xff" * 8 + b"\x7f", b"\xff" * 500_000, b"\xff\xff\xff\x7f" + bytes(500_000), b"\x80" * 5_000_000],
    ids=["blocks of nothing", "a long number", "many empty blocks", "a large index"],
)
def test_an_index_of_an_xz_that_goes_on_forever_is_refused(
    records: bytes, small_cifar: dict[str, np.ndarray], tmp_path: Path
) -> None:
    (tmp_path / "cifar-10-binary.tar.xz").write_bytes(xz_with_index(records))
    with little_memory(), pytest.raises(DataError, match=r"tar.xz: is damaged or incomplete"):
        load_dataset("cifar10", tmp_path)


def test_a_mat_file_is_unpacked_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_LARGEST", 1 << 24)
    write_svhn(tmp_path, [1, 2, 3])
    large = {"X": np.zeros((32, 32, 3, 20_000), np.uint8), "y": np.ones((20_000, 1))}
    scipy.io.savemat(tmp_path / "train_32x32.mat", large, do_compression=True)
    said = r"train_32x32.mat: .*it unpacks to more than 16,777,216 bytes"
    with little_memory(), pytest.raises(DataError, match=said):
        load_dataset("svhn", tmp_path)


def test_a_mat_file_holds_arrays_of_numbers_in_few_variables(tmp_path: Path) -> None:
    write_svhn(tmp_path, [1, 2, 3])
    path = tmp_path / "train_32x32.mat"
    scipy.io.savemat(path, {"X": np.array([1, "a", 2.5], object), "y": np.ones((3, 1))}, do_compression=True)
    with pytest.raises(DataError, match=r"train_32x32.mat: X is a MATLAB cell, must be an array of numbers"):
        load_dataset("svhn", tmp_path)
    scipy.io.savemat(path, {f"v{k}": 1 for k in range(200)})
    with pytest.raises(DataError, match=r"train_32x32.mat: .*it has more than 100 variables"):
        load_dataset("svhn", tmp_path)


@pytest.mark.parametrize("packed", [False, True])
def test_a_packed_mat_file_reads_as_a_plain_one(packed: bool, tmp_path: Path) -> None:
    images = write_svhn(tmp_path, [1, 10, 9])
    scipy.io.savemat(
        tmp_path / "test_32x32.mat", {"X": images, "y": np.array([[2], [3], [4]], np.uint8)}, do_compression=packed
    )
    data = load_dataset("svhn", tmp_path)
    np.testing.assert_array_equal(data.test_images, images.transpose(3, 2, 0, 1))
    assert data.test_labels.tolist() == [2, 3, 4]


def test_a_lack_of_memory_is_not_taken_for_a_damaged_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_svhn(tmp_path, [1, 2, 3])

    def short(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(scipy.io, "loadmat", short)
    with pytest.raises(MemoryError):
        load_dataset("svhn", tmp_path)


# the real ones


def real_folder(name: str) -> Path:
    if not REAL:
        pytest.skip("FEDFLOOR_DATA is not set: no real data")
    try:
        dataset_files(name, Path(REAL))
    except DataError as error:
        pytest.skip(f"no real data: {error}")
    return Path(REAL)


def test_real_cifar10() -> None:
    data = load_dataset("cifar10", real_folder("cifar10"))
    assert data.train_images.shape == (50_000, 3, 32, 32)
    assert data.test_images.shape == (10_000, 3, 32, 32)
    assert np.bincount(data.train_labels).tolist() == [5000] * 10
    assert np.bincount(data.test_labels).tolist() == [1000] * 10
    assert data.train_labels[:5].tolist() == [6, 9, 9, 4, 1]  # frog, truck, truck, deer, automobile
    assert data.train_images[0, :, 0, 0].tolist() == [59, 62, 63]


def test_real_svhn() -> None:
    data = load_dataset("svhn", real_folder("svhn"))
    assert data.train_images.shape[1:] == (3, 32, 32)
    assert set(data.train_labels) == set(data.test_labels) == set(range(10))
    assert data.train_labels[:3].tolist() == [1, 9, 2]
