"""Compilation of numeric loops: as they are imported, or later, after one round that the interpreter decides.

Loading the compiler takes longer than deciding a small round without it. A program that decides one round calls `defer`
before anything else imports the solver; `decided` compiles what was deferred from the second round on, `catch_up` at
once. Both ways give the same results to the last bit.
"""

__all__ = [
    "CompilerNeededError",
    "catch_up",
    "compiled",
    "compiled_only",
    "compiled_parallel",
    "decided",
    "defer",
    "is_compiled",
    "is_deferred",
    "prange",
]

import functools
import importlib
import logging
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from fedfloor.scheduling.solver.cache import FOLDER

Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")
_LOG = logging.getLogger(__name__)
_LOCK = threading.RLock()  #: of the next two
_has_decided = False  #: the interpreter, once
#: what the interpreter runs -> function to compile and whether its `prange` loops use all cores; None: compile at once
_deferred: dict[Callable[..., Any], tuple[Callable[..., Any], bool]] | None = None
prange = range  #: for the interpreter; compiled functions get that of Numba


class CompilerNeededError(Exception):
    """The interpreter has reached a function that only compiled code should run."""


def defer() -> None:
    """Let the interpreter decide one round, if nothing has imported the solver before."""
    global _deferred  # noqa: PLW0603  # like the compiler itself, it is one per process
    with _LOCK:
        name = f"{__package__}.solve"
        if name not in sys.modules:
            _deferred = {}
            importlib.import_module(name)


def decided(decide: Callable[[], Result], *, is_small: bool, first_delay: Callable[[], str]) -> Result:
    """The result of deciding a round; the interpreter gets the first one, if it is small and `defer` was called.

    What `first_delay` says of the compiler is logged if it is needed after all.
    """
    global _has_decided  # noqa: PLW0603
    with _LOCK:
        if is_deferred():
            if is_small and not _has_decided:
                _has_decided = True
                try:
                    with np.errstate(all="ignore"):  # as compiled code does
                        return decide()
                except (CompilerNeededError, ArithmeticError, ValueError):
                    pass  # compiled code gives inf where Python raises
            catch_up()
            if delay := first_delay():
                _LOG.warning("%s", delay)
    return decide()


def is_deferred() -> bool:
    """Whether the interpreter runs the functions of the solver."""
    return _deferred is not None


def catch_up() -> None:
    """Compile what was deferred, wherever the solver has imported it."""
    global _deferred  # noqa: PLW0603
    with _LOCK:
        if _deferred is None:
            return
        functions = {stand_in: _cached(function, parallel=many) for stand_in, (function, many) in _deferred.items()}
        for name, module in list(sys.modules.items()):
            if name.startswith(f"{__package__}."):
                for key, value in list(vars(module).items()):
                    if callable(value) and value.__hash__ is not None and value in functions:
                        setattr(module, key, functions[value])
        _deferred = None


def is_compiled(function: Any) -> bool:
    """Whether an earlier process has compiled a function of these sources, from this very checkout."""
    cache, source = function.stats.cache_path, Path(function.py_func.__code__.co_filename)
    python = "".join(map(str, sys.version_info[:2]))
    return cache is not None and any(Path(cache).glob(f"{source.stem}.{function.py_func.__name__}-*.py{python}.nbi"))


def compiled(function: Function) -> Function:
    """Compile a function for one core; division by zero gives inf, as in NumPy."""
    return function if _is_put_off(function, function) else _cached(function)


def compiled_parallel(function: Function) -> Function:
    """Compile a function whose `prange` loops use all cores."""
    return function if _is_put_off(function, function, parallel=True) else _cached(function, parallel=True)


def compiled_only(function: Function) -> Function:
    """Compile a function that would keep the interpreter busy for long."""

    @functools.wraps(function)
    def refuse(*_: object) -> None:
        raise CompilerNeededError

    return cast("Function", refuse) if _is_put_off(refuse, function) else _cached(function)


def _is_put_off(stand_in: Callable[..., Any], function: Callable[..., Any], *, parallel: bool = False) -> bool:
    if _deferred is None:
        return False
    _deferred[stand_in] = function, parallel
    return True


def _cached(function: Function, *, parallel: bool = False) -> Function:
    numba = _compiler()
    if parallel:
        function.__globals__["prange"] = numba.prange
    previous, numba.config.CACHE_DIR = numba.config.CACHE_DIR, FOLDER
    try:
        return cast("Function", numba.njit(cache=bool(FOLDER), error_model="numpy", parallel=parallel)(function))
    finally:
        numba.config.CACHE_DIR = previous


@functools.cache
def _compiler() -> Any:
    import numba  # noqa: PLC0415  # takes a quarter of a second

    # Numba obeys a file .numba_config.yaml in the working folder, which may name a cache: code that would be executed.
    config: Any = numba.config
    config._config_fname = ""  # noqa: SLF001  # there is no other way
    config.reload_config()
    return numba
