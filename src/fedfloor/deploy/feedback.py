"""What rounding took from a floor's updates: kept by its gateway, and added to the next update that is used."""

__all__ = ["Feedback"]

import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedfloor.arrays import Vector
from fedfloor.errors import DeploymentError
from fedfloor.files import make_private, read_if_there, refused_write, write_whole
from fedfloor.training.network.quantised import rounded, upload_stream
from fedfloor.training.network.stored import packed, unpacked
from fedfloor.training.network.weights import Piece

_LOG = logging.getLogger(__name__)
_FILE = "upload_error.safetensors"
_LAST, _BEFORE, _AFTER, _RUN = "last_round", "error_before", "error_after", "run"
_UNSETTLED, _PENDING = "unsettled_round", "error_pending"


class Feedback:
    """The rounding errors (P,) of one floor. Those of a round count only once its update was used.

    A base station that stops after a round and before its checkpoint does that round again. The errors from before the
    last round are therefore kept too.
    """

    def __init__(self, pieces: tuple[Piece, ...], bits: int, *, folder: Path | None, run: str) -> None:
        """Continue with the errors that the folder has of this run; without a folder they are kept in memory only."""
        self._pieces, self._bits, self._folder, self._run = pieces, bits, folder, run
        self._size = pieces[-1].place.stop if pieces else 0
        self._last = -1  # the last round whose update was used
        self._before, self._after = np.zeros((2, self._size), np.float32)  # errors before and after that round
        self._pending: tuple[int, Vector] | None = None  # a round that is not settled yet, and its errors
        self._load()

    def message(self, update: Vector, *, seed: int, index: int, floor: int) -> bytes:
        """The rounded update (P,) of a round as it is sent; a ValueError says that it is not finite."""
        if index <= self._last:  # done again, or a new run with the same name and seed
            self._after = self._before if index == self._last else np.zeros_like(self._before)
            self._last = index - 1
        try:
            sent = rounded(update, self._after, self._pieces, self._bits, upload_stream(seed, index, floor))
        except OverflowError as error:
            raise ValueError(f"the update of the floor {error}") from None
        self._pending = index, sent.error
        return sent.message

    def settle(self, index: int, *, completed: bool) -> None:
        """End a round: keep its errors if the base station has used the update."""
        pending, self._pending = self._pending, None
        if not completed or pending is None or pending[0] != index:
            return
        self._last, self._before, self._after = index, self._after, pending[1]
        if self._folder is None:
            return
        tensors = {_LAST: np.array([index]), _BEFORE: self._before, _AFTER: self._after, _RUN: _text(self._run)}
        try:
            make_private(self._folder)
            write_whole(self._folder / _FILE, packed(tensors))
        except OSError as error:
            _LOG.warning("%s", refused_write(self._folder, error, again="the next round", advice="Make room"))

    def kept(self) -> dict[str, npt.NDArray[np.generic]]:
        """Everything that another process needs to go on from here, with the round that is not settled yet."""
        index, pending = (-1, np.zeros(self._size, np.float32)) if self._pending is None else self._pending
        tensors: dict[str, npt.NDArray[np.generic]] = {_LAST: np.array([self._last]), _UNSETTLED: np.array([index])}
        return {**tensors, _BEFORE: self._before, _AFTER: self._after, _PENDING: pending}

    def restore(self, tensors: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go on from what `kept` gave."""
        self._take(tensors, "the rounding errors of the last round")
        index, pending = int(tensors[_UNSETTLED][0]), tensors[_PENDING].astype(np.float32)
        self._pending = None if index < 0 else (index, pending)

    def _load(self) -> None:
        if self._folder is None:
            return
        path = self._folder / _FILE
        try:
            content = read_if_there(path)
            tensors = {} if content is None else unpacked(content)
        except (OSError, ValueError) as error:
            raise DeploymentError(f"{path}: cannot be read: {error}. Restore it, or delete it") from None
        if not np.array_equal(tensors.get(_RUN, np.zeros(0)), _text(self._run)):
            return  # of another run
        self._take(tensors, str(path))

    def _take(self, tensors: Mapping[str, npt.NDArray[np.generic]], label: str) -> None:
        """Go on with errors that were kept under this label, if they fit."""
        kept = [tensors.get(name, np.zeros(0)) for name in (_BEFORE, _AFTER)]
        if any(part.shape != (self._size,) or part.dtype != np.float32 or not np.isfinite(part).all() for part in kept):
            raise DeploymentError(f"{label}: does not fit the network of this plant. Delete it")
        self._before, self._after = (part.astype(np.float32) for part in kept)
        self._last = int(tensors.get(_LAST, np.array([-1]))[0])


def _text(run: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(run.encode(), np.uint8)
