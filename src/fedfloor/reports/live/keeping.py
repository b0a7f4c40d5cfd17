"""Rounds of a log that grows for ever, in memory that does not: every round at first, then one of 2, of 4, of 8.

Which round of a block stays is drawn at random, so that means over the rounds that are left are those of all rounds,
also if a policy repeats itself every two rounds. The draw depends on nothing but the number of the round. Runs of the
same stride therefore keep the same rounds, which figures of several runs rely on.
"""

__all__ = ["KeptRounds", "picked"]

import hashlib
import math
from array import array
from pathlib import Path

import numpy as np

from fedfloor.reports.log_columns import LogColumns
from fedfloor.reports.logged import LoggedRounds
from fedfloor.rounds.record import RoundRecord
from fedfloor.scenario import Scenario


def picked(block: int, stride: int) -> int:
    """The round, from 0, that stays of the rounds `block * stride` up to the next block; `stride` is a power of 2.

    A round that stays of a block is also the one that stays of its half, so that a greater stride only drops rounds.
    """
    while stride > 1:
        coin = hashlib.blake2b(f"{block} of {stride}".encode(), digest_size=1).digest()[0] & 1
        block, stride = 2 * block + coin, stride // 2
    return block


class KeptRounds:
    """The rounds of one run that are kept, as arrays, and where in the log each of them stands."""

    def __init__(self, scenario: Scenario, stride: int = 1) -> None:
        self._columns = LogColumns(scenario)
        self._starts = array("q")  #: [byte] of the lines of the rounds that are kept
        self._tested = math.nan  #: what the test gave in a round of the open block that is not kept
        self.stride = stride

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def width(self) -> int:
        """Numbers that a round takes."""
        return self._columns.width

    def add(self, record: RoundRecord, start: int) -> None:
        """Take the next round of the log, whose line begins at this byte."""
        block, place = divmod(record.round, self.stride)
        if picked(block, self.stride) == record.round:
            self._columns.add(record)
            self._starts.append(start)
        elif not math.isnan(result := self._columns.result_of(record)):
            self._tested = result
        if place == self.stride - 1:
            self._close_block()

    def _close_block(self) -> None:
        """Give an evaluation of a round that was dropped to the one that stays: tests are rare, and it is near."""
        tested = self._columns.of_rounds("tested")
        if np.isnan(tested[-1]):
            tested[-1] = self._tested
        self._tested = math.nan

    def thin(self, stride: int) -> None:
        """Drop rounds until one of every `stride` is left."""
        numbers = (self._columns.of_rounds("number").astype(int) - 1).tolist()
        stays = [at for at, number in enumerate(numbers) if picked(number // stride, stride) == number]
        results = zip(numbers, self._columns.of_rounds("tested").tolist(), strict=True)
        tests = {
            number // stride: result for number, result in results if not math.isnan(result)
        }  # the last of a block
        self._columns.keep(np.array(stays, dtype=int))
        self._columns.of_rounds("tested")[:] = [tests.get(numbers[at] // stride, math.nan) for at in stays]
        self._starts = array("q", (self._starts[at] for at in stays))
        self.stride = stride

    def logged(self, path: Path) -> LoggedRounds:
        """The same rounds, each read from the log when it is looked at; they stay as they are when more are added."""
        return LoggedRounds(path, self._starts[:], self._columns[:])

    def evaluations(self) -> list[tuple[int, float]]:
        """After how many rounds the model was tested, and its accuracy, or its error if it predicts numbers."""
        number, values = self._columns.of_rounds("number"), self._columns.of_rounds("tested")
        at = np.flatnonzero(~np.isnan(values))
        return list(zip(number[at].astype(int).tolist(), values[at].tolist(), strict=True))
