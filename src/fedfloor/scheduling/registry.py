"""Policies by name: `random`, `ddsra:v=1000`, `package.module:Class`, or the entry point group `fedfloor.policies`."""

__all__ = [
    "PolicySpec",
    "make_policy",
    "parse_policy",
    "policy_summaries",
    "short_name",
    "solver_of",
    "tradeoff_of_spec",
    "with_settings",
]

import re
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, fields, is_dataclass
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any

from fedfloor.errors import PolicyError, advice_for
from fedfloor.references import find_reference, where_raised
from fedfloor.scheduling import policies
from fedfloor.scheduling.state import Scheduler
from fedfloor.scheduling.traits import PolicyKind, kind_of

#: policies of this package: the name is that of the module, the class is the first of its public names
_BUILT_IN = MappingProxyType(
    {module.name: f"{policies.__name__}.{module.name}" for module in iter_modules(policies.__path__)}
)
_GROUP = "fedfloor.policies"

Setting = bool | int | float | str


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """A policy's name with its settings, as written on the command line."""

    name: str
    settings: tuple[tuple[str, Setting], ...] = ()

    def __str__(self) -> str:
        given = ",".join(f"{key}={_shown(value)}" for key, value in self.settings)
        return f"{self.name}:{given}" if given else self.name

    @property
    def slug(self) -> str:
        """Name for folders: `ddsra-v1000-exact`."""
        words = [f"{key}{_shown(value)}" if not isinstance(value, str) else value for key, value in self.settings]
        return re.sub(r"[^A-Za-z0-9._-]+", "_", "-".join([self.name.replace(":", "."), *words]))


def parse_policy(text: str) -> PolicySpec:
    """`NAME[:key=value,...]`, where NAME may itself be `package.module:Class`."""
    head, _, rest = text.partition(":")
    attribute, _, more = rest.partition(":")
    if head not in _known() and attribute and "=" not in attribute:
        head, rest = f"{head}:{attribute}", more
    settings: list[tuple[str, Setting]] = []
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise PolicyError(f"policy '{text}': settings are key=value with commas between, got '{part}'")
        if key.strip() in dict(settings):
            raise PolicyError(f"policy '{text}': '{key.strip()}' is given twice. Leave one out")
        settings.append((key.strip(), _value(value.strip())))
    return PolicySpec(head, tuple(settings))


def make_policy(spec: PolicySpec) -> tuple[PolicySpec, Scheduler]:
    """The policy, and its spec with every setting filled in."""
    kind = _load(spec.name)
    known = {entry.name: entry for entry in fields(kind)} if is_dataclass(kind) else {}
    for key, _ in spec.settings:
        if is_dataclass(kind) and key not in known:
            advice = advice_for(key, known) if known else "It has no settings."
            raise PolicyError(f"policy '{spec}': unknown setting '{key}'. {advice}")
    try:
        policy = kind(**dict(spec.settings))
    except (TypeError, ValueError) as error:
        raise PolicyError(f"policy '{spec}': {error}") from None
    except (Exception, SystemExit) as error:  # the class is the user's and may do anything
        raise PolicyError(f"policy '{spec}': making it failed: {where_raised(error)}") from error
    if not callable(getattr(policy, "schedule", None)):
        raise PolicyError(f"policy '{spec}': {kind.__name__} has no method schedule(state). See docs/policies.md")
    return PolicySpec(spec.name, _filled(spec, known.values(), policy)), policy


def with_settings(spec: PolicySpec, *, tradeoff: float, solver: str | None) -> PolicySpec:
    """The policy with V where it takes one and none is given, and with the named solver.

    Raises a `PolicyError` if a solver is named and the policy has none, or names one itself.
    """
    kind, settings = kind_of(_load(spec.name)), dict(spec.settings)
    if kind.tradeoff_setting is not None:
        settings.setdefault(kind.tradeoff_setting, tradeoff)
    if solver is not None:
        if kind.solver_setting is None:
            raise PolicyError(f"--solver {solver}: the policy '{spec}' has no solver to choose. Leave the option out")
        settings[kind.solver_setting] = solver
    return PolicySpec(spec.name, tuple(settings.items()))


def tradeoff_of_spec(spec: PolicySpec) -> float | None:
    """V of a policy of this package as its name gives it; None without one, and for policies of others."""
    value = _setting(spec, _known_kind(spec).tradeoff_setting)
    return float(value) if isinstance(value, int | float) else None


def solver_of(spec: PolicySpec) -> str | None:
    """Solver of a policy of this package as its name gives it; None without one, and for policies of others."""
    value = _setting(spec, _known_kind(spec).solver_setting)
    return value if isinstance(value, str) else None


def _known_kind(spec: PolicySpec) -> PolicyKind:
    """What the class tells; code that only a log names is not loaded for it."""
    return kind_of(_load(spec.name)) if spec.name in _BUILT_IN else PolicyKind()


def _setting(spec: PolicySpec, key: str | None) -> Setting | None:
    return None if key is None else dict(spec.settings).get(key)


def short_name(spec: PolicySpec) -> str:
    """A policy with the settings that are not its defaults."""
    kind = _load(spec.name)
    usual = {entry.name: entry.default for entry in fields(kind)} if is_dataclass(kind) else {}
    return str(PolicySpec(spec.name, tuple(pair for pair in spec.settings if usual.get(pair[0]) != pair[1])))


def _filled(spec: PolicySpec, entries: Iterable[Field[Any]], policy: object) -> tuple[tuple[str, Setting], ...]:
    """Every setting that can be written down, given or not."""
    found = tuple((entry.name, getattr(policy, entry.name)) for entry in entries if entry.init)
    return tuple((key, value) for key, value in found if isinstance(value, Setting)) or spec.settings


def policy_summaries() -> Mapping[str, str]:
    """Every policy that can be named, with one line each."""
    summaries = {}
    for name in _known():
        try:
            summaries[name] = (_load(name).__doc__ or "no description").strip().splitlines()[0]
        except PolicyError as error:
            summaries[name] = f"broken: {error}"
    return summaries


def _known() -> dict[str, str]:
    installed = {entry.name: entry.value for entry in entry_points(group=_GROUP)}
    return {**installed, **_BUILT_IN}


def _load(name: str) -> type[Any]:
    known = _known()
    if name not in known and ":" not in name:
        raise PolicyError(f"policy '{name}': unknown. {advice_for(name, known)}")
    if name in _BUILT_IN:
        module = import_module(_BUILT_IN[name])
        built_in: type[Any] = getattr(module, module.__all__[0])
        return built_in
    found = find_reference(known.get(name, name), f"policy '{name}'", PolicyError)
    if not isinstance(found, type):
        raise PolicyError(
            f"policy '{name}': is a {type(found).__name__}, not a class. Name a class with schedule(state)"
        )
    return found


def _value(text: str) -> Setting:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _shown(value: Setting) -> str:
    """A setting as it is written; floats keep every digit, so that a log repeats its run."""
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return str(value).lower() if isinstance(value, bool) else str(value)
