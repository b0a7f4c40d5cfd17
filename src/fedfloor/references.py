"""Code that users supply as `package.module:name`: how it is loaded and set up, what it keeps, where it failed."""

__all__ = [
    "asked",
    "check_choice",
    "check_setting",
    "different_attribute",
    "find_reference",
    "in_declared_types",
    "is_foreign",
    "is_users",
    "made",
    "make_own",
    "own_class",
    "where_raised",
]

import importlib
import pickle
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass
from importlib.machinery import PathFinder
from importlib.util import find_spec
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from fedfloor.errors import FedfloorError, SettingError, advice_for, shown

Answer = TypeVar("Answer")


def find_reference(reference: str, label: str, kind: type[FedfloorError]) -> Any:
    """Load the object that `package.module:name` refers to; any failure raises an error of the class `kind`.

    The working folder is searched last, so that no file there takes the place of a library.
    """
    module_name, _, name = reference.partition(":")
    if not module_name or not name or module_name.startswith("."):
        raise kind(f"{label}: must be package.module:name, got {shown(reference)}")
    try:
        _search_working_folder(module_name.partition(".")[0])
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        advice = "Check that it is in the working folder or on PYTHONPATH"
        raise kind(f"{label}: cannot import {shown(module_name)}: {error!s:.300}. {advice}") from None
    except (Exception, SystemExit) as error:  # the user's module may raise anything
        raise kind(f"{label}: importing {shown(module_name)} failed: {where_raised(error)}") from error
    if not hasattr(module, name):
        advice = advice_for(name, [key for key in vars(module) if not key.startswith("_")])
        raise kind(f"{label}: {shown(module_name)} has no {shown(name)}. {advice}")
    return getattr(module, name)


def own_class(reference: str, label: str, kind: type[FedfloorError], methods: Iterable[str], *, page: str) -> type[Any]:
    """The user's class `package.module:Class`, which must have some methods; `page` describes them.

    Any failure raises an error of the class `kind`.
    """
    own: Any = find_reference(reference, label, kind)
    if not isinstance(own, type):
        raise kind(f"{label}: is a {type(own).__name__}, not a class. Name a class; see {page}")
    missing = [method for method in methods if not callable(getattr(own, method, None))]
    if missing:
        raise kind(f"{label}: has no method {missing[0]}(). Add it; see {page}")
    return own


def made(own: type[Any], settings: Mapping[str, object], label: str, kind: type[FedfloorError], *, page: str) -> Any:
    """Make an object of a class with settings, which are the fields of a dataclass; a failure raises a `kind`.

    `page` describes the settings.
    """
    if is_dataclass(own):
        names = [entry.name for entry in fields(own) if entry.init]
        for key in settings:
            if key not in names:
                advice = advice_for(key, names) if names else "It has no settings."
                raise kind(f"{label}: unknown setting {shown(key)}. {advice}")
    try:
        return own(**in_declared_types(own, settings))
    except (Exception, SystemExit) as error:  # the user's class may raise anything
        if isinstance(error, TypeError | ValueError) and not is_users(error):
            raise kind(f"{label}: {error}. See {page}") from None
        raise kind(f"{label}: creating it failed: {where_raised(error)}") from error


def is_foreign(own: type[object]) -> bool:
    """Whether a class is the user's and not one of this package."""
    return own.__module__.partition(".")[0] != __name__.partition(".")[0]


def in_declared_types(own: type[Any], settings: Mapping[str, object]) -> dict[str, Any]:
    """Settings in the types that a user's class declares for them: 2 becomes 2.0 for a float, and "2" for a text.

    A value that does not fit raises a ValueError. Settings without a type, and with others than bool, int, float, str,
    Literal and unions of them, stay as they are. Classes of this package check their settings themselves.
    """
    if not is_foreign(own):
        return dict(settings)
    try:
        hints = get_type_hints(own.__init__)
    except Exception:  # annotations of users may name anything
        return dict(settings)
    return {key: _in_type(key, value, hints[key]) if key in hints else value for key, value in settings.items()}


