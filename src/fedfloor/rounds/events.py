"""What a run reports while it is running, for whoever shows its progress."""

__all__ = ["Event", "Tell", "silent"]

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from fedfloor.rounds.record import RoundRecord


@dataclass(frozen=True, slots=True)
class Event:
    """One step of a run; an empty event says that the step before it has ended."""

    reading: str | None = None  #: name of the data set that is being read
    step: str = ""  #: how much of it has been read; empty at first
    resumed: int | None = None  #: rounds that were already done; 0 if there was no checkpoint to resume from
    estimating: bool = False  #: participation rates are being estimated
    training: tuple[str, ...] = ()  #: floors that have begun to train
    waiting: tuple[str, ...] = ()  #: floors that have yet to join
    lost: tuple[str, ...] = ()  #: floors that were lost in the round, each with the reason
    record: "RoundRecord | None" = None  #: a round that has ended


Tell: TypeAlias = Callable[[Event], None]


def silent(event: Event) -> None:
    """Report nothing."""
