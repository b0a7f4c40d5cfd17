"""Answers of commands in Python: tables as `--format json` prints them, whose keys are attributes too."""

__all__ = ["Answer"]

from typing import Any


class Answer(dict[str, Any]):
    """A plain dict; every key can also be read as an attribute."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """The value of a key."""
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no {name}. It has {', '.join(self)}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]
