"""When a run ends before its last round."""

__all__ = ["Until"]

from dataclasses import dataclass

from fedfloor.rounds.record import RoundRecord


@dataclass(frozen=True, slots=True)
class Until:
    """Conditions of which one is enough; None switches a condition off."""

    accuracy: float | None = None  #: an evaluation reaches it
    clock: float | None = None  #: [s] simulated time has passed
    loss: float | None = None  #: that of an evaluation is not above it

    @property
    def is_set(self) -> bool:
        """Whether a run may end before its last round."""
        return self != Until()

    def reached(self, record: RoundRecord) -> bool:
        """Whether the run ends with this round."""
        accurate = self.accuracy is not None and record.accuracy is not None and record.accuracy >= self.accuracy
        fits = self.loss is not None and record.loss is not None and record.loss <= self.loss
        return accurate or fits or (self.clock is not None and record.clock >= self.clock)
