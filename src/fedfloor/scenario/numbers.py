"""Numbers of a scenario: a plain value, one value per member of a group, or a distribution to draw from."""

__all__ = ["Choice", "Normal", "Number", "Range", "Uniform", "draw"]

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias, overload

import numpy as np
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, JsonValue
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from fedfloor.arrays import Bools, Floats
from fedfloor.errors import shown
from fedfloor.scenario.section import finding

#: how often at most a normal draw outside the allowed range is repeated
_REDRAWS = 10_000
_LARGEST = 1e30  #: unless a key says otherwise
_SMALLEST = 1e-90  #: values that are not 0 are larger, so that nothing underflows later


@dataclass(frozen=True, slots=True)
class Uniform:
    """Uniform distribution on [low, high]; whole numbers, both ends included, if the key counts something."""

    low: float
    high: float
    key: ClassVar[str] = "uniform"

    def toml_value(self) -> dict[str, JsonValue]:
        """Table that stands for the distribution in a scenario file."""
        return {self.key: [self.low, self.high]}


@dataclass(frozen=True, slots=True)
class Normal:
    """Normal distribution, truncated to the range of the key."""

    mean: float
    deviation: float
    key: ClassVar[str] = "normal"

    def toml_value(self) -> dict[str, JsonValue]:
        """Table that stands for the distribution in a scenario file."""
        return {self.key: [self.mean, self.deviation]}


@dataclass(frozen=True, slots=True)
class Choice:
    """Draw of one of the values, all equally likely."""

    values: tuple[float, ...]
    key: ClassVar[str] = "choice"

    def toml_value(self) -> dict[str, JsonValue]:
        """Table that stands for the distribution in a scenario file."""
        return {self.key: list(self.values)}


Distribution: TypeAlias = Uniform | Normal | Choice
Number: TypeAlias = float | tuple[float, ...] | Distribution


