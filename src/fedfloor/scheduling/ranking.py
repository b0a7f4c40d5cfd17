"""Floors by their last training losses, for policies that prefer low or high ones."""

__all__ = ["by_loss"]

import numpy as np

from fedfloor.arrays import Ints
from fedfloor.scheduling.history import untried
from fedfloor.scheduling.state import RoundState


def by_loss(state: RoundState, *, lowest_first: bool) -> Ints:
    """All floors (M,): those to be tried, those with a loss in order of it, and last those that failed when tried.

    Only floors that complete a round get a loss. A floor that was tried and has none ranks last until every other
    floor could have been served; otherwise a floor that never completes would be selected in every round.
    """
    assert state.history is not None
    loss = state.last_loss
    unknown, due = np.isnan(loss), untried(state.history)
    rank = np.where(~unknown, 1, np.where(due, 0, 2))
    value = np.where(unknown, state.history.last_selected, loss if lowest_first else -loss)  # the longest wait first
    return np.lexsort((value, rank))
