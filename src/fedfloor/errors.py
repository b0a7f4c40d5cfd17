"""The errors that users see, as a tree.

FedfloorError            wrong input: the command line prints one line and exits with code 2
├── ArgumentError        a call with an argument that a function does not have, or without one; also a TypeError
├── ScenarioError        a scenario file, a preset name or an override
├── SnapshotError        a round snapshot
├── TraceError           a recorded trace
├── ProfileError         a hardware profile
├── ModelError           a network that cannot be described, cut, trained or loaded
├── PolicyError          a policy that is unknown or wrongly configured
├── SettingError         a setting of a policy's or a rule's class; also a ValueError
├── AggregationError     an aggregation rule that is unknown or wrongly configured
├── DataError            a data set that is missing, damaged or cannot be fetched
├── RunLogError          a run folder or its log
├── DeploymentError      a machine of a plant that is wrongly set up, or not what it says
└── MissingExtraError    a feature whose optional dependency is not installed

FailedRunError           a run that failed although its input is valid: exit code 1
StoppedRunError          a run that Ctrl-C or SIGTERM stopped; the message says what was kept: exit code 130 or 143
"""

__all__ = [
    "AggregationError",
    "ArgumentError",
    "DataError",
    "DeploymentError",
    "FailedRunError",
    "FedfloorError",
    "MissingExtraError",
    "ModelError",
    "PolicyError",
    "ProfileError",
    "RunLogError",
    "ScenarioError",
    "SettingError",
    "SnapshotError",
    "StoppedRunError",
    "TraceError",
    "advice_for",
    "counted",
    "named",
    "shown",
]

import difflib
from collections.abc import Iterable

_LISTED = 40  #: names that a message lists; of more it says how many


class FedfloorError(Exception):
    """Base of all errors that the user can fix."""


class FailedRunError(Exception):
    """A run that diverged, lost a process or ran out of disk space."""


class StoppedRunError(Exception):
    """A run that its user interrupted; the message says what was kept."""


class ArgumentError(FedfloorError, TypeError):
    """A call with an argument that the function does not have, or without one that it needs."""


class ScenarioError(FedfloorError):
    """A scenario file, preset name or override that is not valid."""


class SnapshotError(FedfloorError):
    """A round snapshot that cannot be read or is not valid."""


class TraceError(FedfloorError):
    """A recorded trace that does not fit the scenario."""


class ProfileError(FedfloorError):
    """A hardware profile that cannot be read, is not valid or does not fit the model."""


class ModelError(FedfloorError):
    """A network that cannot be described, cut, trained or loaded."""


class PolicyError(FedfloorError):
    """A policy that is unknown or wrongly configured."""


class SettingError(FedfloorError, ValueError):
    """A setting that the class of a policy or of an aggregation rule does not take."""


class AggregationError(FedfloorError):
    """An aggregation rule that is unknown, wrongly configured or returns something else than weights."""


class DataError(FedfloorError):
    """A data set that is missing, damaged or cannot be fetched."""


class RunLogError(FedfloorError):
    """A run folder that cannot be written or read."""


class DeploymentError(FedfloorError):
    """A machine of a plant that is wrongly set up, or not what it says it is."""


class MissingExtraError(FedfloorError):
    """An optional dependency that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the extra '{extra}'. Install it with: pip install 'fedfloor[{extra}]'")


def shown(value: object, most: int = 80) -> str:
    """A value as messages quote it: shortened, and with control characters escaped, as in Python."""
    try:
        text = repr(value[: most + 1] if isinstance(value, str) else value)
    except ValueError:  # Python writes no number of more than 4300 digits
        return "a number that is too long to show"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def named(place: object, most: int = 200) -> str:
    """A file, a path of keys or an option as messages name it: as it is, unless it is too long or cannot be printed."""
    text = str(place)
    return text if len(text) <= most and text.isprintable() else shown(text, most)


def counted(number: int, one: str, many: str = "") -> str:
    """A number of things in words: 1 round, 2 rounds."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def advice_for(unknown: str, names: Iterable[str]) -> str:
    """Suggest the name nearest to an unknown one, or list all names if none is near."""
    choices = sorted(names)
    alike = [name for name in choices if name.lower() == unknown.lower()]
    nearest = alike or difflib.get_close_matches(unknown[:100], choices, n=1, cutoff=0.6)
    if nearest:
        return f"Did you mean {shown(nearest[0])}?"
    more = f" and {len(choices) - _LISTED} more" if len(choices) > _LISTED else ""
    return f"Known: {', '.join(named(name, 80) for name in choices[:_LISTED])}{more}."
