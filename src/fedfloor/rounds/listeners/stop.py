"""When a run ends before its last round."""

__all__ = ["Until"]

from dataclasses import dataclass
from typing import Protocol

from fedfloor.rounds.record import RoundRecord


class _Options(Protocol):
    """Options of a run, whatever else they say."""

    @property
    def until_accuracy(self) -> float | None: ...

    @property
    def until_loss(self) -> float | None: ...

    @property
    def until_clock(self) -> float | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Until:
    """Conditions of which one is enough; None switches a condition off."""

    accuracy: float | None = None  #: an evaluation reaches it
    loss: float | None = None  #: that of an evaluation is not above it
    clock: float | None = None  #: [s] simulated time has passed

    @classmethod
    def of(cls, options: _Options) -> "Until":
        """The conditions that options of a run name."""
        return cls(accuracy=options.until_accuracy, loss=options.until_loss, clock=options.until_clock)

    @property
    def is_set(self) -> bool:
        """Whether a run may end before its last round."""
        return self != Until()

    def reached(self, record: RoundRecord) -> bool:
        """Whether the run ends with this round."""
        return self.reason(record) is not None

    def reason(self, record: RoundRecord) -> str | None:
        """The condition that ends the run with this round, such as `until_accuracy=0.8`; None if it goes on."""
        if self.accuracy is not None and record.accuracy is not None and record.accuracy >= self.accuracy:
            return f"until_accuracy={self.accuracy:g}"
        if self.loss is not None and record.loss is not None and record.loss <= self.loss:
            return f"until_loss={self.loss:g}"
        if self.clock is not None and record.clock >= self.clock:
            return f"until_clock={self.clock:g}"
        return None