@dataclass(frozen=True, slots=True)
class Range:
    """Allowed range of a number in a scenario; `Annotated[Number, Range(above=0)]` validates the key."""

    above: float = -math.inf
    at_least: float = -math.inf
    at_most: float = _LARGEST  #: inf: an infinite value is allowed
    whole: bool = False
    advice: str = "Change the value"  #: for a value outside

    def parse(self, raw: object) -> Number:
        """Check a number as TOML gives it, and convert it."""
        if isinstance(raw, dict):
            return self._distribution(raw)
        if isinstance(raw, list | tuple):
            if not raw:
                raise finding("must not be an empty list, got []. Give one value per member of the group")
            return tuple(self.single(value) for value in raw)
        return raw if isinstance(raw, Uniform | Normal | Choice) else self.single(raw)

    def single(self, raw: object) -> float:
        """Check a single plain value, and convert it."""
        if isinstance(raw, bool) or not isinstance(raw, int | float):
            raise finding(f"must be a number, a list or a distribution such as {{uniform = [1, 2]}}, got {shown(raw)}")
        try:
            value = float(raw)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value) and value != self.at_most:
            raise finding(f"must be finite, got {shown(raw)}. {self.advice}")
        if self.whole and value != round(value):
            raise finding(f"must be a whole number, got {shown(raw)}. Round it")
        if 0.0 < abs(value) <= _SMALLEST:
            zero = "" if self.above >= 0.0 else "0 or "
            raise finding(f"must be {zero}> {_SMALLEST:g}, got {shown(raw)}. {self.advice}")
        if not self.holds(value):
            raise finding(f"must be {self.words()}, got {shown(raw)}. {self.advice}")
        return value

    @overload
    def holds(self, value: float) -> bool: ...
    @overload
    def holds(self, value: Floats) -> Bools: ...
    def holds(self, value: Any) -> Any:
        """Whether the value is in the range, or each value of an array."""
        inside = (value > self.above) & (value >= self.at_least) & (value <= self.at_most)
        return inside & ((value == 0.0) | (abs(value) > _SMALLEST))

    def words(self) -> str:
        """The range in words."""
        parts = [f"> {self.above:g}"] if self.above > -math.inf else []
        parts += [f">= {self.at_least:g}"] if self.at_least > -math.inf else []
        parts += [f"<= {self.at_most:g}"] if self.at_most < _LARGEST or not parts else []
        return " and ".join(parts) or "finite"

    def _distribution(self, raw: dict[str, object]) -> Distribution:
        if len(raw) != 1 or next(iter(raw)) not in _DISTRIBUTIONS:
            forms = "{uniform = [low, high]}, {normal = [mean, deviation]} or {choice = [a, b, ...]}"
            raise finding(f"is not a distribution, got {shown(raw)}. Write {forms}")
        key, values = next(iter(raw.items()))
        if not isinstance(values, list | tuple):
            raise finding(f"{key} takes a list, got {shown(values)}")
        finite = replace(self, at_most=min(self.at_most, _LARGEST))
        return _DISTRIBUTIONS[key](finite, list(values))

    def _uniform(self, values: list[object]) -> Uniform:
        if len(values) != 2:
            raise finding(f"uniform takes [low, high], got {shown(values)}")
        # The lower end may be the excluded end of the range: {uniform = [0, 1]} for a positive key draws from (0, 1].
        low = replace(self, above=-math.inf, at_least=max(self.at_least, self.above)).single(values[0])
        high = self.single(values[1])
        if low > high:
            raise finding(f"uniform needs low <= high, got {shown(values)}. Swap the two")
        return Uniform(low, high)

    def _normal(self, values: list[object]) -> Normal:
        if len(values) != 2:
            raise finding(f"normal takes [mean, deviation], got {shown(values)}")
        return Normal(self.single(values[0]), Range(at_least=0.0).single(values[1]))

    def _choice(self, values: list[object]) -> Choice:
        if not values:
            raise finding("choice needs at least one value, got []")
        return Choice(tuple(self.single(value) for value in values))

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self.parse, serialization=core_schema.plain_serializer_function_ser_schema(self.toml_value)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        plain: JsonSchemaValue = {"type": "integer" if self.whole else "number"}
        if self.above > -math.inf:
            plain["exclusiveMinimum"] = self.above
        if self.at_least > -math.inf:
            plain["minimum"] = self.at_least
        if self.at_most < math.inf:
            plain["maximum"] = self.at_most
        pair = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
        several = {"type": "array", "items": plain, "minItems": 1}
        tables = [
            {"type": "object", "properties": {key: shape}, "required": [key], "additionalProperties": False}
            for key, shape in (("uniform", pair), ("normal", pair), ("choice", several))
        ]
        return {"anyOf": [plain, several, *tables]}

    def toml_value(self, number: Number) -> JsonValue:
        """Value that stands for the number in a scenario file; whole numbers have no decimal point."""
        if isinstance(number, tuple):
            return [self.toml_value(value) for value in number]
        if isinstance(number, int | float):
            return int(number) if self.whole else number
        return number.toml_value()


_DISTRIBUTIONS: dict[str, Callable[[Range, list[object]], Distribution]] = {
    "uniform": Range._uniform,  # noqa: SLF001
    "normal": Range._normal,  # noqa: SLF001
    "choice": Range._choice,  # noqa: SLF001
}


def draw(number: Number, count: int, allowed: Range, rng: np.random.Generator) -> Floats:
    """Plain values of a number, (count,): one value repeated, the list itself, or draws from the distribution."""
    match number:
        case Uniform(low, high) if allowed.whole:
            first = low + 1 if low == allowed.above else low
            return rng.integers(round(first), round(high), size=count, endpoint=True).astype(float)
        case Uniform(low, high):
            return high - (high - low) * rng.random(count)  # (low, high]: an open lower end stays out
        case Normal(mean, deviation):
            return _truncated_normal(mean, deviation, count, allowed, rng)
        case Choice(values):
            return rng.choice(np.asarray(values), size=count)
        case tuple(values):
            assert len(values) == count
            return np.asarray(values, dtype=float)
        case float(value):
            return np.full(count, value)


def _truncated_normal(mean: float, deviation: float, count: int, allowed: Range, rng: np.random.Generator) -> Floats:
    """Draws from a normal distribution; those outside the range are repeated."""

    def sample(size: int) -> Floats:
        values = rng.normal(mean, deviation, size)
        return np.round(values) if allowed.whole else values

    values = sample(count)
    for _ in range(_REDRAWS):
        outside = ~allowed.holds(values)
        if not outside.any():
            break
        values[outside] = sample(int(outside.sum()))
    return values
