"""What needs no rich, which takes long to load: JSON, CSV, that a decision is being made, and what own code prints."""

__all__ = ["deciding", "own_code_on_stderr", "print_csv", "print_json", "print_result"]

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any, TypeVar

from fedfloor.files import finite

Result = TypeVar("Result")


@contextmanager
def own_code_on_stderr() -> Iterator[None]:
    """Show what a user's policy, model or data prints on standard error; standard output is for the result only."""
    with redirect_stdout(sys.stderr):
        yield


def print_json(value: object) -> None:
    """One JSON document on standard output, in ASCII, so that it needs no `printable`."""
    print(json.dumps(finite(value), indent=2, default=_plain, allow_nan=False))


def print_result(
    result: Result,
    form: str,
    show: Callable[[Result], None],
    as_json: Callable[[Result], object] = lambda result: result,
) -> None:
    """Print the result of a command in the form that was asked for: for people, or as JSON."""
    print_json(as_json(result)) if form == "json" else show(result)


def print_csv(columns: Mapping[str, Sequence[object]]) -> None:
    """Columns of equal length as a CSV file on standard output."""
    from fedfloor.runs.vary import csv_text

    print(csv_text(columns), end="")


def _plain(value: Any) -> Any:
    """An array as lists, a number of an array as a number, and anything else as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


@contextmanager
def deciding(note: str = "") -> Iterator[None]:
    """A spinner on standard error while a single decision is made; without a terminal there is only the note."""
    if sys.stderr is None or not sys.stderr.isatty():
        if note:
            print(note, file=sys.stderr, flush=True)
        yield
        return
    from fedfloor.cli.show.terminal import ERR

    with ERR.status(f"deciding; {note}" if note else "deciding"):
        yield
