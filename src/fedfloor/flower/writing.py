"""What `fedfloor flower new` writes: a Flower app in Flower's own layout, whose strategy is `FedFloor`."""

__all__ = ["app_files"]

import keyword
import re
import sys
from importlib.metadata import packages_distributions
from importlib.resources import files
from pathlib import Path

from fedfloor.errors import FedfloorError, shown

_TEMPLATE = "template"
_PROJECT = ("pyproject.toml", "README.md")  #: beside the package
_PACKAGE = ("__init__.py", "client_app.py", "server_app.py", "task.py", "plant.toml")
_NEEDED = {"fedfloor", "flwr", "numpy", "ray", "torch"}  #: packages of the app, also if they are not installed here
_LONGEST = 60  #: characters of a name, which becomes that of a scenario


def app_files(name: str) -> dict[Path, str]:
    """The files of an app of this name, by their paths in its folder."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(-[A-Za-z0-9]+)*", name) or len(name) > _LONGEST:
        problem = (
            f"must be letters, digits and single hyphens between them, at most {_LONGEST}, and begin with a letter"
        )
        raise FedfloorError(f"NAME: {problem}, got {shown(name)}. Name it as in `fedfloor flower new my-app`")
    package = name.replace("-", "_").lower()
    if keyword.iskeyword(package):
        raise FedfloorError(f"NAME: must not be a word of Python, got {shown(name)}. Choose another name")
    if package in {module.lower() for module in (*sys.stdlib_module_names, *_NEEDED, *packages_distributions())}:
        problem = (
            f"{shown(name)} is the name of a module of Python or of an installed package, which the app would hide"
        )
        raise FedfloorError(f"NAME: {problem}. Choose another name")
    chosen = {Path(file): file for file in _PROJECT} | {Path(package) / file: file for file in _PACKAGE}
    return {
        place: _text(file).replace("APP-NAME", name).replace("APP_PACKAGE", package) for place, file in chosen.items()
    }


def _text(file: str) -> str:
    """A file of the template; it ends in .txt there, because it is no code of this package."""
    return files(__package__).joinpath(_TEMPLATE, f"{file}.txt").read_text(encoding="utf-8")
