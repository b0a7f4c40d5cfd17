"""Files that are either whole or as they were."""

__all__ = ["save"]

from collections.abc import Callable
from pathlib import Path

from fedfloor.files import refused_write, replacing


def save(path: Path, write: Callable[[Path], object]) -> None:
    """Have a file written beside the old one, then put in its place; its folder is made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            write(part)
    except OSError as error:
        raise refused_write(path, error, again="report again", advice="Name another place") from None
