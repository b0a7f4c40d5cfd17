"""Run logs -> tables, figures and one page to look at.

`fedfloor.report` is a function as well as this package; whichever of them Python finds under that name can be called.
"""

__all__: list[str] = []

import importlib
import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # By name, as a call comes from outside: nothing in here depends on what lies below it.
        return importlib.import_module("fedfloor.api").report(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
