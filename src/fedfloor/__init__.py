"""Low-latency federated learning on factory floors.

>>> import fedfloor
>>> scenario = fedfloor.load("quick")
>>> len(scenario.floors)
6
"""

__all__ = [
    "Comparison",
    "FedfloorError",
    "Run",
    "__version__",
    "check",
    "compare",
    "evaluate",
    "holding",
    "load",
    "load_model",
    "measure",
    "plan",
    "profile",
    "read",
    "report",
    "run",
    "simulate",
    "tradeoff",
    "vary",
    "watch",
]

from typing import TYPE_CHECKING, Any

from fedfloor.errors import FedfloorError

if TYPE_CHECKING:
    from fedfloor.api import (
        Comparison,
        Run,
        check,
        compare,
        evaluate,
        holding,
        load,
        load_model,
        measure,
        plan,
        profile,
        read,
        report,
        run,
        simulate,
        tradeoff,
        vary,
        watch,
    )

__version__ = "0.1.0"


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import the functions when they are first used, so that `import fedfloor` stays quick."""
    if name in __all__:
        from fedfloor import api

        return getattr(api, name)
    raise AttributeError(f"module 'fedfloor' has no attribute '{name}'")
