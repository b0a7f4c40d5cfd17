"""How numeric loops are compiled: ahead of their first use, kept on disk for the next process."""

__all__ = ["compiled", "compiled_parallel"]

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """A function for one core; division by zero gives inf, as in NumPy."""
    return cast("Function", njit(cache=True, error_model="numpy")(function))


def compiled_parallel(function: Function) -> Function:
    """A function whose `prange` loops use all cores."""
    return cast("Function", njit(cache=True, error_model="numpy", parallel=True)(function))
