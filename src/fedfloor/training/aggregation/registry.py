"""Aggregation rules by name: `mean`, `fedavgm`, or `package.module:Class`."""

__all__ = ["make_rule", "rule_summaries"]

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any

from fedfloor.errors import AggregationError, advice_for, shown
from fedfloor.references import made, own_class
from fedfloor.scenario.file import Aggregation
from fedfloor.training.aggregation import rules
from fedfloor.training.aggregation.contract import Rule

#: rules of this package: the name is that of the module, the class is the first of its public names
_BUILT_IN = MappingProxyType(
    {module.name: f"{rules.__name__}.{module.name}" for module in iter_modules(rules.__path__)}
)
_PAGE = "docs/faster.md"  #: describes rules and their settings


def make_rule(aggregation: Aggregation, file: str | Path | None = None) -> Rule:
    """The rule of a scenario; an own one is imported, so ask `runs.trust` first. Errors name the scenario's file."""
    section = "aggregation" if file is None else f"{file}: aggregation"
    label = f"{section}.rule {shown(aggregation.rule)}"
    rule_class = _load(aggregation.rule, label)
    if aggregation.settings:
        label = f"{section}.settings of {shown(aggregation.rule)}"
    rule: Rule = made(rule_class, aggregation.settings, label, AggregationError, page=_PAGE)
    return rule


def rule_summaries() -> Mapping[str, str]:
    """Name of every rule of this package -> its description in one line."""
    return {name: (_load(name, name).__doc__ or "").strip().splitlines()[0] for name in _BUILT_IN}


def _load(name: str, label: str) -> type[Any]:
    if name in _BUILT_IN:
        module = import_module(_BUILT_IN[name])
        built_in: type[Any] = getattr(module, module.__all__[0])
        return built_in
    if ":" not in name:
        advice = f"{advice_for(name, _BUILT_IN)} Name a rule of your own as package.module:Class"
        raise AggregationError(f"{label}: unknown. {advice}")
    return own_class(name, label, AggregationError, ("step",), page=_PAGE)
