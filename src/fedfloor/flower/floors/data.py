"""The data of a scenario that server and floors share."""

__all__ = ["samples_of"]

from functools import lru_cache

from fedfloor.deploy.tasks import DeviceTask
from fedfloor.flower.floors.config import FloorsConfig
from fedfloor.runs.planned import load
from fedfloor.training.data.holding import gather
from fedfloor.training.data.samples import Samples


def samples_of(config: FloorsConfig, device: DeviceTask) -> Samples:
    """All data of the scenario that a device belongs to."""
    return _divided(config, device.seed, device.seed if device.plant_seed is None else device.plant_seed)


@lru_cache(maxsize=1)
def _divided(config: FloorsConfig, seed: int, plant_seed: int) -> Samples:
    """All data of the scenario, divided as `fedfloor run` divides it."""
    overrides = [*config.overrides, f"plant_seed={plant_seed}"]
    scenario = load(config.scenario, overrides, seed=seed, own=config.own)
    return gather(scenario, config.folder).samples
