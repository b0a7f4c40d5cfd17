"""Arguments of the Python functions: a value that no call can work with is refused before anything starts.

An argument of one name means the same in every function, so one table says what each must be.
"""

__all__ = [
    "CHECKS",
    "Check",
    "checked",
    "class_problem",
    "flag_problem",
    "given_path",
    "path_or_none",
    "path_problem",
    "refuse_other",
    "text_problem",
    "texts_problem",
]

import errno
import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from types import MappingProxyType
from typing import ParamSpec, TypeVar, cast

from fedfloor.errors import (
    ArgumentError,
    DataError,
    DeploymentError,
    FedfloorError,
    ModelError,
    PolicyError,
    ProfileError,
    RunLogError,
    ScenarioError,
    advice_for,
    shown,
)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_LARGEST = 2**63  #: beyond it no number of rounds, samples or seeds makes sense, and Python may refuse to print it


@dataclass(frozen=True, slots=True)
class Check:
    """What an argument must be."""

    problem: Callable[[object], str]  #: what is wrong with a value; empty if nothing is
    error: type[FedfloorError] = FedfloorError  #: what is raised then


def checked(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The function, which now refuses arguments of the wrong type by the names that `CHECKS` lists.

    An argument may be None if that is its default. For a name that is no argument, the nearest one is suggested.
    """
    signature = inspect.signature(function)
    label = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def call(*positional: Parameters.args, **named: Parameters.kwargs) -> Result:
        try:
            arguments = signature.bind(*positional, **named).arguments
        except TypeError as error:
            raise ArgumentError(f"{label}: {_call_problem(signature, named, str(error))}") from None
        for name, value in arguments.items():
            check = CHECKS.get(name)
            is_absent = value is None and signature.parameters[name].default is None
            if check is not None and not is_absent and (problem := check.problem(value)):
                raise check.error(f"{name}: {problem}")
        return function(*positional, **named)

    return call


def _call_problem(signature: inspect.Signature, named: Mapping[str, object], reason: str) -> str:
    """What is wrong with a call that does not fit a signature."""
    names = [name for name in signature.parameters if name != "self"]
    unknown = next((name for name in named if name not in names), None)
    return reason if unknown is None else f"has no argument {shown(unknown)}. {advice_for(unknown, names)}"


def refuse_other(name: str, value: object, kind: type[object], source: str) -> None:
    """Refuse an argument that is not an object of a class of ours; `source` says where one comes from."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise FedfloorError(f"{name}: must be {article} {kind.__name__}, got {shown(value)}. {source}")


def text_problem(value: object, must: str = "a string") -> str:
    """What is wrong with a value that must be text; empty if nothing is, as in the functions below."""
    return "" if isinstance(value, str) else f"must be {must}, got {shown(value)}"


def flag_problem(value: object) -> str:
    """What is wrong with a switch; a text such as "no" would count as true."""
    return "" if isinstance(value, bool) else f"must be True or False, got {shown(value)}"


def class_problem(value: type[object]) -> str:
    """What is wrong with a class where an object of it is needed."""
    return f"is the class {value.__name__}, not an object of it. Write {value.__name__}()"


def _policy(value: object) -> str:
    if isinstance(value, type) and callable(getattr(value, "schedule", None)):
        return class_problem(value)
    if isinstance(value, str) or callable(getattr(value, "schedule", None)):
        return ""
    return f"must be NAME[:key=value,...] or an object with schedule(state), got {shown(value)}"


def _policies(value: object) -> str:
    if isinstance(value, str) or not isinstance(value, Sequence):
        write = f". Write [{shown(value)}]" if not _policy(value) else ""
        return f"must be a list of policies, got {'a string' if isinstance(value, str) else shown(value)}{write}"
    return next(filter(None, map(_policy, value)), "")


def _function(value: object) -> str:
    return "" if callable(value) else f"must be a function, got {shown(value)}"


def _whole(value: object, least: int = -_LARGEST, most: int = _LARGEST) -> str:
    if not isinstance(value, bool) and isinstance(value, Integral) and least <= int(value) <= most:
        return ""
    limits = f" from {least:,} to {most:,}" if most < _LARGEST else ""
    return f"must be a whole number{limits}, got {shown(value)}"


def _samples(value: object) -> str:
    return _whole(value, least=1, most=10**9)


def _port(value: object) -> str:
    return _whole(value, least=0, most=65_535)


def _seconds(value: object) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return "" if is_number and cast("float", value) > 0 else f"must be a number of seconds > 0, got {shown(value)}"


def _batches(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes) and not any(map(_samples, value)):
        return ""
    return f"must be a list of whole numbers from 1 to 1,000,000,000, got {shown(value)}"


def _frequency(value: object) -> str:
    number = value if isinstance(value, float) else 0 if _whole(value) else int(cast("Integral", value))
    return "" if 0 < number < _LARGEST else f"must be a number of hertz > 0, got {shown(value)}"


def _paths(value: object) -> str:
    if isinstance(value, str) or not isinstance(value, Sequence):
        return f"must be a list of paths, got {shown(value)}"
    return next(filter(None, map(path_problem, value)), "")


def texts_problem(value: object, must: str = "a list of names") -> str:
    """What is wrong with a list of texts; a single text is one by mistake."""
    if isinstance(value, str):
        return f"must be {must}, got a string. Write [{shown(value)}]"
    if isinstance(value, Sequence) and all(isinstance(entry, str) for entry in value):
        return ""
    return f"must be {must}, got {shown(value)}"


def path_problem(value: object) -> str:
    """What is wrong with a path on every file system; whoever reads or writes the file says more about it."""
    if not isinstance(value, str | Path):
        return f"must be a string or a Path, got {shown(value)}"
    try:
        os.lstat(value)
    except (ValueError, OSError) as error:  # a character that no name may have, or too many of them
        if isinstance(error, ValueError) or error.errno == errno.ENAMETOOLONG:
            reason = error.strerror if isinstance(error, OSError) else error
            return f"must be a path that can exist, got {shown(str(value))}: {reason!s:.100}"
    return ""


def given_path(name: str, path: str | Path) -> Path:
    """The path that an argument names, which may be something else than a path in other calls."""
    problem = path_problem(path)
    if problem:
        raise RunLogError(f"{name}: {problem}")
    return Path(path)


def path_or_none(path: str | Path | None) -> Path | None:
    """The path of an argument that may be left out."""
    return None if path is None else Path(path)


_TARGET = Check(path_problem, RunLogError)
_COUNT = Check(_whole, ScenarioError)
_ROUND = Check(_whole, RunLogError)
_FLAG = Check(flag_problem)
_FUNCTION = Check(_function)
_METRIC = Check(functools.partial(text_problem, must="the name of a metric"))

#: name of an argument -> what it must be; arguments that are not listed are checked by the functions that take them
CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "policy": Check(_policy, PolicyError),
        "policies": Check(_policies, PolicyError),
        "overrides": Check(functools.partial(texts_problem, must="a list of section.key=value"), ScenarioError),
        "rounds": _COUNT,
        "seed": _COUNT,
        "round": _ROUND,
        "index": _ROUND,
        "batch": Check(_samples, ModelError),
        "batches": Check(_batches, ProfileError),
        "frequency": Check(_frequency, ProfileError),
        "power": Check(functools.partial(text_problem, must="watts as text, a file or 'rapl'"), ProfileError),
        "profiles": Check(_paths, ProfileError),
        "preset": Check(functools.partial(text_problem, must="the name of a preset"), ScenarioError),
        "own": _FLAG,
        "resume": _FLAG,
        "training": _FLAG,
        "pdf": _FLAG,
        "progress": _FLAG,
        "num_rounds": Check(functools.partial(_whole, least=1, most=10**9), ScenarioError),
        "timeout": Check(_seconds),
        "evaluate_fn": _FUNCTION,
        "train_loss_key": _METRIC,
        "accuracy_key": _METRIC,
        "loss_key": _METRIC,
        "check_replies": _FLAG,
        "name": Check(text_problem, DataError),
        "model": Check(text_problem, ModelError),
        "shape": Check(functools.partial(text_problem, must="text such as '3,32,32'"), ModelError),
        "costs": Check(text_problem, ModelError),
        "solver": Check(functools.partial(text_problem, must="the name of a solver"), PolicyError),
        "per": Check(functools.partial(text_problem, must="round, gateway or device"), RunLogError),
        "path": Check(path_problem, ModelError),
        "folder": Check(path_problem, RunLogError),
        "out": _TARGET,
        "csv": _TARGET,
        "export": _TARGET,
        "data_dir": Check(path_problem, DataError),
        "role": Check(functools.partial(text_problem, must="server, gateway or device"), DeploymentError),
        "hosts": Check(functools.partial(texts_problem, must="a list of hosts"), DeploymentError),
        "days": Check(_whole, DeploymentError),
        "ca_days": Check(_whole, DeploymentError),
        "serial": Check(functools.partial(text_problem, must="hexadecimal digits as text"), DeploymentError),
        "same_key": _FLAG,
        "host": Check(functools.partial(text_problem, must="an address or a name of this machine")),
        "port": Check(_port),
        "token": _FLAG,
        "on_ready": _FUNCTION,
        "on_listening": _FUNCTION,
        "on_round": _FUNCTION,
        "on_event": _FUNCTION,
        "on_step": _FUNCTION,
        "on_plan": _FUNCTION,
        "on_progress": _FUNCTION,
    }
)
