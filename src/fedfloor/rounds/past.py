"""Logged rounds as the history that policies read: the one way from records to it, in a run and on replay."""

__all__ = ["history_of", "result_of"]

import math
from collections.abc import Iterable, Sequence

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.rounds.record import ABSENT, Measured, RoundRecord
from fedfloor.scheduling.history import HistoryBuilder, RoundResult


def result_of(record: RoundRecord) -> RoundResult:
    """What came of a round, from what is logged of it; floors that were not selected have done nothing."""
    floors = [floor if floor.selected else None for floor in record.gateways]
    return RoundResult(
        selected=np.array([floor is not None for floor in floors]),
        completed=np.array([floor is not None and floor.completed for floor in floors]),
        delay=_numbers([0.0 if floor is None else floor.delay_s for floor in floors], math.inf),
        loss=_numbers([None if floor is None else floor.loss for floor in floors], math.nan),
        rms_loss=_numbers([None if floor is None else floor.rms_loss for floor in floors], math.nan),
        energy=np.array([0.0 if floor is None else floor.floor_energy for floor in floors]),
    )


def history_of(records: Iterable[RoundRecord], floors: int) -> HistoryBuilder:
    """The history after these rounds, which are all rounds so far, ready for the next one."""
    builder = HistoryBuilder(floors)
    for record in records:
        builder.add(result_of(record))
    return builder


def _numbers(values: Sequence[Measured], otherwise: float) -> Floats:
    """The numbers, and another one for those that are not there."""
    return np.array([otherwise if value is None or value is ABSENT else value for value in values], float)
