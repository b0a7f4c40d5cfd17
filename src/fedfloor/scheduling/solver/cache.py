"""Where compiled code is kept: a folder per version of these sources in which nobody else can put code.

Numba checks only the file of a cached function itself, so it would miss a change in a function that is called from
another file. The name of the cache folder therefore has a digest of all files in this folder and of Numba's version.
"""

__all__ = ["FOLDER", "find_folder"]

import hashlib
import os
import stat
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path


def find_folder() -> str:
    """Find a cache folder: in NUMBA_CACHE_DIR, the user's cache or the temporary files; empty if none is private.

    Compiled code from the cache is executed, so nobody else may be able to write there.
    """
    sources = sorted(Path(__file__).parent.glob("*.py"))
    parts = [version("numba").encode(), *(path.read_bytes() for path in sources)]
    digest = hashlib.sha256(b"".join(parts)).hexdigest()[:16]
    home = os.environ.get("XDG_CACHE_HOME") or (f"{os.environ['HOME']}/.cache" if os.environ.get("HOME") else "")
    user = "fedfloor" if sys.platform == "win32" else f"fedfloor-{os.geteuid()}"
    for base, name in (
        (os.environ.get("NUMBA_CACHE_DIR"), "fedfloor"),
        (home, "fedfloor"),
        (tempfile.gettempdir(), user),
    ):
        if not base:
            continue
        folder = Path(base).resolve() / name / f"solver-{digest}"  # of a link, what it names now is looked at and used
        try:
            _make(folder)
            if _is_private(folder) and os.access(folder, os.W_OK):
                return str(folder)
        except OSError:
            continue
    return ""


def _make(folder: Path) -> None:
    """Make a folder and those above it that are missing, all for this user only."""
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _is_private(folder: Path) -> bool:
    """Whether only this user can write a folder, and nobody else can replace it or one of those above it."""
    if sys.platform == "win32":  # where a user's folders are private
        return True
    status, *above = [part.lstat() for part in (folder, *folder.parents)]  # a symbolic link is no folder
    return (
        all(stat.S_ISDIR(part.st_mode) and part.st_uid in (0, os.geteuid()) for part in (status, *above))
        and status.st_uid == os.geteuid()
        and not _others_write(status)
        and all(part.st_mode & stat.S_ISVTX or not _others_write(part) for part in above)  # then only owners rename
    )


def _others_write(status: os.stat_result) -> bool:
    """Whether others than this user and root may write a folder of theirs."""
    by_group = status.st_mode & stat.S_IWGRP and status.st_gid != _own_group()
    return bool(by_group or status.st_mode & stat.S_IWOTH)


def _own_group() -> int | None:
    """The group that has the name of this user and no other member, as many systems make one for every user."""
    import grp  # noqa: PLC0415  # not everywhere
    import pwd  # noqa: PLC0415

    try:
        user = pwd.getpwuid(os.geteuid())
        group = grp.getgrgid(user.pw_gid)
    except KeyError:  # a user without an entry, as in a container
        return None
    return group.gr_gid if group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name} else None


FOLDER = find_folder()