#: type of a setting -> what its values are called
_CALLED = {float: "a number", int: "a whole number", bool: "true or false", str: "a text"}


def _in_type(name: str, value: object, hint: Any) -> object:
    """A setting in the type of its hint."""
    choices = [part for part in _choices(hint) if part is not NoneType]
    if any(part not in _CALLED and get_origin(part) is not Literal for part in choices):
        return value
    if type(value) in choices or any(value in get_args(part) for part in choices if part not in _CALLED):
        return value
    if float in choices and type(value) is int:
        return float(value)
    if str in choices and isinstance(value, bool | int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    names = [_CALLED[part] if part in _CALLED else " or ".join(map(repr, get_args(part))) for part in choices]
    raise ValueError(f"{name} must be {' or '.join(names)}, got {shown(value)}")


def _choices(hint: Any) -> tuple[Any, ...]:
    """The members of a union; a type that is no union is its only member."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def check_setting(name: str, value: object, least: float, most: float, *, whole: bool = False) -> None:
    """Raise a SettingError unless a setting of a class is a number from `least` to `most`; see `made`."""
    is_number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:  # type: ignore[operator]
        kind = "a whole number" if whole else "a number"
        raise SettingError(f"{name} must be {kind} from {least:g} to {most:g}, got {shown(value)}")


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Raise a SettingError unless a setting is one of several texts."""
    if not isinstance(value, str) or value not in choices:
        *others, last = choices
        raise SettingError(f"{name} must be {', '.join(others)} or {last}, got {shown(value)}")


def make_own(reference: str, label: str, kind: type[FedfloorError], methods: Iterable[str], *, page: str) -> Any:
    """Make an object of the user's class `package.module:Class`; see `own_class` and `made`."""
    return made(own_class(reference, label, kind, methods, page=page), {}, label, kind, page=page)


def asked(question: Callable[[], Answer], label: str, kind: type[FedfloorError]) -> Answer:
    """What the user's code answers; if it fails, an error of the class `kind` names the line that raised it."""
    try:
        return question()
    except (FedfloorError, KeyboardInterrupt):
        raise
    except BaseException as error:  # the code is the user's and may do anything
        raise kind(f"{label}: {where_raised(error)}") from error


def different_attribute(one: object, other: object) -> str:
    """Name of an attribute in which two objects of a class differ; empty if there is none."""
    ours, theirs = _attributes(one), _attributes(other)
    return next((key for key in {**ours, **theirs} if not _alike(ours.get(key), theirs.get(key))), "")


def _attributes(thing: object) -> dict[str, object]:
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    return {**{name: getattr(thing, name, None) for name in slots}, **getattr(thing, "__dict__", {})}


def _alike(one: object, other: object) -> bool:
    """Whether two attributes are equal, or look the same when they are stored."""
    try:
        if one is other or bool(one == other):
            return True
    except Exception:  # noqa: S110  # attributes of users may be anything, arrays too
        pass
    try:
        return pickle.dumps(one) == pickle.dumps(other)
    except Exception:  # not everything can be stored
        return False


def _search_working_folder(package: str) -> None:
    """Let imports search the working folder too, after everything else, if the package is only there."""
    if package in sys.modules or find_spec(package) is not None:
        return
    if PathFinder.find_spec(package, [""]) is not None:
        sys.path.append(str(Path.cwd()))


def _is_library(file: str) -> bool:
    return file.startswith(("<", str(Path(__file__).parent), sys.prefix, sys.base_prefix)) or "site-packages" in file


def is_users(error: BaseException) -> bool:
    """Whether an exception passed through the user's own code."""
    return any(not _is_library(frame.filename) for frame in traceback.extract_tb(error.__traceback__))


def where_raised(error: BaseException) -> str:
    """Describe an exception in one line: its type, its message, and the file and line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    own_frames = [frame for frame in frames if not _is_library(frame.filename)] or frames
    place = f" ({own_frames[-1].filename}, line {own_frames[-1].lineno})" if own_frames else ""
    try:
        message = str(error)
    except Exception:  # the user's exception class may fail here too
        message = "no message"
    return f"{type(error).__name__}: {message}{place}"
