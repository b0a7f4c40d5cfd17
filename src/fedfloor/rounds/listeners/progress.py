"""Every round as an event, for whoever shows the progress of a run."""

__all__ = ["Progress"]

from dataclasses import dataclass

from fedfloor.rounds.events import Event, Tell
from fedfloor.rounds.loop import FinishedRound


@dataclass(frozen=True, slots=True)
class Progress:
    """Passes rounds on."""

    tell: Tell

    def hear(self, ended: FinishedRound) -> None:
        """Report one round."""
        self.tell(Event(record=ended.record))
