"""MATLAB 5 files with their variables unpacked, because scipy unpacks variables of any size.

https://www.mathworks.com/help/pdf_doc/matlab/matfile_format.pdf
"""

__all__ = ["NUMBERS", "unpacked_mat"]

import io
import zlib
from pathlib import Path
from typing import BinaryIO, Literal

#: classes of arrays of numbers, as `scipy.io.whosmat` names them
NUMBERS = frozenset(
    {"double", "single", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"},
)

_HEADER = 128  #: bytes; the last four are the version and the order of bytes
_PACKED = 15  #: type of a variable that is packed
_VARIABLES = 100  #: largest number of variables in a file
_CHUNK = 1 << 20  #: bytes unpacked at once


def unpacked_mat(path: Path, limit: int) -> io.BytesIO:
    """The file with unpacked variables, at most `limit` bytes; raises a ValueError or a zlib.error if it is damaged."""
    plain = io.BytesIO()
    with path.open("rb") as file:
        header = file.read(_HEADER)
        order: Literal["little", "big"] = "little" if header.endswith(b"IM") else "big"
        if header[124:] not in (b"\x00\x01IM", b"\x01\x00MI"):
            raise ValueError("it has another header")
        plain.write(header)
        for _ in range(_VARIABLES):
            tag = file.read(8)
            if not tag:
                plain.seek(0)
                return plain
            begin, size = plain.tell(), int.from_bytes(tag[4:], order)
            if int.from_bytes(tag[:4], order) != _PACKED:
                plain.write(tag)
                _copy(file, size, plain, limit)
                continue
            _unpack(file, size, plain, limit)
            plain.seek(begin)
            size = int.from_bytes(plain.read(8)[4:], order)
            plain.truncate(begin + 8 + size)  # one variable, whatever is packed after it
            plain.seek(0, io.SEEK_END)
    raise ValueError(f"it has more than {_VARIABLES} variables")


def _copy(file: BinaryIO, size: int, plain: io.BytesIO, limit: int) -> None:
    """Append `size` bytes of the file."""
    while size > 0 and (chunk := file.read(min(size, _CHUNK))):
        size -= len(chunk)
        plain.write(chunk)
        _refuse_more(plain, limit)
    if size > 0:
        raise ValueError("a variable is incomplete")


def _unpack(file: BinaryIO, size: int, plain: io.BytesIO, limit: int) -> None:
    """Append what `size` packed bytes of the file unpack to."""
    unpacker = zlib.decompressobj()
    while size > 0 and (chunk := file.read(min(size, _CHUNK))):
        size -= len(chunk)
        while chunk:
            plain.write(unpacker.decompress(chunk, _CHUNK))
            chunk = unpacker.unconsumed_tail
            _refuse_more(plain, limit)
    plain.write(unpacker.flush())
    if not unpacker.eof:
        raise ValueError("a variable is incomplete")


def _refuse_more(plain: io.BytesIO, limit: int) -> None:
    if plain.tell() > limit:
        raise ValueError(f"it unpacks to more than {limit:,} bytes")
