"""Models between the base station and the gateways, with the number of bits that a scenario allows them."""

__all__ = ["Exchange"]

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Vector
from fedfloor.scenario.file import Precision
from fedfloor.training.network.quantised import cast, rounded, uncast, upload_stream
from fedfloor.training.network.weights import Layout, average


@dataclass(slots=True, eq=False)
class Exchange:
    """Sends models, and keeps what rounding took from the updates of every floor.

    With 32 bits everywhere, floors send their models. Otherwise they send what changed since the download, so that the
    base station's weights keep their full precision.
    """

    precision: Precision
    layout: Layout
    floors: int  #: M; 0 if the gateways keep their errors themselves
    seed: int
    error: Vector | None = field(init=False, default=None)  #: (M, P) e_m; None if there is nothing to keep

    def __post_init__(self) -> None:
        if self.precision.upload < 32 and self.floors > 0:
            self.error = np.zeros((self.floors, self.layout.size), np.float32)

    @property
    def sends_models(self) -> bool:
        """Whether floors send their models instead of updates."""
        return self.precision.upload == self.precision.download == 32

    def downloaded(self, weights: Vector) -> Vector:
        """The global weights (P,) as floors receive them; an OverflowError says that some are too large for it."""
        if self.precision.download == 32:
            return weights
        return uncast(cast(weights, self.layout.pieces), self.layout.pieces)

    def uploaded(self, model: Vector, downloaded: Vector, *, index: int, floor: int) -> Vector:
        """What the base station receives of a floor's model (P,): the model, or its update.

        A rounded update contains the errors of the rounds before, and leaves its own for the next one. An
        OverflowError says that the update is not finite.
        """
        if self.sends_models:
            return model
        with np.errstate(over="ignore"):
            update = model - downloaded
        if self.error is None:
            return update
        stream = upload_stream(self.seed, index, floor)
        sent = rounded(update, self.error[floor], self.layout.pieces, self.precision.upload, stream)
        self.error[floor] = sent.error
        return sent.received

    def combined(self, weights: Vector, received: Sequence[tuple[float, Vector]]) -> Vector:
        """The next global weights (P,), from what was received of every floor and its number of points.

        Counters stay whole numbers, as checkpoints keep them, also if floors have counted differently.
        """
        mean = average(iter(received), weights.size)
        with np.errstate(over="ignore"):
            combined = mean if self.sends_models else weights + mean
        for piece in self.layout.pieces:
            if piece.counts:
                combined[piece.place] = np.rint(combined[piece.place])
        return combined

    def restore(self, error: npt.NDArray[np.generic] | None) -> None:
        """Continue with the rounding errors of an earlier run; a ValueError says why they do not fit."""
        if self.error is None:
            return
        if error is None:
            problem = f"is missing, but precision.upload = {self.precision.upload} needs it"
            raise ValueError(f"upload_error, the rounding errors of the floors, {problem}")
        if error.shape != self.error.shape or error.dtype != np.float32:
            raise ValueError(f"upload_error must be float32 {self.error.shape}, got {error.dtype} {error.shape}")
        if not np.isfinite(error).all():
            raise ValueError("upload_error must be finite")
        self.error = error.astype(np.float32)
