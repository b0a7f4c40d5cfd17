"""Floors by their last training losses, for policies that prefer low or high ones."""

__all__ = ["by_loss", "relative_losses"]

import numpy as np

from fedfloor.arrays import Floats, Ints
from fedfloor.scheduling.history import untried
from fedfloor.scheduling.state import RoundState, known_history


def by_loss(state: RoundState, *, lowest_first: bool) -> Ints:
    """All floors (M,): those to be tried, those with a loss in order of it, and last those that failed when tried.

    Only floors that complete a round get a loss. A floor that was tried and has none ranks last until every other
    floor could have been served; otherwise a floor that never completes would be selected in every round.
    """
    loss, history = state.last_loss, known_history(state)
    unknown, due = np.isnan(loss), untried(history)
    rank = np.where(~unknown, 1, np.where(due, 0, 2))
    value = np.where(unknown, history.last_selected, loss if lowest_first else -loss)  # the longest wait first
    return np.lexsort((value, rank))


def relative_losses(loss: Floats) -> Floats:
    """Last training losses (M,) over their mean size; floors without one, which nobody knows yet, have the highest."""
    known = loss[~np.isnan(loss)]
    if not known.any():  # none yet, or all of them 0
        return np.ones(loss.size)
    relative = loss / np.abs(known).mean()
    return np.asarray(np.nan_to_num(relative, nan=float(np.nanmax(relative))))
