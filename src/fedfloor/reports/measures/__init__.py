"""Runs as arrays -> what figures show: the one home of these computations, for pictures and page alike.

Pure functions of `arrays.lay_out(collection)`. Unknown is nan, endless is inf.
"""

__all__ = [
    "PHASES",
    "SPENDERS",
    "Curve",
    "Cuts",
    "DataHeld",
    "Divergence",
    "Failures",
    "Participation",
    "PlantMap",
    "Rates",
    "Split",
    "Timeline",
    "Tradeoff",
    "accuracy_over_rounds",
    "accuracy_over_time",
    "cuts",
    "data_held",
    "delay_over_rounds",
    "divergence",
    "energy_split",
    "failures",
    "participation",
    "phase_times",
    "plant_map",
    "rates",
    "time_split",
    "timeline",
    "tradeoffs",
]

from fedfloor.reports.measures.curves import Curve, accuracy_over_rounds, accuracy_over_time, delay_over_rounds
from fedfloor.reports.measures.layout import DataHeld, PlantMap, data_held, plant_map
from fedfloor.reports.measures.spending import (
    PHASES,
    SPENDERS,
    Cuts,
    Split,
    Timeline,
    cuts,
    energy_split,
    phase_times,
    time_split,
    timeline,
)
from fedfloor.reports.measures.sweep import Tradeoff, tradeoffs
from fedfloor.reports.measures.taking_part import (
    Divergence,
    Failures,
    Participation,
    Rates,
    divergence,
    failures,
    participation,
    rates,
)
