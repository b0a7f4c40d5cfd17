"""Compilation of numeric loops: once per version of these sources, then kept on disk for later processes.

Numba checks only the file of a cached function itself, so it would miss a change in a function that is called from
another file. The name of the cache folder therefore has a digest of all files in this folder and of Numba's version.
"""

__all__ = ["compiled", "compiled_parallel", "is_compiled"]

import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])
_CONFIG: Any = numba.config
# Numba obeys a file .numba_config.yaml in the working folder, which may name a cache: code that would be executed.
_CONFIG._config_fname = ""  # noqa: SLF001  # there is no other way
_CONFIG.reload_config()
_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH  #: modes in which others can write


def _cache_folder() -> str:
    """Find a cache folder: in NUMBA_CACHE_DIR, the user's cache or the temporary files; empty if none is private.

    Compiled code from the cache is executed, so nobody else may be able to write there.
    """
    sources = sorted(Path(__file__).parent.glob("*.py"))
    parts = [numba.__version__.encode(), *(path.read_bytes() for path in sources)]
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
        folder = Path(base).absolute() / name / f"solver-{digest}"
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
    """Whether only this user can write a folder, and nobody can replace it or, in a shared folder, any on the way."""
    if sys.platform == "win32":  # where a user's folders are private
        return True
    way = [folder, *folder.parents]
    shared = [k for k, part in enumerate(way) if k > 0 and part.stat().st_mode & stat.S_IWOTH]
    top = shared[-1] if shared else 0
    status, *above = [part.lstat() for part in way[: max(top, 1)]]  # a symbolic link is not followed
    if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode) or status.st_mode & _BY_OTHERS:
        return False
    if top:
        above.append(way[top].stat())
    return all(
        part.st_uid in (0, os.geteuid())
        and stat.S_ISDIR(part.st_mode)
        and (not part.st_mode & _BY_OTHERS or part.st_mode & stat.S_ISVTX)  # only owners rename what lies there
        for part in above
    )


_FOLDER = _cache_folder()


def is_compiled(function: Any) -> bool:
    """Whether an earlier process has compiled a function of these sources, from this very checkout."""
    cache, source = function.stats.cache_path, Path(function.py_func.__code__.co_filename)
    python = "".join(map(str, sys.version_info[:2]))
    return cache is not None and any(Path(cache).glob(f"{source.stem}.{function.py_func.__name__}-*.py{python}.nbi"))


def compiled(function: Function) -> Function:
    """Compile a function for one core; division by zero gives inf, as in NumPy."""
    return _cached(function, parallel=False)


def compiled_parallel(function: Function) -> Function:
    """Compile a function whose `prange` loops use all cores."""
    return _cached(function, parallel=True)


def _cached(function: Function, *, parallel: bool) -> Function:
    previous, _CONFIG.CACHE_DIR = _CONFIG.CACHE_DIR, _FOLDER
    try:
        return cast("Function", njit(cache=bool(_FOLDER), error_model="numpy", parallel=parallel)(function))
    finally:
        _CONFIG.CACHE_DIR = previous
