"""Make the slice of Fashion-MNIST inside the package from Debian's files: `python -m benchmarks.embed_fashion_mnist`.

Needs the Debian package `dataset-fashion-mnist`, or the official IDX files in the folder given as argument.
"""

import io
import lzma
import sys
from pathlib import Path

import numpy as np

from fedfloor.training.data.sources import EMBEDDED, DataSet, load_dataset

DEBIAN = Path("/usr/share/datasets/fashion-mnist")
LIMIT = 4_000_000  # bytes, the licence included
TEST_PER_CLASS = 100
#: of the ways tried, pictures column by column and 4 literal context bits pack best
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "dict_size": 1 << 26}]


def first_of_every_class(labels: np.ndarray, count: int) -> np.ndarray:
    """Indices of the first `count` samples of every class, in the order of the data set."""
    return np.sort(np.concatenate([np.flatnonzero(labels == label)[:count] for label in np.unique(labels)]))


def packed(data: DataSet, train_per_class: int) -> bytes:
    """The slice as an .npz inside an .xz."""
    train = first_of_every_class(data.train_labels, train_per_class)
    test = first_of_every_class(data.test_labels, TEST_PER_CLASS)
    plain = io.BytesIO()
    np.savez(
        plain,
        train_columns=np.ascontiguousarray(data.train_images[train].swapaxes(2, 3)),
        train_labels=data.train_labels[train].astype(np.uint8),
        test_columns=np.ascontiguousarray(data.test_images[test].swapaxes(2, 3)),
        test_labels=data.test_labels[test].astype(np.uint8),
    )
    return lzma.compress(plain.getvalue(), lzma.FORMAT_XZ, filters=FILTERS)


def largest(data: DataSet, limit: int) -> tuple[int, bytes]:
    """The most training samples per class that stay within the limit, and the slice."""
    low, high, best = 600, 2000, b""
    while low < high:
        middle = (low + high + 1) // 2
        content = packed(data, middle)
        print(f"{middle} per class: {len(content):,} bytes")
        low, high, best = (middle, high, content) if len(content) <= limit else (low, middle - 1, best)
    assert best, f"not even {low + 1} per class fit into {limit:,} bytes"
    return low, best


def main() -> None:
    """Write the slice."""
    data = load_dataset("fashion-mnist", Path(sys.argv[1]) if len(sys.argv) > 1 else DEBIAN)
    licence = EMBEDDED.parent / "LICENSE-fashion-mnist.txt"
    per_class, content = largest(data, LIMIT - licence.stat().st_size)
    EMBEDDED.write_bytes(content)
    print(f"wrote {EMBEDDED}: {len(content):,} bytes, {per_class} training and {TEST_PER_CLASS} test samples per class")


if __name__ == "__main__":
    main()
