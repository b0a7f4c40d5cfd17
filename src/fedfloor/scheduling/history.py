"""What a policy may know of earlier rounds: totals of every floor over the whole run, and the last rounds one by one.

The loop owns it, as it owns the queues. It is derived from the log alone, so that a resumed run and a round that is
decided again see the same numbers to the last bit.
"""

__all__ = ["RECENT", "History", "HistoryBuilder", "Past", "RoundResult", "no_history", "untried"]

from dataclasses import dataclass, field, fields, replace

import numpy as np

from fedfloor.arrays import Bools, Floats, Ints, read_only

#: number of rounds that are kept one by one: the pacer of Oort needs 380 to go from its first value to its last
RECENT = 400


@dataclass(frozen=True, slots=True, eq=False)
class RoundResult:
    """What came of one round on every floor, (M,)."""

    selected: Bools
    completed: Bools
    delay: Floats  #: [s] inf without end; 0 for floors that were not selected
    loss: Floats  #: [1] mean training loss; nan without one
    rms_loss: Floats  #: [1] root mean square of the losses of single samples; nan if it was not measured
    energy: Floats  #: [J] spent by the gateway and its devices


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """The last rounds, at most `RECENT`, one row each; all (R, M). See `RoundResult` for units."""

    selected: Bools
    completed: Bools
    delay: Floats
    loss: Floats
    rms_loss: Floats
    energy: Floats


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """The rounds before this one. Totals cover the whole run; rounds count from 0, and -1 stands for never."""

    rounds: int  #: number of rounds so far
    selected: Ints  #: (M,) [1] how often the floor was selected
    completed: Ints  #: (M,) [1] how often it completed
    last_selected: Ints  #: (M,) round
    first_completed: Ints  #: (M,) round
    last_completed: Ints  #: (M,) round
    delay_sum: Floats  #: (M,) [s] over the rounds that it completed
    most_delay: Floats  #: (M,) [s] largest of them
    last_delay: Floats  #: (M,) [s] of the last of them; nan before the first
    loss_sum: Floats  #: (M,) [1] of training losses over the rounds that it completed; 0 without training
    last_rms_loss: Floats  #: (M,) [1] the last one that was measured; nan before the first
    energy_sum: Floats  #: (M,) [J] over all rounds
    recent: Past

    def __post_init__(self) -> None:
        read_only(self)

    @property
    def first_recent(self) -> int:
        """Number of the round in the first row of `recent`."""
        return self.rounds - len(self.recent.selected)


@dataclass(slots=True, eq=False)
class HistoryBuilder:
    """Adds rounds one by one; what `history` returned before stays as it was."""

    floors: int
    _totals: History = field(init=False)  #: without the last rounds
    _rows: Past = field(init=False)  #: (at most 2 RECENT, M), of which the first `_end` are in use
    _end: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._rows = _empty_rows(16, self.floors)
        none, never = np.zeros(self.floors), np.full(self.floors, -1)
        self._totals = History(
            rounds=0,
            selected=never + 1,
            completed=never + 1,
            last_selected=never,
            first_completed=never,
            last_completed=never,
            delay_sum=none,
            most_delay=none,
            last_delay=none + np.nan,
            loss_sum=none,
            last_rms_loss=none + np.nan,
            energy_sum=none,
            recent=self._rows,
        )

    @property
    def rounds(self) -> int:
        """Number of rounds so far."""
        return self._totals.rounds

    def add(self, result: RoundResult) -> None:
        """Add the next round."""
        self._make_room()
        for entry in fields(Past):
            getattr(self._rows, entry.name)[self._end] = getattr(result, entry.name)
        self._end += 1
        totals, done = self._totals, result.completed
        delay = np.where(done, result.delay, 0.0)
        self._totals = replace(
            totals,
            rounds=totals.rounds + 1,
            selected=totals.selected + result.selected,
            completed=totals.completed + done,
            last_selected=np.where(result.selected, totals.rounds, totals.last_selected),
            first_completed=np.where(done & (totals.completed == 0), totals.rounds, totals.first_completed),
            last_completed=np.where(done, totals.rounds, totals.last_completed),
            delay_sum=totals.delay_sum + delay,
            most_delay=np.maximum(totals.most_delay, delay),
            last_delay=np.where(done, delay, totals.last_delay),
            loss_sum=totals.loss_sum + np.where(done & ~np.isnan(result.loss), result.loss, 0.0),
            last_rms_loss=np.where(np.isnan(result.rms_loss), totals.last_rms_loss, result.rms_loss),
            energy_sum=totals.energy_sum + result.energy,
        )

    @property
    def history(self) -> History:
        """The rounds so far; the last ones are views, so that a round costs no copy of them."""
        part = slice(max(0, self._end - RECENT), self._end)
        views = {entry.name: getattr(self._rows, entry.name)[part] for entry in fields(Past)}
        for view in views.values():
            view.setflags(write=False)
        return replace(self._totals, recent=Past(**views))

    def _make_room(self) -> None:
        """Move the last rounds to new arrays if the old ones are full, which views may still show."""
        size = len(self._rows.selected)
        if self._end == size:
            kept = min(self._end, RECENT - 1)
            old, self._rows = self._rows, _empty_rows(min(2 * size, 2 * RECENT), self.floors)
            for entry in fields(Past):
                getattr(self._rows, entry.name)[:kept] = getattr(old, entry.name)[self._end - kept : self._end]
            self._end = kept


def _empty_rows(size: int, floors: int) -> Past:
    flags, numbers = np.zeros((2, size, floors), bool), np.zeros((4, size, floors))
    return Past(flags[0], flags[1], numbers[0], numbers[1], numbers[2], numbers[3])


def no_history(floors: int) -> History:
    """The history at the start of a run."""
    return HistoryBuilder(floors).history


def untried(history: History) -> Bools:
    """Floors (M,) that have never completed a round and whose turn it is to be tried.

    A floor that was tried and did not complete waits for as many rounds as there are other floors, in which each of
    them can be served. Waiting for all others could last for ever, because some are never selected.
    """
    last, others = history.last_selected, history.last_selected.size - 1
    waited = history.rounds - 1 - last
    return np.asarray((history.completed == 0) & ((last < 0) | (waited >= others)))
