"""The JSON schema of a scenario file, with the sentence below each key as its description."""

__all__ = ["scenario_schema"]

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise

from fedfloor.scenario.file import ScenarioFile
from fedfloor.scenario.section import Section


def scenario_schema() -> dict[str, object]:
    """The JSON schema of a scenario file."""
    _describe_keys()
    return ScenarioFile.model_json_schema()


@cache
def _describe_keys() -> None:
    """Give all keys their descriptions, once per process.

    pydantic could collect them when the classes are made, but every command would wait for that.
    """
    for section in _sections(Section):
        for name, text in _sentences(section).items():
            section.model_fields[name].description = text
    for section in _sections(Section):
        section.model_rebuild(force=True)


def _sections(base: type[Section]) -> list[type[Section]]:
    return [kind for child in base.__subclasses__() for kind in (child, *_sections(child))]


def _sentences(section: type[Section]) -> dict[str, str]:
    """The string below each key of a section, by key."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(section))).body
    assert isinstance(definition, ast.ClassDef)
    return {
        key.target.id: inspect.cleandoc(below.value.value)
        for key, below in pairwise(definition.body)
        if isinstance(key, ast.AnnAssign)
        and isinstance(key.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }
