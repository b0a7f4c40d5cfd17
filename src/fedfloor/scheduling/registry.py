"""Policies by name: `random`, `ddsra:v=1000`, `package.module:Class`, or the entry point group `fedfloor.policies`."""

__all__ = [
    "PolicySpec",
    "make_policy",
    "may_keep_state",
    "name_now",
    "parse_policy",
    "policy_summaries",
    "short_name",
    "solver_of",
    "tradeoff_of_spec",
    "with_settings",
    "with_tradeoff_of",
]

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import Field, dataclass, fields, is_dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any, Self

from fedfloor.errors import PolicyError, advice_for, shown
from fedfloor.references import find_reference, in_declared_types, where_raised
from fedfloor.scenario.file import Policy
from fedfloor.scheduling import policies
from fedfloor.scheduling.allocating import Selecting
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
    """A policy's name with its settings, as written on the command line.

    As text and in folder names, the policies of this package that only select floors leave out defaults.
    """

    name: str
    settings: tuple[tuple[str, Setting], ...] = ()

    @classmethod
    def of(cls, policy: Policy) -> Self:
        """The policy of a scenario."""
        return cls(policy.name, tuple(policy.settings.items()))

    def __str__(self) -> str:
        settings = ",".join(f"{key}={_text(value)}" for key, value in _named_settings(self))
        return f"{self.name}:{settings}" if settings else self.name

    @property
    def slug(self) -> str:
        """Name of the policy in folder names: `ddsra-v1000-exact`."""
        return _slug(self.name, _named_settings(self))

    @property
    def long_slug(self) -> str:
        """Name of the policy in folder names of older versions, with every setting."""
        return _slug(self.name, self.settings)


def parse_policy(text: str) -> PolicySpec:
    """Parse `NAME[:key=value,...]`, where NAME may itself be `package.module:Class`."""
    head, _, rest = text.partition(":")
    attribute, _, more = rest.partition(":")
    if head not in _references() and attribute and "=" not in attribute:
        head, rest = f"{head}:{attribute}", more
    settings: list[tuple[str, Setting]] = []
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals or not key.strip() or not value.strip():
            problem = f"settings are key=value pairs separated by commas, got {shown(part)}"
            raise PolicyError(f"policy {shown(text)}: {problem}")
        if key.strip() in dict(settings):
            raise PolicyError(f"policy {shown(text)}: {shown(key.strip())} is given twice. Remove one of the two")
        settings.append((key.strip(), _value(value.strip())))
    return PolicySpec(head, tuple(settings))


@lru_cache  # parsing looks through all installed packages every time
def name_now(logged: str) -> str:
    """The name that a logged policy of this package has now: older logs spell out defaults that are now left out."""
    if logged.partition(":")[0] not in _BUILT_IN:
        return logged
    try:
        return str(parse_policy(logged))
    except PolicyError:
        return logged


def make_policy(spec: PolicySpec) -> tuple[PolicySpec, Scheduler]:
    """Create a policy; returns its spec with every setting filled in, and the policy."""
    kind = _load(spec.name)
    entries = {entry.name: entry for entry in fields(kind)} if is_dataclass(kind) else {}
    for key, _ in spec.settings:
        if is_dataclass(kind) and key not in entries:
            advice = advice_for(key, entries) if entries else "The policy has no settings."
            raise PolicyError(f"policy {shown(str(spec))}: unknown setting {shown(key)}. {advice}")
    try:
        settings = in_declared_types(kind, dict(spec.settings))
        policy = kind(**settings)
    except (TypeError, ValueError) as error:
        raise PolicyError(f"policy {shown(str(spec))}: {error}") from None
    except (Exception, SystemExit) as error:  # the user's class may raise anything
        raise PolicyError(f"policy {shown(str(spec))}: creating it failed: {where_raised(error)}") from error
    return PolicySpec(spec.name, _all_settings(spec, entries.values(), policy, settings)), policy


def may_keep_state(spec: PolicySpec) -> bool:
    """Whether objects of the policy might keep something between rounds; those of this package cannot."""
    return spec.name not in _BUILT_IN


def with_settings(spec: PolicySpec, *, tradeoff: float, solver: str | None) -> PolicySpec:
    """Fill in V if the policy takes V and the spec does not give it; set the solver if one is named.

    Raises a `PolicyError` if a solver is named and the policy has none.
    """
    kind, settings = kind_of(_load(spec.name)), dict(spec.settings)
    if kind.tradeoff_setting is not None:
        settings.setdefault(kind.tradeoff_setting, tradeoff)
    if solver is not None:
        if kind.solver_setting is None:
            problem = f"the policy {shown(str(spec))} has no solver to choose"
            raise PolicyError(f"--solver {solver}: {problem}. Leave the option out")
        settings[kind.solver_setting] = solver
    return PolicySpec(spec.name, tuple(settings.items()))


def with_tradeoff_of(spec: PolicySpec, own: PolicySpec) -> PolicySpec:
    """Fill in V from a scenario's own policy if that is the same policy and the spec does not give V."""
    if spec.name != own.name:
        return spec
    key, settings = kind_of(_load(spec.name)).tradeoff_setting, dict(own.settings)
    if key is None or key not in settings or key in dict(spec.settings):
        return spec
    return PolicySpec(spec.name, ((key, settings[key]), *spec.settings))


