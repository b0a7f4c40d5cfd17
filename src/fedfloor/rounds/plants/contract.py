"""What rounds run on: the contract that every plant keeps, simulated, learning or real."""

__all__ = ["Plant", "PlantState", "numbers_from", "numbers_to"]

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
from pydantic import JsonValue

from fedfloor.arrays import Floats
from fedfloor.errors import shown
from fedfloor.rounds.outcome import Outcome
from fedfloor.scenario.resolved import Scenario
from fedfloor.scheduling.state import Decision, RoundState


@dataclass(frozen=True, slots=True, eq=False)
class PlantState:
    """Everything a plant needs to continue between two rounds, in the form in which a checkpoint keeps it."""

    index: int  #: number of the next round
    values: Mapping[str, JsonValue]  #: by key of the checkpoint's JSON file
    weights: Mapping[str, npt.NDArray[np.generic]]  #: tensors of the model by name; empty without one
    memory: Mapping[str, npt.NDArray[np.generic]] = field(default_factory=dict)  #: other tensors that the plant keeps


class Plant(Protocol):
    """What rounds run on; the loop, the log, checkpoints and reports know nothing else of it."""

    @property
    def index(self) -> int:
        """Number of the next round, counted from 0."""

    @property
    def scenario(self) -> Scenario:
        """The scenario it carries out."""

    @property
    def redraws_weather(self) -> bool:
        """Whether the scenario's seed gives the weather of any round again; if not, records carry the weather."""

    def observe(self) -> RoundState:
        """What a scheduler may know at the start of the round."""

    def execute(self, decision: Decision) -> Outcome:
        """Carry the decision out."""

    def settle(self, queue: Floats) -> None:
        """Close the round with the queues (M,) of the next one."""

    def snapshot(self) -> PlantState:
        """The plant's state between two rounds."""

    def restore(self, state: PlantState) -> None:
        """Continue from a state that a plant of the same scenario left; a state that does not fit is a ValueError."""


def numbers_from(
    values: Mapping[str, JsonValue], key: str, size: int, *, gaps: bool = False, least: float = 0.0
) -> Floats:
    """The numbers under a key, (size,), none below `least`; with `gaps` some may be null, which gives nan.

    Raises a ValueError that names the key if the value is anything else.
    """
    try:
        numbers = np.array(values[key], float)
    except (KeyError, TypeError, ValueError, OverflowError):
        numbers = np.zeros(0)
    if numbers.shape != (size,) or np.any(numbers < least) or (not gaps and not np.isfinite(numbers).all()):
        allowed = "numbers" if least == -np.inf else f"numbers >= {least:g}"
        raise ValueError(f"{key} must be {size} {allowed}, got {shown(values.get(key))}")
    return numbers


def numbers_to(numbers: Floats) -> JsonValue:
    """Numbers (size,) as a checkpoint keeps them, with null for nan; `numbers_from` reads them."""
    return [None if np.isnan(number) else number for number in numbers.tolist()]
