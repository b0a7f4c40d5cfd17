"""Files that a pattern names, and what the parts in braces of the pattern say about each of them."""

__all__ = ["MissingFilesError", "NamedFile", "matching", "named_files"]

import glob
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedfloor.errors import DataError, named

_PARTS = re.compile(r"\{(\w+)\}|(\*\*/)|(\*)|(\?)")


class MissingFilesError(DataError):
    """A pattern that no file matches."""


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file, and the values of the fields in its path, such as that of `device` in `sensors/{device}/*.csv`."""

    path: Path
    fields: Mapping[str, str]


def named_files(pattern: str, *, folders: bool = False) -> list[NamedFile]:
    """All files that match an absolute pattern, sorted by their paths, or all folders; there must be at least one."""
    shape = _compiled(pattern.rstrip("/"))
    rough = re.sub(r"\{\w+\}", "*", pattern.rstrip("/")).replace("[", "[[]")  # brackets are a part of the name
    matches = ((path, shape.fullmatch(path)) for path in sorted(glob.glob(rough, recursive=True)))  # noqa: PTH207
    found = [
        NamedFile(Path(path), match.groupdict())
        for path, match in matches
        if match is not None and (Path(path).is_dir() if folders else Path(path).is_file())
    ]
    if not found:
        what = "no such folder" if folders else "no file matches it"
        advice = "Correct data.name; a relative path starts at the folder of the scenario file"
        raise MissingFilesError(f"data {named(pattern)}: {what}. {advice}")
    return found


def matching(pattern: str, paths: list[Path]) -> list[bool]:
    """Which of the files an absolute pattern matches."""
    shape = _compiled(pattern)
    return [shape.fullmatch(str(path)) is not None for path in paths]


def _compiled(pattern: str) -> re.Pattern[str]:
    """Regular expression of a pattern with `*`, `**/`, `?` and fields in braces."""
    text, at = "", 0
    for part in _PARTS.finditer(pattern):
        field, folders, star, _ = part.groups()
        piece = f"(?P<{field}>[^/]+?)" if field else "(?:.*/)?" if folders else "[^/]*" if star else "[^/]"
        text, at = text + re.escape(pattern[at : part.start()]) + piece, part.end()
    return re.compile(text + re.escape(pattern[at:]), re.DOTALL)
