"""Files that a pattern names, and what the parts in braces of the pattern say about each of them."""

__all__ = ["MissingFilesError", "NamedFile", "files_below", "folders_in", "matching", "named_files"]

import contextlib
import functools
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fedfloor.errors import DataError, named

_PARTS = re.compile(r"\{(\w+)\}|((?:\*\*/)+)|(\*+)|(\?)")


class MissingFilesError(DataError):
    """A pattern that no file matches."""


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file, and the values of the fields in its path, such as that of `device` in `sensors/{device}/*.csv`."""

    path: Path
    fields: Mapping[str, str]


def named_files(pattern: str, *, folders: bool = False) -> list[NamedFile]:
    """All files that match an absolute pattern, sorted by their paths, or all folders; there must be at least one.

    A file that links lead to several times is listed once, unless its paths say other devices or labels. Hidden
    names match only where that part of the pattern begins with a dot.
    """
    shape, is_wanted = _compiled(pattern.rstrip("/")), stat.S_ISDIR if folders else stat.S_ISREG
    matches = ((path, shape.fullmatch(str(path))) for path in _places(pattern) if is_wanted(_mode(path)))
    found = _once(NamedFile(path, match.groupdict()) for path, match in matches if match is not None)
    if not found:
        what = "no such folder" if folders else "no file matches it"
        advice = "Correct data.name; a relative path starts at the folder of the scenario file"
        raise MissingFilesError(f"data {named(pattern)}: {what}. {advice}")
    return found


def matching(pattern: str, paths: list[Path]) -> list[bool]:
    """Which of the files an absolute pattern matches."""
    shape = _compiled(pattern)
    return [shape.fullmatch(str(path)) is not None for path in paths]


def folders_in(folder: Path) -> list[Path]:
    """Folders directly below a folder, sorted, without hidden ones."""
    return sorted(path for path in _entries(folder) if not _is_hidden(path) and stat.S_ISDIR(_mode(path)))


def files_below(folder: Path) -> list[Path]:
    """Files in a folder and in all folders below it, sorted, each once, and nothing that is hidden."""
    paths = (path for place in _tree(folder) for path in _entries(place) if not _is_hidden(path))
    return sorted(file.path for file in _once(NamedFile(path, {}) for path in paths if stat.S_ISREG(_mode(path))))


def _once(files: Iterable[NamedFile]) -> list[NamedFile]:
    """Each file once, by its own path rather than by that of a link, because the same rows are the same recording."""
    kept: dict[tuple[object, ...], NamedFile] = {}
    real_folder = functools.cache(Path.resolve)
    for file in sorted(files, key=lambda file: str(file.path)):
        path = file.path
        real = path.resolve() if path.is_symlink() else real_folder(path.parent) / path.name
        key = (real, file.fields.get("device"), file.fields.get("label"))
        if key not in kept or path == real:
            kept[key] = file
    return sorted(kept.values(), key=lambda file: str(file.path))


# Patterns


def _compiled(pattern: str) -> re.Pattern[str]:
    """Regular expression of a pattern with `*`, `**/`, `?` and fields in braces."""
    text, at = "", 0
    for part in _PARTS.finditer(pattern):
        field, folders, star, _ = part.groups()
        piece = f"(?P<{field}>[^/]+?)" if field else "(?:.*/)?" if folders else "[^/]*" if star else "[^/]"
        text, at = text + re.escape(pattern[at : part.start()]) + piece, part.end()
    return re.compile(text + re.escape(pattern[at:]), re.DOTALL)


def _places(pattern: str) -> Iterable[Path]:
    """Paths that match an absolute pattern, part by part."""
    root, *parts = Path(pattern).parts
    places: Iterable[Path] = [Path(root)]
    for part in parts:
        places = dict.fromkeys(further for place in places for further in _further(place, part))
    return places


def _further(place: Path, part: str) -> Iterator[Path]:
    """Paths below a place that one part of a pattern matches."""
    if part == "**":
        yield from _tree(place)
    elif _PARTS.search(part) is None:
        if _mode(place / part):
            yield place / part
    else:
        shape, hidden_too = _compiled(part), part.startswith(".")
        for path in _entries(place):
            if shape.fullmatch(path.name) and (hidden_too or not _is_hidden(path)):
                yield path


# The disk


def _tree(folder: Path) -> Iterator[Path]:
    """A folder and all below it but hidden ones; each once, so that links cannot lead in circles."""
    waiting, links, seen = [folder], list[Path](), set[Path]()
    while waiting or links:
        place = (waiting or links).pop()  # links come last, so that a folder has its own path
        if place.resolve() in seen or not stat.S_ISDIR(_mode(place)):
            continue
        seen.add(place.resolve())
        yield place
        for path in _entries(place):
            if not _is_hidden(path) and stat.S_ISDIR(_mode(path)):
                (links if path.is_symlink() else waiting).append(path)


def _is_hidden(path: Path) -> bool:
    return path.name.startswith(".")


def _entries(folder: Path) -> list[Path]:
    """What a folder contains; nothing if it is not a folder."""
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _unreadable(folder, error) from None


def _mode(path: Path) -> int:
    """Kind of what is at a path, as `stat` tells it; 0 if there is nothing."""
    try:
        return path.stat().st_mode
    except PermissionError as error:
        if os.path.islink(path):  # noqa: PTH114  # is_symlink() raises where the folder may not be entered
            problem = f"leads to {named(path.readlink())}, which may not be entered: {error.strerror or error}"
            advice = "Give yourself x of the folders that lead there, or leave the link out of data.name"
            raise DataError(f"{named(path)}: {problem}. {advice}") from None
        raise _unreadable(path.parent, error) from None
    except OSError:  # no such file, a link to none or to itself, or too long a name
        return 0


def _unreadable(folder: Path, error: OSError) -> DataError:
    """What is wrong with a folder that cannot be listed or entered."""
    problem = f"cannot be listed or entered: {error.strerror or error}"
    with contextlib.suppress(OSError):
        problem += f", its permissions are {stat.filemode(folder.stat().st_mode)}"
    return DataError(f"{named(folder)}: {problem}. Give yourself r and x of it, or leave it out of data.name")
