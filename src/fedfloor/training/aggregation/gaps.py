"""Weights by how seldom floors take part: the mean gap between two of their rounds (FedAU, Wang & Ji 2024)."""

__all__ = ["CUTOFF", "Gaps", "next_gaps"]

from dataclasses import dataclass
from typing import Self

import numpy as np

from fedfloor.arrays import Bools, Floats

CUTOFF = 50  #: [1] K, rounds after which a gap ends even if the floor is still absent


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """What is known of the gaps of M floors, each array (M,)."""

    mean: Floats  #: [1] omega_m, mean length of the gaps that have ended; 1 before the first
    ended: Floats  #: [1] number of gaps that have ended
    length: Floats  #: [1] rounds since the last one ended

    @classmethod
    def unknown(cls, floors: int) -> Self:
        """Before the first round."""
        return cls(np.ones(floors), np.zeros(floors), np.zeros(floors))


def next_gaps(gaps: Gaps, completed: Bools, cutoff: int = CUTOFF) -> Gaps:
    """The gaps after a round that some floors (M,) completed, Algorithm 2 of the paper.

    The weights of a round are the means before it, so that they do not depend on who completes it.
    """
    length = gaps.length + 1.0
    ends = completed | (length >= cutoff)
    mean = np.where(ends, (gaps.ended * gaps.mean + length) / (gaps.ended + 1.0), gaps.mean)
    return Gaps(mean, gaps.ended + ends, np.where(ends, 0.0, length))
