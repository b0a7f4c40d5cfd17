"""Participation rates that are estimated from the devices' gradients (Sec. IV), and what is kept for them."""

__all__ = ["Estimates"]

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from pydantic import JsonValue

from fedfloor.arrays import Bools, Floats, Ints
from fedfloor.errors import shown
from fedfloor.rounds.plants.contract import numbers_from, numbers_to
from fedfloor.scenario.resolved import Scenario
from fedfloor.theory.participation import GradientStatistics, divergence_bound, participation_rates, uniform_rates


@dataclass(slots=True, eq=False)
class Estimates:
    """The statistics of the last estimate of every device, and the rates that follow from them."""

    scenario: Scenario
    batch: Ints  #: (N,) D~_n
    floor: Ints  #: (N,) floor of every device
    statistics: GradientStatistics | None = field(
        init=False, default=None
    )  #: of the last estimate, with the largest L_n and rho_n seen so far; nan for devices that never took part
    bound: Floats | None = field(
        init=False, default=None
    )  #: (M,) Phi_m of the last estimate; nan for floors without any device that took part
    gradient_square: float | None = field(
        init=False, default=None
    )  #: squared norm of the mean gradient at the last estimate
    _known: Bools = field(init=False)  #: (N,) devices that have taken part in an estimate

    def __post_init__(self) -> None:
        self._known = np.zeros(self.floor.size, bool)

    def learn(self, measured: GradientStatistics, took_part: Bools, gradient_square: float) -> None:
        """Take the statistics of the devices (N,) that took part in an estimate; the others keep their last ones."""
        before, known = self.statistics, self._known

        def kept(name: str, *, largest: bool) -> Floats:
            new, old = getattr(measured, name), np.full(took_part.size, np.nan)
            if before is not None:
                old = getattr(before, name)
            taken = np.where(known, np.maximum(old, new), new) if largest else new
            return np.where(took_part, taken, old)

        self.statistics = GradientStatistics(
            sigma=kept("sigma", largest=False),
            delta=kept("delta", largest=False),
            smoothness=kept("smoothness", largest=True),
            gradient_norm=kept("gradient_norm", largest=True),
        )
        self.gradient_square = gradient_square
        self._known = known | took_part
        self.bound = self._bound(self.statistics)

    @property
    def rates(self) -> Floats | None:
        """Gamma_m (M,), Eq. (13); None before the first estimate, uniform until every floor has been estimated."""
        if self.bound is None:
            return None
        channels, floors = self.scenario.radio.channels, self.bound.size
        estimated = np.bincount(self.floor[self._known], minlength=floors) > 0
        return participation_rates(self.bound, channels) if estimated.all() else uniform_rates(floors, channels)

    def _bound(self, statistics: GradientStatistics) -> Floats:
        """Phi_m (M,) of the devices that are known; nan for floors without any."""
        floors, training, known = len(self.scenario.floors), self.scenario.training, self._known
        bound = divergence_bound(
            GradientStatistics(*(part[known] for _, part in _parts(statistics))),
            batch=self.batch[known].astype(float),
            floor=self.floor[known],
            floors=floors,
            learning_rate=training.learning_rate,
            iterations=training.local_iterations,
        )
        return np.where(np.bincount(self.floor[known], minlength=floors) > 0, bound, np.nan)

    def snapshot(self) -> dict[str, JsonValue]:
        """What a checkpoint keeps."""
        statistics = self.statistics
        return {
            "gradient_square": self.gradient_square,
            "divergence_bound": None if self.bound is None else numbers_to(self.bound),
            "figures": None if statistics is None else {key: numbers_to(part) for key, part in _parts(statistics)},
        }

    def restore(self, values: Mapping[str, JsonValue], *, gaps: bool = False) -> None:
        """Continue from a snapshot; with `gaps` there may be devices that never took part."""
        square, statistics = values.get("gradient_square"), values.get("figures")
        if square is not None and not isinstance(square, int | float):
            raise ValueError(f"gradient_square must be a number or null, got {shown(square)}")
        self.gradient_square = None if square is None else float(square)
        if values.get("divergence_bound") is not None:
            self.bound = numbers_from(values, "divergence_bound", len(self.scenario.floors), gaps=True)
        if statistics is not None:
            if not isinstance(statistics, dict):
                raise ValueError(f"figures must be a table or null, got {shown(statistics)}")
            keys = [entry.name for entry in dataclasses.fields(GradientStatistics)]
            parts = (numbers_from(statistics, key, self.floor.size, gaps=gaps) for key in keys)
            self.statistics = GradientStatistics(*parts)
            self._known = ~np.isnan(self.statistics.gradient_norm)


def _parts(statistics: GradientStatistics) -> Iterator[tuple[str, Floats]]:
    return ((entry.name, getattr(statistics, entry.name)) for entry in dataclasses.fields(statistics))
