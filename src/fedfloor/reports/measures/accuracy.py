"""Test accuracy of a run, as the figures against rounds and against time show it."""

__all__ = ["NOT_TESTED", "NOT_TESTED_YET", "evaluations"]

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.reports.arrays import RunArrays
from fedfloor.reports.statistics import smoothed
from fedfloor.rounds.summary import final_rounds

#: in place of a figure of accuracy
NOT_TESTED = (
    "These logs contain no tested model: use `fedfloor run` instead of `fedfloor simulate`, or wait until "
    "`training.evaluate_every` rounds have passed."
)
#: the same for runs on real machines
NOT_TESTED_YET = (
    "No model was tested yet: that happens after every `training.evaluate_every` rounds, if the base station has the "
    "test set of the scenario's data (`fedfloor data fetch`)."
)


def evaluations(run: RunArrays, x: Floats) -> tuple[Floats, Floats]:
    """Where on x (T,) a run was tested, and its accuracy there, smoothed like the final accuracy."""
    is_tested = np.isfinite(run.accuracy) & np.isfinite(x)
    window = final_rounds(run.accuracy.size)
    return x[is_tested], smoothed(run.rounds[is_tested], run.accuracy[is_tested], window)
