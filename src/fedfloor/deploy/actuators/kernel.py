"""Files through which the kernel is told what to do: each holds a short text, and only the kernel makes them."""

__all__ = ["ROOT", "read_value", "write_value"]

import os
from pathlib import Path

#: below which all trees are; tests have a tree of their own
ROOT = Path("/")


def read_value(path: Path) -> str:
    """The text of such a file without the end of its line; an OSError if it cannot be read."""
    return path.read_text(encoding="utf-8", errors="replace").strip()


def write_value(path: Path, value: object) -> None:
    """Write a value in one piece, as the kernel wants it; an OSError names the file, also if there is none."""
    handle = os.open(path, os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(handle, f"{value}\n".encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(handle)
