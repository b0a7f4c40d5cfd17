"""Policies as logs name them."""

__all__ = ["solver_of", "spec_of", "tradeoff_of", "with_solver"]

from dataclasses import replace

from fedfloor.errors import FedfloorError
from fedfloor.scheduling import registry
from fedfloor.scheduling.registry import PolicySpec, parse_policy


def spec_of(policy: str) -> PolicySpec | None:
    """A policy's name and settings. Returns None if the text is not a policy name."""
    try:
        return parse_policy(policy)
    except FedfloorError:
        return None


def tradeoff_of(policy: str) -> float | None:
    """V of a policy; None if it has none."""
    spec = spec_of(policy)
    return None if spec is None else registry.tradeoff_of_spec(spec)


def solver_of(policy: str) -> str | None:
    """Solver of a policy; None if it has none."""
    spec = spec_of(policy)
    return None if spec is None else registry.solver_of(spec)


def with_solver(policy: str, solver: str) -> str | None:
    """The same policy with another solver; None if it has none to choose."""
    spec, present = spec_of(policy), solver_of(policy)
    if spec is None or present is None:
        return None
    settings = tuple((key, solver if value == present else value) for key, value in spec.settings)
    return str(replace(spec, settings=settings))
