"""Test accuracy of a run, as the figures against rounds and against time show it."""

__all__ = ["NOT_TESTED", "NOT_TESTED_YET", "evaluations"]

import numpy as np

from fedfloor.arrays import Floats
from fedfloor.reports.arrays import RunArrays
from fedfloor.reports.statistics import averaged

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
    """Where on x (T,) a run was tested, and its accuracy there, averaged like the final accuracy."""
    is_tested = np.isfinite(run.accuracy) & np.isfinite(x)
    values = run.accuracy[is_tested]
    total = np.concatenate([[0.0], np.cumsum(values)])
    end = np.arange(1, values.size + 1)
    begin = np.maximum(0, end - averaged(values.size))
    return x[is_tested], (total[end] - total[begin]) / (end - begin)
