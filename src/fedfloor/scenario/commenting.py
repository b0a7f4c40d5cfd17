"""A preset as a file to start from: its own text, with the sentence of the schema beside each key's first use."""

__all__ = ["commented"]

import re
from collections.abc import Iterator
from typing import Any

from fedfloor.scenario.schema import scenario_schema

_WIDTH = 120  #: letters of a line up to which a comment stands behind its key; a longer one stands above
_HEAD = """\
# Started from the preset `{name}`. Change what differs in your plant, then run `fedfloor check` on this file.
#
# A number can be a plain value, a list with one value each, or a distribution that is drawn from the seed:
# 0.6, [0.6, 0.8, 1.0], {{uniform = [0.1, 1.0]}}, {{normal = [0.6, 0.1]}}, {{choice = [0.6, 0.8]}}.
# The end of a key is its unit. Letters such as f_n are the symbols of the paper.
#
"""


def commented(name: str, text: str) -> str:
    """The text of a preset with a comment for every key where it first occurs, unless it has one already."""
    return _HEAD.format(name=name) + "\n".join(_lines(text)) + "\n"


def _lines(text: str) -> Iterator[str]:
    schema: Any = scenario_schema()
    section, seen, open_brackets, is_explained = schema, set[tuple[str, str]](), 0, False
    for line in text.splitlines():
        header = re.match(r"\[+([\w.-]+)\]+", line) if not open_brackets else None
        entry = re.match(r"(\w+) = ", line) if not open_brackets else None
        if header is not None:
            section = _section(schema, header[1].split("."))
        if entry is not None:
            place = (section.get("title", ""), entry[1])
            sentence = section["properties"][entry[1]].get("description", "")
            if sentence and place not in seen and not is_explained and "#" not in line:
                short = f"{line} # {sentence}"
                is_short = len(short) <= _WIDTH and not line.endswith("[")
                yield from [short] if is_short else [f"# {sentence}", line]
            else:
                yield line
            seen.add(place)
        else:
            yield line
        open_brackets += line.count("[") - line.count("]") if header is None and not line.startswith("#") else 0
        is_explained = line.startswith("#")


def _section(schema: Any, path: list[str]) -> Any:
    """The schema of the table that a header opens: `hardware.pi4`, `floors.devices`."""
    place = schema
    for key in path:
        below = place["properties"][key] if "properties" in place else place["additionalProperties"]
        below = next((part for part in below.get("anyOf", [below]) if part.get("type") != "null"), below)
        below = below.get("items", below)
        place = schema["$defs"][below["$ref"].rpartition("/")[2]] if "$ref" in below else below
    return place
