"""Base of everything a person writes: frozen, and helpful about keys it does not know."""

__all__ = ["Flag", "Int0", "Int1", "Level", "PositiveReal", "Section", "finding"]

import math
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, Strict, model_validator
from pydantic_core import PydanticCustomError

from fedfloor.errors import advice_for
from fedfloor.units import rescaled, split_suffix

# Plain values of a scenario: no text or truth value stands in for a number, and nothing overflows later.
Flag = Annotated[bool, Strict()]
Int0 = Annotated[int, Strict(), Field(ge=0, le=2**53)]
Int1 = Annotated[int, Strict(), Field(ge=1, le=10**9)]
PositiveReal = Annotated[float, Strict(), Field(ge=1e-30, le=1e30)]
Level = Annotated[float, Strict(), Field(ge=-500, le=500)]  #: in dB or dBm


class Section(BaseModel):
    """A table of a scenario file."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _keys_are_known(cls, data: Any) -> Any:
        for key in data if isinstance(data, dict) else ():
            if key not in cls.model_fields:
                raise finding(_about_key(key, data[key], cls), below=key)
        return data


def finding(problem: str, *, below: str = "") -> PydanticCustomError:
    """What is wrong with a value; `below` is the path from the section that says so to the value."""
    return PydanticCustomError("finding", "{problem}", {"problem": problem, "below": below})


def _about_key(key: str, value: Any, section: type[BaseModel]) -> str:
    """Why a key is not known here and what to write instead."""
    stem, suffix = split_suffix(key)
    for known in section.model_fields:
        known_stem, known_suffix = split_suffix(known)
        if known_suffix and stem == known_stem:
            problem = f"wrong unit suffix '{suffix}'" if suffix else "the unit is missing"
            number = rescaled(value, suffix, known_suffix) if _is_number(value) else None
            instead = f"{known} = {number:.12g}" if number is not None else known
            return f"{problem}, got {value!r}. Write `{instead}`"
    return f"unknown key. {advice_for(key, section.model_fields)}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
