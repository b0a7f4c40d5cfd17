"""What can go wrong, as a tree.

FedfloorError            wrong input: the command line prints it as one line and exits with 2
├── ScenarioError        a scenario file, a preset name or an override
├── SnapshotError        a round snapshot
├── TraceError           a recorded trace
├── ModelError           a network that cannot be described or cut
├── PolicyError          a policy that is unknown or wrongly configured
├── DataError            a data set that is missing, damaged or cannot be fetched
├── RunLogError          a run folder or its log
└── MissingExtraError    a feature whose optional dependency is not installed

FailedRunError           a run that could not go on although its input is right: exit code 1
StoppedRunError          a run that Ctrl-C stopped, in words of its own: exit code 130
"""

__all__ = [
    "DataError",
    "FailedRunError",
    "FedfloorError",
    "MissingExtraError",
    "ModelError",
    "PolicyError",
    "RunLogError",
    "ScenarioError",
    "SnapshotError",
    "StoppedRunError",
    "TraceError",
    "advice_for",
]

import difflib
from collections.abc import Iterable


class FedfloorError(Exception):
    """Base of all errors that the reader of the message can mend."""


class FailedRunError(Exception):
    """A run that diverged, lost a process or found no room on the disk."""


class StoppedRunError(Exception):
    """A run that its user interrupted, with what is left of it."""


class ScenarioError(FedfloorError):
    """A scenario that does not describe a plant."""


class SnapshotError(FedfloorError):
    """A round snapshot that does not describe a round."""


class TraceError(FedfloorError):
    """A recorded trace that does not fit the scenario."""


class ModelError(FedfloorError):
    """A network whose layers cannot be described."""


class PolicyError(FedfloorError):
    """A policy that is unknown or wrongly configured."""


class DataError(FedfloorError):
    """A data set that is missing, damaged or cannot be fetched."""


class RunLogError(FedfloorError):
    """A run folder that cannot be written or read."""


class MissingExtraError(FedfloorError):
    """An optional dependency that is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the extra '{extra}'. Install it with: pip install 'fedfloor[{extra}]'")


def advice_for(unknown: str, known: Iterable[str]) -> str:
    """What to do about a name that is not known: the nearest one, or all of them."""
    names = sorted(known)
    nearest = difflib.get_close_matches(unknown, names, n=1, cutoff=0.6)
    return f"Did you mean '{nearest[0]}'?" if nearest else f"Known: {', '.join(names)}."
