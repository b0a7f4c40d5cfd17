"""The files that runs leave beside their log: who holds what, the theorems, what is unusual, the trade-off over V."""

__all__ = ["Held", "Holding", "about_from", "bounds_from", "holding_from", "tradeoff_from"]

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from fedfloor.errors import RunLogError
from fedfloor.rounds.problems import problem_of
from fedfloor.runs.about import About
from fedfloor.theory.bounds import Bound
from fedfloor.theory.tradeoff import TradeoffPoint

Content = TypeVar("Content")


@dataclass(frozen=True, slots=True)
class Held:
    """What one device holds."""

    floor: str
    name: str
    classes: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]  #: samples of every class


@dataclass(frozen=True, slots=True)
class Holding:
    """Who holds what."""

    devices: tuple[Held, ...]
    labels: tuple[str, ...] = ()  #: names of the classes; empty if they are numbers


_HOLDING = TypeAdapter(Holding)
_ABOUT = TypeAdapter(About)
_BOUNDS = TypeAdapter(tuple[Bound, ...])
_TRADEOFF = TypeAdapter(tuple[TradeoffPoint, ...])


def holding_from(path: Path) -> Holding | None:
    """Who holds what, as a training run has written it; None if there is no such file."""
    advice = "Run again to see who holds what"
    holding = _read(path, _HOLDING, advice)
    if holding is None:
        return None
    sizes = {len(device.classes) for device in holding.devices}
    if len(sizes) > 1:
        problem = "devices: every device must list the same number of classes"
        raise RunLogError(f"{path}: {problem}. It is damaged. {advice}")
    if holding.labels and {len(holding.labels)} != sizes:
        problem = f"labels: must name every class, got {len(holding.labels)} names"
        raise RunLogError(f"{path}: {problem}. It is damaged. {advice}")
    return holding


def about_from(path: Path) -> About:
    """What sets a run apart from most others; all None if there is no such file."""
    return _read(path, _ABOUT, "Remove it to see the run as if it had none") or About()


def bounds_from(path: Path) -> tuple[Bound, ...] | None:
    """The theorems beside what a run measured; None if there is no such file, as while the run is still running."""
    return _read(path, _BOUNDS, "Run again to see the theorems")


def tradeoff_from(path: Path) -> tuple[TradeoffPoint, ...]:
    """Delay and participation over V as `fedfloor tradeoff --format json` prints it; empty if there is no such file."""
    return _read(path, _TRADEOFF, "Write it again with `fedfloor tradeoff --format json`") or ()


def _read(path: Path, adapter: TypeAdapter[Content], advice: str) -> Content | None:
    """The content of a JSON file; None if there is no such file."""
    try:
        content = path.read_bytes()
        if content.strip() == b"null":
            raise RunLogError(f"{path}: must not be null. It is damaged. {advice}")
        return adapter.validate_json(content, strict=True)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise RunLogError(f"{path}: cannot be read: {error.strerror}. {advice}") from None
    except ValidationError as error:
        raise RunLogError(f"{path}: {problem_of(error)}. It is damaged. {advice}") from None