def tradeoff_of_spec(spec: PolicySpec) -> float | None:
    """V as the spec of a built-in policy gives it; None if it gives none, and for every other policy."""
    value = _setting(spec, _built_in_kind(spec).tradeoff_setting)
    return float(value) if isinstance(value, int | float) else None


def solver_of(spec: PolicySpec) -> str | None:
    """Solver as the spec of a built-in policy gives it; None if it gives none, and for every other policy."""
    value = _setting(spec, _built_in_kind(spec).solver_setting)
    return value if isinstance(value, str) else None


def _built_in_kind(spec: PolicySpec) -> PolicyKind:
    """Traits of a built-in policy; others get the defaults, because reading a log must not import the code it names."""
    return kind_of(_load(spec.name)) if spec.name in _BUILT_IN else PolicyKind()


def _setting(spec: PolicySpec, key: str | None) -> Setting | None:
    return None if key is None else dict(spec.settings).get(key)


def short_name(spec: PolicySpec) -> str:
    """Name of a policy with only those settings that differ from its defaults."""
    return str(PolicySpec(spec.name, _without_defaults(spec, _load(spec.name))))


def _named_settings(spec: PolicySpec) -> tuple[tuple[str, Setting], ...]:
    """The settings that are part of a policy's name."""
    if spec.name not in _BUILT_IN or not issubclass(kind := _load(spec.name), Selecting):
        return spec.settings
    return _without_defaults(spec, kind)


def _without_defaults(spec: PolicySpec, kind: type[Any]) -> tuple[tuple[str, Setting], ...]:
    defaults = {entry.name: entry.default for entry in fields(kind)} if is_dataclass(kind) else {}
    return tuple(pair for pair in spec.settings if defaults.get(pair[0]) != pair[1])


def _slug(name: str, settings: Iterable[tuple[str, Setting]]) -> str:
    words = [f"{key}{_text(value)}" if not isinstance(value, str) else value for key, value in settings]
    return re.sub(r"[^A-Za-z0-9._-]+", "_", "-".join([name.replace(":", "."), *words]))


def _all_settings(
    spec: PolicySpec, entries: Collection[Field[Any]], policy: object, converted: Mapping[str, object]
) -> tuple[tuple[str, Setting], ...]:
    """All settings that can be written as text, whether the spec gives them or not.

    A setting that was converted to the type of its field stays as it was given, so that run folders stay the same.
    A setting whose field is marked `unwritten` is left out if it has its default, as if it did not exist.
    """
    defaults = {entry.name: entry.default for entry in entries if entry.metadata.get("unwritten")}
    values = [(entry.name, getattr(policy, entry.name)) for entry in entries if entry.init]
    given = {key: value for key, value in spec.settings if _is_same(getattr(policy, key, None), converted[key])}
    values = [(key, given.get(key, value)) for key, value in values]
    written = [(key, value) for key, value in values if isinstance(value, Setting)] or spec.settings
    return tuple((key, value) for key, value in written if key not in defaults or defaults[key] != value)


def _is_same(value: object, other: object) -> bool:
    """Whether a policy has kept a setting; types first, because values may be arrays, for example."""
    return type(value) is type(other) and value == other


def policy_summaries() -> Mapping[str, str]:
    """Name of every available policy -> its description in one line."""
    summaries = {}
    for name in _references():
        try:
            summaries[name] = (_load(name).__doc__ or "no description").strip().splitlines()[0]
        except PolicyError as error:
            summaries[name] = f"broken: {error}"
    return summaries


def _references() -> dict[str, str]:
    """Name of every available policy -> `package.module:Class`."""
    installed = {entry.name: entry.value for entry in entry_points(group=_GROUP)}
    return {**installed, **_BUILT_IN}


def _load(name: str) -> type[Any]:
    if name in _BUILT_IN:
        module = import_module(_BUILT_IN[name])
        built_in: type[Any] = getattr(module, module.__all__[0])
        return built_in
    references = _references()
    if name not in references and ":" not in name:
        raise PolicyError(f"policy {shown(name)}: unknown. {advice_for(name, references)}")
    policy_class = find_reference(references.get(name, name), f"policy {shown(name)}", PolicyError)
    if not isinstance(policy_class, type):
        problem = f"is a {type(policy_class).__name__}, not a class"
        raise PolicyError(f"policy {shown(name)}: {problem}. Name a class with schedule(state)")
    if not callable(getattr(policy_class, "schedule", None)):  # before any object of it is made
        problem = f"{policy_class.__name__} has no method schedule(state)"
        raise PolicyError(f"policy {shown(name)}: {problem}. See docs/policies.md")
    return policy_class


def _value(text: str) -> Setting:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _text(value: Setting) -> str:
    """Write a setting as text; floats keep every digit, so that a run can be repeated from its log."""
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return str(value).lower() if isinstance(value, bool) else str(value)
