"""Policies by name: `random`, `ddsra:v=1000`, `package.module:Class`, or the entry point group `fedfloor.policies`."""

__all__ = [
    "PAGE",
    "UNNAMED",
    "PolicySpec",
    "Setting",
    "make_policy",
    "may_keep_state",
    "name_now",
    "name_of_class",
    "parse_policy",
    "policy_summaries",
    "shown_name",
    "solver_of",
    "tradeoff_of_spec",
    "with_settings",
    "with_tradeoff_of",
]

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import Field, dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any, Self

from fedfloor.errors import PolicyError, advice_for, shown
from fedfloor.references import in_declared_types, made, own_class
from fedfloor.scenario.file import Policy
from fedfloor.scenario.section import is_same
from fedfloor.scheduling import policies
from fedfloor.scheduling.allocating import Selecting
from fedfloor.scheduling.state import Scheduler
from fedfloor.scheduling.traits import PolicyKind, kind_of

#: policies of this package: the name is that of the module, the class is the first of its public names
_BUILT_IN = MappingProxyType(
    {module.name: f"{policies.__name__}.{module.name}" for module in iter_modules(policies.__path__)}
)
_GROUP = "fedfloor.policies"
PAGE = "docs/policies.md"  #: describes policies and their settings
UNNAMED = "-object"  #: end of the name of a policy object that cannot be made again from its name

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


def name_now(logged: str) -> str:
    """The name that a logged policy of this package has now: older logs spell out defaults that are now left out."""
    if logged.partition(":")[0] not in _BUILT_IN:
        return logged
    try:
        return str(parse_policy(logged))
    except PolicyError:
        return logged


def shown_name(logged: str) -> str:
    """The one name that people see: as `name_now`, without the solver where that is the default."""
    name = name_now(logged)
    if name.partition(":")[0] not in _BUILT_IN:
        return name
    try:
        spec = parse_policy(name)
    except PolicyError:
        return name
    key = _built_in_kind(spec).solver_setting
    others = _without_defaults(spec, _load(spec.name))
    return str(PolicySpec(spec.name, tuple(pair for pair in spec.settings if pair[0] != key or pair in others)))


def make_policy(
    spec: PolicySpec, file: str | Path | None = None, *, given: str | None = None
) -> tuple[PolicySpec, Scheduler]:
    """Create a policy; returns its spec with every setting filled in, and the policy.

    Errors name the scenario's file, if that names the policy, or quote what was `given`.
    """
    kind = _load(spec.name, f"policy {shown(spec.name)}" if file is None else f"{file}: policy.name {shown(spec.name)}")
    label = f"policy {shown(given or str(spec))}" if file is None else f"{file}: policy.settings of {shown(spec.name)}"
    policy: Scheduler = made(kind, dict(spec.settings), label, PolicyError, page=PAGE)
    settings = in_declared_types(kind, dict(spec.settings))
    return PolicySpec(spec.name, _all_settings(spec, _entries(kind), policy, settings)), policy


def _entries(kind: type[Any]) -> tuple[Field[Any], ...]:
    return fields(kind) if is_dataclass(kind) else ()


def name_of_class(kind: type[object]) -> str:
    """Name of a policy's class: that of a policy of this package or of an entry point, or `package.module:Class`."""
    module, reference = kind.__module__, f"{kind.__module__}:{kind.__qualname__}"
    for name, place in _references().items():
        if reference == (f"{place}:{_first_class(place)}" if place == module else place):
            return name
    return reference


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
            raise PolicyError(f"solver {solver}: {problem}. Leave it out")
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
    given = {key: value for key, value in spec.settings if is_same(getattr(policy, key, None), converted[key])}
    values = [(key, given.get(key, value)) for key, value in values]
    written = [(key, value) for key, value in values if isinstance(value, Setting)] or spec.settings
    return tuple((key, value) for key, value in written if key not in defaults or defaults[key] != value)


def policy_summaries() -> Mapping[str, str]:
    """Name of every available policy -> its description in one line."""
    summaries = {}
    for name in _references():
        try:
            summaries[name] = (_load(name).__doc__ or "no description").strip().splitlines()[0]
        except PolicyError as error:
            summaries[name] = f"broken: {error}"
    return summaries


@cache  # looks through all installed packages
def _references() -> Mapping[str, str]:
    """Name of every available policy -> `package.module:Class`."""
    installed = {entry.name: entry.value for entry in entry_points(group=_GROUP)}
    return MappingProxyType({**installed, **_BUILT_IN})


def _load(name: str, label: str = "") -> type[Any]:
    label = label or f"policy {shown(name)}"
    if name in _BUILT_IN:
        built_in: type[Any] = getattr(import_module(_BUILT_IN[name]), _first_class(_BUILT_IN[name]))
        return built_in
    references = _references()
    if name not in references and name.endswith(UNNAMED):
        problem = "was a Python object, and no other one can be made from its name"
        raise PolicyError(f"{label}: {problem}. Give the policy; see docs/python.md")
    if name not in references and ":" not in name:
        raise PolicyError(f"{label}: unknown. {advice_for(name, references)}")
    return own_class(references.get(name, name), label, PolicyError, ("schedule",), page=PAGE)


def _first_class(module: str) -> str:
    """Name of the class of a policy of this package."""
    name: str = import_module(module).__all__[0]
    return name


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
