"""What came of a round, as arrays."""

__all__ = ["MessageSeconds", "Outcome", "Seconds"]

from dataclasses import dataclass, field

from fedfloor.arrays import Bools, Floats, Ints
from fedfloor.scheduling.state import Allocation
from fedfloor.scheduling.usage import FloorUsage


@dataclass(frozen=True, slots=True)
class MessageSeconds:
    """How long a floor took to answer a message, beside what the cost model says of its round."""

    name: str  #: of the floor
    answered: float  #: [s] wall clock from the message to its answer
    predicted: float  #: [s] by the cost model


@dataclass(frozen=True, slots=True)
class Seconds:
    """Wall-clock time [s] that a plant spent on a round; None for what it did not do."""

    estimate: float | None = None  #: of the participation rates
    train: float | None = None
    evaluate: float | None = None
    messages: tuple[MessageSeconds, ...] = ()  #: of the floors that answered


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What came of a decision."""

    usage: FloorUsage  #: what the round asked for; what never happened is 0
    allocation: Allocation  #: how the floors took part
    completed: Bools  #: (M,) the floor's model was averaged
    failure: tuple[str | None, ...]  #: (M,) `energy`, `memory`, `lost`, or None
    delay: Floats  #: (M,) [s] how long the round waited for the floor
    gateway_energy: Floats  #: (M,) [J] spent
    device_energy: Floats  #: (N,) [J] spent
    loss: Floats  #: (M,) [1] training loss; nan without training
    rms_loss: Floats | None = None  #: (M,) [1] root mean square of sample losses, nan where unknown; None: not measured
    iterations: Ints | None = None  #: (M,) [1] K_m of every floor; None if all do the scenario's K
    accuracy: float | None = None  #: of the global model, on rounds that evaluate
    raw_accuracy: float | None = None  #: of its raw weights, if `accuracy` is that of averaged ones
    test_loss: float | None = None
    divergence_bound: Floats | None = None  #: (M,) Theorem 1, nan where unknown; None for plants that do not train
    divergence: Floats | None = None  #: (M,) measured, nan where it was not; None for plants that do not train
    predicted: FloorUsage | None = None  #: by the cost model, where `usage` was measured; None where it is the model's
    seconds: Seconds = field(default_factory=Seconds)
