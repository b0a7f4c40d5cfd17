"""Compilation of numeric loops: once per version of these sources, then kept on disk for later processes.

Numba checks only the file of a cached function itself, so it would miss a change in a function that is called from
another file. The name of the cache folder therefore has a digest of all files in this folder and of Numba's version.
"""

__all__ = ["compiled", "compiled_parallel", "is_compiled"]

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])
_CONFIG: Any = numba.config


def _cache_folder() -> str:
    """Find a cache folder: in NUMBA_CACHE_DIR, the user's cache or the temporary files; empty if none is writable."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    parts = [numba.__version__.encode(), *(path.read_bytes() for path in sources)]
    digest = hashlib.sha256(b"".join(parts)).hexdigest()[:16]
    home = os.environ.get("XDG_CACHE_HOME") or (f"{os.environ['HOME']}/.cache" if os.environ.get("HOME") else "")
    for base in (_CONFIG.CACHE_DIR, home, tempfile.gettempdir()):
        folder = Path(base) / "fedfloor" / f"solver-{digest}" if base else None
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                if os.access(folder, os.W_OK):
                    return str(folder)
        except OSError:
            continue
    return ""


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
