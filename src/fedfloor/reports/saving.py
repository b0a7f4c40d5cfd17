"""Files that are either whole or as they were."""

__all__ = ["save"]

import errno
from collections.abc import Callable
from pathlib import Path

from fedfloor.errors import FailedRunError, RunLogError
from fedfloor.files import replacing


def save(path: Path, write: Callable[[Path], object]) -> None:
    """Have a file written beside the old one, then put in its place; its folder is made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            write(part)
    except OSError as error:
        problem = f"{path}: cannot be written: {error.strerror}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise FailedRunError(f"{problem}. Make room, then report again") from None
        raise RunLogError(f"{problem}. Name another place") from None
