"""What a run folder says of its run that neither scenario nor log does; most runs have no such file."""

__all__ = ["ABOUT", "About"]

from dataclasses import dataclass
from typing import Literal

ABOUT = "about.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Facts about a run; None where a run is like most others."""

    ended: str | None = None  #: the condition that ended it before its last round, such as `until_accuracy=0.8`
    strategy: str | None = None  #: of Flower, by which models were aggregated
    tests: Literal["nodes"] | None = None  #: who tested the model on data of their own, if there was no test set
    clock: Literal["modelled"] | None = None  #: whether times of real machines are those of the cost model
