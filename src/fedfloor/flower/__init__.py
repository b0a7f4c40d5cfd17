"""Flower with resource-aware rounds and simulated time: the only place that imports flwr.

>>> from flwr.serverapp.strategy import FedAvg
>>> from fedfloor.flower import FedFloor
>>> strategy = FedFloor(FedAvg(), "quick", policy="ddsra:v=1")
"""

__all__ = ["FedFloor", "introduce"]

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedfloor.errors import MissingExtraError

if TYPE_CHECKING:
    from fedfloor.flower.nodes import introduce
    from fedfloor.flower.strategy import FedFloor

#: name -> its module
_HOMES = {"FedFloor": "strategy", "introduce": "nodes"}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import Flower when one of its names is first used, and say how it is installed if it is missing."""
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    try:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "flwr":
            raise
        raise MissingExtraError("fedfloor.flower", "flower") from error
