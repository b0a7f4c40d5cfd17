"""Kinds of fields of a message: how each is written into a protobuf body and read from it, and what it may hold."""

__all__ = [
    "Document",
    "Entries",
    "Field",
    "Flag",
    "Kind",
    "Layout",
    "LinkError",
    "Numbers",
    "Real",
    "Reals",
    "Text",
    "Whole",
    "Wholes",
    "fields_of",
    "is_finite",
]

import math
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Protocol, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from fedfloor.errors import FailedRunError, shown

#: types that tensors may have on the wire; all little endian
DTYPES = {name: np.dtype(name).newbyteorder("<") for name in ("float32", "float16", "int64", "int16", "int8", "uint8")}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
MOST_DIMENSIONS = 8
MOST_BYTES = 2**31  #: of a tensor, whatever the receiver expects


class LinkError(FailedRunError):
    """A message that is refused, or a connection that ended."""


class Kind(Protocol):
    """How a field is written and read; `place` names message and field in errors."""

    def write(self, body: Any, name: str, value: Any) -> None:
        """Set the field of a protobuf body."""

    def read(self, body: Any, name: str, place: str) -> Any:
        """Return the field's value; raises a LinkError if it holds what it must not."""


@dataclass(frozen=True, slots=True)
class Text:
    """A short text."""

    most: int  #: [byte] in UTF-8
    shorten: bool = False  #: longer texts are cut off when written, for remarks to people

    def write(self, body: Any, name: str, value: str) -> None:
        """Set the field."""
        data = value.encode("utf-8", "replace")
        if self.shorten:
            data = data[: self.most]
        setattr(body, name, data.decode("utf-8", "ignore"))

    def read(self, body: Any, name: str, place: str) -> str:
        """Return the text."""
        value: str = getattr(body, name)
        length = len(value.encode("utf-8"))
        if length > self.most:
            raise LinkError(f"{place}: {length:,} bytes of text, at most {self.most:,} are allowed.")
        return value


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number from 0."""

    most: int = 2**31 - 1

    def write(self, body: Any, name: str, value: int) -> None:
        """Set the field."""
        setattr(body, name, int(value))

    def read(self, body: Any, name: str, place: str) -> int:
        """Return the number."""
        value: int = getattr(body, name)
        if value > self.most:
            raise LinkError(f"{place}: {value} is more than {self.most}.")
        return value


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def write(self, body: Any, name: str, value: bool) -> None:
        """Set the field."""
        setattr(body, name, bool(value))

    def read(self, body: Any, name: str, place: str) -> bool:  # noqa: ARG002
        """Return the flag."""
        value: bool = getattr(body, name)
        return value


@dataclass(frozen=True, slots=True)
class Real:
    """A finite number."""

    least: float = 0.0

    def write(self, body: Any, name: str, value: float) -> None:
        """Set the field."""
        setattr(body, name, float(value))

    def read(self, body: Any, name: str, place: str) -> float:
        """Return the number."""
        value: float = getattr(body, name)
        if not math.isfinite(value) or value < self.least:
            raise LinkError(f"{place}: must be {_range(self.least)}, got {value}.")
        return value


@dataclass(frozen=True, slots=True)
class Reals:
    """Several finite numbers, as an array of float64."""

    most: int  #: how many
    least: float = 0.0

    def write(self, body: Any, name: str, value: npt.NDArray[np.float64]) -> None:
        """Set the field."""
        getattr(body, name).extend(value.tolist())

    def read(self, body: Any, name: str, place: str) -> npt.NDArray[np.float64]:
        """Return the numbers."""
        values = getattr(body, name)
        _check_count(len(values), self.most, place)
        array = np.array(values, np.float64)
        wrong = ~(np.isfinite(array) & (array >= self.least))
        if wrong.any():
            raise LinkError(f"{place}[{wrong.argmax()}]: must be {_range(self.least)}, got {array[wrong.argmax()]}.")
        return array


@dataclass(frozen=True, slots=True)
class Wholes:
    """Several whole numbers from 0, as an array of int64."""

    most: int  #: how many
    largest: int

    def write(self, body: Any, name: str, value: npt.NDArray[np.int64]) -> None:
        """Set the field."""
        getattr(body, name).extend(value.tolist())

    def read(self, body: Any, name: str, place: str) -> npt.NDArray[np.int64]:
        """Return the numbers."""
        values = getattr(body, name)
        _check_count(len(values), self.most, place)
        if max(values, default=0) > self.largest:
            raise LinkError(f"{place}: {max(values)} is more than {self.largest}.")
        return np.array(values, np.int64)


@dataclass(frozen=True, slots=True)
class Entries:
    """Several small messages of one kind, as a tuple."""

    kind: type[Any]
    most: int  #: how many

    def write(self, body: Any, name: str, value: tuple[Any, ...]) -> None:
        """Set the field."""
        for entry in value:
            part = getattr(body, name).add()
            for field in fields_of(self.kind):
                if (content := getattr(entry, field.name)) is not None:
                    field.kind.write(part, field.name, content)

    def read(self, body: Any, name: str, place: str) -> tuple[Any, ...]:
        """Return the small messages."""
        parts = getattr(body, name)
        _check_count(len(parts), self.most, place)
        return tuple(
            self.kind(**{field.name: field.value_in(part, f"{place}[{at}]") for field in fields_of(self.kind)})
            for at, part in enumerate(parts)
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """The type and the shape of a tensor: of one that is there, or of one that the receiver expects."""

    dtype: str
    shape: tuple[int, ...]
    at_most: bool = False  #: expected: the first dimension may also be smaller

    @property
    def size(self) -> int:
        """Bytes of the tensor."""
        return DTYPES[self.dtype].itemsize * math.prod(self.shape)

    def admits(self, other: "Layout") -> bool:
        """Whether a tensor of that layout is as expected."""
        if self.dtype != other.dtype or len(self.shape) != len(other.shape):
            return False
        return self.shape == other.shape or (
            self.at_most and self.shape[1:] == other.shape[1:] and other.shape[0] <= self.shape[0]
        )

    def __str__(self) -> str:
        shape = " x ".join(str(length) for length in self.shape) or "one number"
        return f"{self.dtype} of {'at most ' if self.at_most else ''}{shape}"


@dataclass(frozen=True, slots=True)
class Numbers:
    """A tensor; `read` returns only its layout, because its bytes may follow in chunks."""

    def write(self, body: Any, name: str, value: npt.NDArray[Any]) -> None:
        """Set dtype, shape and size."""
        dtype = _NAMES.get(value.dtype)
        if dtype is None:
            raise LinkError(f"{name}: tensors of {value.dtype.name} cannot be sent.")
        tensor = getattr(body, name)
        tensor.dtype, tensor.size = dtype, value.nbytes
        tensor.shape.extend(value.shape)

    def read(self, body: Any, name: str, place: str) -> Layout:
        """Return the layout of the tensor."""
        tensor = getattr(body, name)
        if tensor.dtype not in DTYPES:
            raise LinkError(f"{place}: unknown dtype {shown(tensor.dtype)}. Known: {', '.join(DTYPES)}.")
        if len(tensor.shape) > MOST_DIMENSIONS:
            raise LinkError(f"{place}: {len(tensor.shape)} dimensions, at most {MOST_DIMENSIONS} are allowed.")
        layout = Layout(tensor.dtype, tuple(tensor.shape))
        if layout.size > MOST_BYTES:
            raise LinkError(f"{place}: {layout}: {layout.size:,} bytes, at most {MOST_BYTES:,} are allowed.")
        if tensor.size != layout.size:
            raise LinkError(f"{place}: {layout} has {layout.size:,} bytes, but the message says {tensor.size:,}.")
        return layout


@dataclass(frozen=True, slots=True)
class Document(Numbers):
    """A text that may be long, such as JSON: on the wire a tensor of its bytes in UTF-8."""

    most: int  #: [byte]

    @property
    def layout(self) -> Layout:
        """The layout of the longest text."""
        return Layout("uint8", (self.most,), at_most=True)


@dataclass(frozen=True, slots=True)
class Field:
    """A row of the table that the annotations of a message are."""

    name: str
    kind: Kind
    is_optional: bool
    is_repeated: bool

    def value_in(self, body: Any, place: str) -> Any:
        """Return the value in a protobuf body, None if it may be missing and is; raises a LinkError."""
        if not self.is_repeated and not body.HasField(self.name):
            if self.is_optional:
                return None
            raise LinkError(f"{place}: the field '{self.name}' is missing.")
        return self.kind.read(body, self.name, f"{place}.{self.name}")


def fields_of(message: type[Any]) -> tuple[Field, ...]:
    """The fields of a message in their order, from its annotations."""
    kind: Any = message
    return _rows(kind)


@cache
def _rows(message: Any) -> tuple[Field, ...]:
    rows = []
    for name, hint in get_type_hints(message, include_extras=True).items():
        assert get_origin(hint) is Annotated, f"{message.__name__}.{name} says no kind"
        value, kind = get_args(hint)
        is_optional = isinstance(value, UnionType) and NoneType in get_args(value)
        rows.append(Field(name, kind, is_optional, isinstance(kind, Reals | Wholes | Entries)))
    return tuple(rows)


def is_finite(array: npt.NDArray[Any]) -> bool:
    """Whether no number of a tensor is infinite or NaN."""
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _check_count(count: int, most: int, place: str) -> None:
    if count > most:
        raise LinkError(f"{place}: {count:,} entries, at most {most:,} are allowed.")


def _range(least: float) -> str:
    return "a finite number" if least == -math.inf else f"a finite number of at least {least:g}"
