"""Base of everything a person writes: frozen, and helpful about keys it does not know."""

__all__ = ["Section", "finding"]

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from fedfloor.errors import advice_for
from fedfloor.units import rescaled, split_suffix


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
            number = rescaled(value, suffix, known_suffix) if isinstance(value, int | float) else None
            instead = f"{known} = {number:.12g}" if number is not None else known
            return f"wrong unit suffix '{suffix}', got {value!r}. Write `{instead}`."
    return f"unknown key. {advice_for(key, section.model_fields)}"
