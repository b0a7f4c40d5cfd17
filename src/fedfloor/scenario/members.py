"""Many frozen models at once, from one column of values per field: a plant can have a million devices."""

__all__ = ["Kind", "members", "validated"]

import gc
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

Kind = TypeVar("Kind", bound=BaseModel)


def members(kind: type[Kind], columns: Mapping[str, Sequence[Any]]) -> list[Kind]:
    """One model per row of columns whose values are valid; fields without a column have their defaults.

    The result is that of `kind.model_construct` for every row, which looks up every field in every row.
    """
    count, given = len(next(iter(columns.values()))), set(columns)  # one set for all, because they are frozen
    filled = [
        columns[name] if name in columns else itertools.repeat(field.get_default(call_default_factory=True), count)
        for name, field in kind.model_fields.items()
    ]
    names, made, write = tuple(kind.model_fields), list[Kind](), object.__setattr__
    with _nothing_collected():
        for row in zip(*filled, strict=True):
            member = kind.__new__(kind)
            write(member, "__dict__", dict(zip(names, row, strict=True)))
            write(member, "__pydantic_fields_set__", given)
            write(member, "__pydantic_extra__", None)
            write(member, "__pydantic_private__", None)
            made.append(member)
    return made


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Keep Python from searching for garbage among objects that are all in use: a quarter of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def validated(kind: type[BaseModel], columns: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """The columns as the fields of the model accept them; the error is that of the first row that is wrong."""
    try:
        return {name: _adapter(kind, name).validate_python(column) for name, column in columns.items()}
    except ValidationError:
        for row in zip(*columns.values(), strict=True):
            kind.model_validate(dict(zip(columns, row, strict=True)))
        raise


@cache
def _adapter(kind: type[BaseModel], name: str) -> TypeAdapter[list[Any]]:
    column: Any = list[kind.model_fields[name].rebuild_annotation()]  # type: ignore[misc]  # known only here
    return TypeAdapter(column)
