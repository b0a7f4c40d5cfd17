"""Run logs -> tables, figures and one page to look at.

Importing anything from this package binds the name `fedfloor.report` to the package, which hides the public function
`fedfloor.report`. The package is therefore callable and passes every call on to that function.
"""

import sys
from importlib import import_module
from types import ModuleType


class _CallablePackage(ModuleType):
    def __call__(self, *arguments: object, **options: object) -> object:
        # By name: the public functions stand above this package, and only this alias refers to one of them.
        return import_module("fedfloor.api").report(*arguments, **options)


sys.modules[__name__].__class__ = _CallablePackage
