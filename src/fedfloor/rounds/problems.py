"""What is wrong with data that was read from JSON, in words."""

__all__ = ["problem_of"]

from collections.abc import Mapping

from pydantic import ValidationError

from fedfloor.errors import shown


def problem_of(error: ValidationError) -> str:
    """The first problem of data that was read from JSON: its path, what it must be and what it is."""
    first = error.errors(include_url=False)[0]
    path = ""
    for step in first["loc"]:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    if first["type"] == "missing":
        return f"has no '{path}'"
    context: Mapping[str, object] = first.get("ctx", {})
    if first["type"] == "json_invalid":
        return f"is not JSON: {context['error']}"
    must = {
        "bool_type": "be true or false",
        "int_type": "be a whole number",
        "float_type": "be a number",
        "string_type": "be a string",
        "tuple_type": "be a list",
        "list_type": "be a list",
        "dataclass_type": "be a table",
        "model_type": "be a table",
        "string_too_short": "not be empty",
        "too_short": "not be empty",
        "finite_number": "be finite",
        "greater_than_equal": f"be >= {context.get('ge')}",
        "less_than_equal": f"be <= {context.get('le')}",
    }.get(first["type"])
    problem = f"{f'must {must}' if must else first['msg']}, got {shown(first['input'])}"
    return f"{path}: {problem}" if path else problem
