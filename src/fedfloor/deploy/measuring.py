"""Measure the layers of a plant's network on this machine, before its first round."""

__all__ = ["CostMeter"]

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from fedfloor.costs.hardware import HardwareProfile
from fedfloor.errors import FedfloorError
from fedfloor.runs.measure import Target, measured_profile, representative
from fedfloor.runs.profile import inferred_layers
from fedfloor.scenario.model import Costs, Model

_LOG = logging.getLogger(__name__)
_SECONDS = 2.0  #: about how long steps are timed; a large network takes longer, because it needs a few steps


@dataclass(slots=True, eq=False)
class CostMeter:
    """Measures one network after the other, each only once; the devices of a process share it."""

    frequency: float | None = None  #: [Hz] of the processor; None: as the machine says
    seconds: float = _SECONDS
    _turn: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)
    _known: list[tuple[Target, HardwareProfile]] = field(init=False, default_factory=list)

    async def costs(self, model: Model, batches: Sequence[int]) -> HardwareProfile | None:
        """Seconds and bytes of each layer with some of these batches; None if that cannot be measured here.

        A machine that cannot measure says why in its log and takes part nevertheless.
        """
        async with self._turn:
            try:
                return await asyncio.to_thread(self._measured, model, representative(batches))
            except (FedfloorError, MemoryError, RuntimeError, ValueError) as error:  # torch raises RuntimeErrors
                _LOG.warning("The layers are not measured, so their costs follow from the scenario: %s", error)
                return None

    def _measured(self, model: Model, batches: tuple[int, ...]) -> HardwareProfile:
        target = Target(model, inferred_layers(model, Costs(), model.name), batches)
        for known, profile in self._known:
            if known == target:
                return profile
        profile = measured_profile(target, frequency=self.frequency, seconds=self.seconds)
        self._known.append((target, profile))
        clock = f"{profile.frequency_hz / 1e9:.3g} GHz ({profile.frequency_source})"
        sizes = ", ".join(map(str, batches))
        _LOG.info("Measured %d layers in one thread at %s, batch %s.", len(target.layers), clock, sizes)
        return profile
