"""Base class of every table that a person writes: frozen, with advice on unknown keys."""

__all__ = ["Flag", "Int0", "Int1", "Level", "PositiveReal", "Section", "finding", "is_same"]

import math
from typing import Annotated, TypeGuard

from pydantic import BaseModel, ConfigDict, Field, Strict, model_validator
from pydantic_core import PydanticCustomError

from fedfloor.errors import advice_for, shown
from fedfloor.units import rescaled, split_suffix

# Plain values of a scenario: neither text nor true and false pass for a number, and no value can overflow later.
Flag = Annotated[bool, Strict()]
Int0 = Annotated[int, Strict(), Field(ge=0, le=2**53)]
Int1 = Annotated[int, Strict(), Field(ge=1, le=10**9)]
PositiveReal = Annotated[float, Strict(), Field(ge=1e-30, le=1e30)]
Level = Annotated[float, Strict(), Field(ge=-500, le=500)]  #: in dB or dBm


class Section(BaseModel):
    """A table of a scenario file."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        defer_build=True,  # many a command needs few of the sections
    )

    @model_validator(mode="before")
    @classmethod
    def _keys_are_known(cls, data: object) -> object:
        for key, value in data.items() if isinstance(data, dict) else ():
            if key not in cls.model_fields:
                name = key if isinstance(key, str) else shown(key)
                raise finding(_about_key(name, value, cls), below=name)
        return data


def finding(problem: str, *, below: str = "") -> PydanticCustomError:
    """Validation error in our own words; `below` is the path from the section that reports it to the wrong value."""
    return PydanticCustomError("finding", "{problem}", {"problem": problem, "below": below})


def is_same(value: object, other: object) -> bool:
    """Whether two values of a setting are equal and of one type, as 1 and true are not.

    Types first, because values of a policy may be arrays, for example.
    """
    return type(value) is type(other) and value == other


def _about_key(key: str, value: object, section: type[BaseModel]) -> str:
    """Why the key is unknown in this section, and what to write instead."""
    stem, suffix = split_suffix(key)
    for field in section.model_fields:
        field_stem, field_suffix = split_suffix(field)
        if field_suffix and stem == field_stem:
            problem = f"wrong unit suffix '{suffix}'" if suffix else "the unit is missing"
            number = rescaled(value, suffix, field_suffix) if _is_number(value) else None
            correction = f"{field} = {number:.12g}" if number is not None else field
            return f"{problem}, got {shown(value)}. Write `{correction}`"
    return f"unknown key. {advice_for(key, section.model_fields)}"


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
