"""Validation errors in one line: the path, what is required, what was found and what to do."""

__all__ = ["one_line"]

from collections.abc import Mapping, Sequence
from datetime import date

from pydantic import ValidationError

from fedfloor.errors import named, shown


def one_line(
    error: ValidationError, label: str, *, reference: str = "`fedfloor schema` describes every key", remedy: str = ""
) -> str:
    """Text of the first error, and the number of further ones.

    `reference` says where keys are described. A `remedy`, if given, is the advice of every error instead.
    """
    findings = error.errors()
    # A list whose only entry is wrong counts as empty too; the entry is what the reader has to fix.
    inner = {finding["loc"][:depth] for finding in findings for depth in range(len(finding["loc"]))}
    findings = [finding for finding in findings if finding["type"] != "too_short" or finding["loc"] not in inner]
    first = findings[0]
    path = _path(first["loc"])
    if first["type"] == "finding":
        below, problem = first["ctx"]["below"], first["ctx"]["problem"]
        path = f"{path}.{below}" if path and below else path or below
    else:
        problem, advice = _in_words(first["type"], first["msg"], first.get("ctx", {}), first["input"], reference)
        problem = f"{problem}. {advice}" if advice and not remedy else problem
    problem = problem.rstrip(".")
    if remedy and remedy not in problem:
        problem = f"{problem}{'' if problem.endswith('?') else '.'} {remedy}"
    more = f" ({len(findings) - 1} more after this one)" if len(findings) > 1 else ""
    place = f"{label}: {named(path)}: " if path else f"{label}: "
    return f"{place}{problem}{'' if problem.endswith('?') else '.'}{more}"


def _in_words(kind: str, message: str, context: Mapping[str, object], value: object, reference: str) -> tuple[str, str]:
    """One of pydantic's own errors in our form: what is required and what was found, and what to do."""
    if kind == "missing":
        return "is missing", f"Add it; {reference}"
    if kind == "value_error":
        return str(context["error"]), ""
    if kind == "too_short":
        return "must not be empty", "Add at least one entry"
    got = "" if isinstance(value, dict) else f", got {value if isinstance(value, date) else shown(value)}"
    words = {
        "string_pattern_mismatch": "must begin with a letter or digit and hold only letters, digits, '.', '_' and '-'",
        "bool_type": "must be true or false",
        "int_type": "must be a whole number",
        "float_type": "must be a number",
        "string_type": "must be a string in quotes",
        "tuple_type": "must be a list",
        "model_type": "must be a table",
        "model_attributes_type": "must be a table",
        "dict_type": "must be a table",
    }
    if kind in words:
        return f"{words[kind]}{got}", reference
    limits = {"greater_than": ("gt", ">"), "greater_than_equal": ("ge", ">="), "less_than": ("lt", "<"),
              "less_than_equal": ("le", "<=")}  # fmt: skip
    if kind in limits:
        name, sign = limits[kind]
        return f"must be {sign} {context[name]:g}{got}", f"Change it; {reference}"
    if kind == "string_too_long":
        return f"must have at most {context['max_length']} characters{got}", "Shorten it"
    if kind == "finite_number":
        return f"must be finite{got}", f"Change it; {reference}"
    return f"{message[0].lower()}{message[1:]}{got}", reference


def _path(location: Sequence[str | int]) -> str:
    """Path as our messages write it: `("floors", 0, "gateway")` becomes `floors[0].gateway`."""
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path
