"""What a user brings along: `package.module:name` -> the object."""

__all__ = ["find_reference", "is_users", "where_raised"]

import importlib
import sys
import traceback
from pathlib import Path
from typing import Any

from fedfloor.errors import FedfloorError, advice_for


def find_reference(reference: str, label: str, kind: type[FedfloorError]) -> Any:
    """The object that `package.module:name` refers to; whatever goes wrong on the way raises `kind`."""
    module_name, _, name = reference.partition(":")
    if not module_name or not name or module_name.startswith("."):
        raise kind(f"{label}: must be package.module:name")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise kind(f"{label}: cannot import '{module_name}': {error}. Is it on PYTHONPATH?") from None
    except (Exception, SystemExit) as error:  # the module is the user's and may do anything
        raise kind(f"{label}: importing '{module_name}' failed: {where_raised(error)}") from error
    if not hasattr(module, name):
        advice = advice_for(name, [key for key in vars(module) if not key.startswith("_")])
        raise kind(f"{label}: '{module_name}' has no '{name}'. {advice}")
    return getattr(module, name)


def _is_library(file: str) -> bool:
    return file.startswith(("<", str(Path(__file__).parent), sys.prefix, sys.base_prefix)) or "site-packages" in file


def is_users(error: BaseException) -> bool:
    """Whether an exception passed a line of the user's own."""
    return any(not _is_library(frame.filename) for frame in traceback.extract_tb(error.__traceback__))


def where_raised(error: BaseException) -> str:
    """An exception in one line: its type, its words and the line it comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _is_library(frame.filename)] or frames
    place = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    try:
        words = str(error)
    except Exception:  # the exception is the user's too
        words = "no message"
    return f"{type(error).__name__}: {words}{place}"
