"""Policies as logs name them."""

__all__ = ["spec_of"]

from functools import cache

from fedfloor.errors import FedfloorError
from fedfloor.scheduling.registry import PolicySpec, parse_policy


@cache  # the registry looks through all installed packages every time
def spec_of(policy: str) -> PolicySpec | None:
    """A policy's name and settings; None of a text that is none."""
    try:
        return parse_policy(policy)
    except FedfloorError:
        return None
