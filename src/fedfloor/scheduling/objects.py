"""Policies that are given as Python objects: what they are called in logs and folders, and how they are made again."""

__all__ = ["NamedPolicy", "PolicySource", "make_again", "name_policy"]

import inspect
import sys
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeAlias

import numpy as np

from fedfloor.errors import PolicyError, shown
from fedfloor.references import asked, different_attribute, made
from fedfloor.scheduling.registry import PAGE, UNNAMED, PolicySpec, Setting, make_policy, name_of_class
from fedfloor.scheduling.state import Scheduler

#: `NAME[:key=value,...]`, or an object with the method `schedule`
PolicySource: TypeAlias = str | Scheduler


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """The name of a policy object, and whether another one can be made from it."""

    spec: PolicySpec
    unnamed: str = ""  #: why none can, and what to do about it; empty if one can


def name_policy(policy: Scheduler) -> NamedPolicy:
    """Name and settings of a policy object, as if it had been given as text.

    An object whose class cannot be found by its name, or that differs from a new object with the same settings, is
    named after its class alone.
    """
    label = f"policy {type(policy).__name__}: its settings cannot be read"
    settings, unwritten = asked(lambda: _settings_of(policy), label, PolicyError)
    unnamed = _unfindable(type(policy)) or unwritten
    if not unnamed:
        try:
            spec, again = make_policy(PolicySpec(name_of_class(type(policy)), settings))
        except PolicyError as error:
            unnamed = f"no other object can be made with its settings: {error}"
        else:
            different = different_attribute(policy, again)
            if not different:
                return NamedPolicy(spec)
            unnamed = f"its attribute {shown(different)} is not that of a new object with the same settings"
    return NamedPolicy(PolicySpec(f"{type(policy).__name__}{UNNAMED}", settings), unnamed)


def make_again(spec: PolicySpec, policy: Scheduler) -> Scheduler:
    """A new object like a policy, whose spec is complete.

    A class of `__main__` is taken from the object, because other processes do not find it by its name.
    """
    if not spec.name.startswith("__main__:"):
        return make_policy(spec)[1]
    again: Scheduler = made(type(policy), dict(spec.settings), f"policy {shown(str(spec))}", PolicyError, page=PAGE)
    return again


def _unfindable(kind: type[object]) -> str:
    """Why a class cannot be found by its name; empty if it can."""
    if "." in kind.__qualname__:
        return "its class is defined inside a function or a class. Move the class to the top of a module"
    if getattr(sys.modules.get(kind.__module__), kind.__name__, None) is not kind:
        return f"{kind.__module__}:{kind.__name__} is now another class. Make the object again"
    return ""


def _settings_of(policy: Scheduler) -> tuple[tuple[tuple[str, Setting], ...], str]:
    """The settings of a policy object that can be written as text, and what is wrong with the others."""
    settings, problem = list[tuple[str, Setting]](), ""
    for name in _setting_names(policy):
        if not hasattr(policy, name):
            problem = f"its argument {shown(name)} is not kept as an attribute of that name. Keep it"
            continue
        value = getattr(policy, name)
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, Setting):
            settings.append((name, value))
        elif value is not None:  # a new object shows whether None is the default
            advice = "Use numbers, texts, True and False as settings"
            problem = (
                f"its setting {shown(name)} is a {type(value).__name__}, which cannot be written as text. {advice}"
            )
    return tuple(settings), problem


def _setting_names(policy: Scheduler) -> list[str]:
    """Fields of a dataclass, or the arguments of `__init__`."""
    kind: type[Any] = type(policy)
    if is_dataclass(kind):
        return [entry.name for entry in fields(kind) if entry.init]
    parameters = inspect.signature(kind).parameters.values()
    return [entry.name for entry in parameters if entry.kind not in (entry.VAR_POSITIONAL, entry.VAR_KEYWORD)]
