"""Trust: code that a file names runs only if the user asks for it. What the user names is asked for."""

__all__ = ["refuse_code"]

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from fedfloor.errors import ScenarioError, shown
from fedfloor.scenario import Scenario, ScenarioFile


def refuse_code(
    scenario: ScenarioFile | Scenario,
    *sections: Literal["policy", "model", "data", "aggregation"],
    file: str | Path,
    own: bool,
    overrides: Sequence[str] = (),
) -> None:
    """Refuse to run the code that a scenario names in these sections, unless it is trusted.

    All of it is with `own`, and so is a name that one of the `overrides` gives, because the user wrote it.
    """
    written = {override.partition("=")[0].strip() for override in overrides}
    for section in sections:
        key = "rule" if section == "aggregation" else "name"
        name = getattr(getattr(scenario, section), key)
        is_code = scenario.data.kind == "own" if section == "data" else ":" in name  # a path of files may have a colon
        if own or not is_code or not written.isdisjoint((section, f"{section}.{key}")):
            continue
        problem = f"{file}: {section}.{key}: names code that would run, {shown(name)}"
        raise ScenarioError(f"{problem}. If you trust that code, add --own, or own=True in Python")
