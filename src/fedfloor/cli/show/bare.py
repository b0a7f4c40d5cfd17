"""What needs no rich, which takes long to load: JSON, CSV, that a decision is being made, and what own code prints."""

__all__ = ["own_code_on_stderr", "print_csv", "print_json", "working"]

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

from fedfloor.files import finite


@contextmanager
def own_code_on_stderr() -> Iterator[None]:
    """Show what a user's policy, model or data prints on standard error; standard output is for the result only."""
    with redirect_stdout(sys.stderr):
        yield


def print_json(value: object) -> None:
    """One JSON document on standard output, in ASCII, so that it needs no `printable`."""
    print(json.dumps(finite(value), indent=2, default=_plain, allow_nan=False))


def print_csv(columns: Mapping[str, Sequence[object]]) -> None:
    """Columns of equal length as a CSV file on standard output."""
    from fedfloor.runs.vary import csv_text

    print(csv_text(columns), end="")


def _plain(value: Any) -> Any:
    """An array as lists, a number of an array as a number, and anything else as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


@contextmanager
def working(note: str = "") -> Iterator[None]:
    """A spinner on standard error while a single decision is made; without a terminal there is only the note."""
    if sys.stderr is None or not sys.stderr.isatty():
        if note:
            print(note, file=sys.stderr, flush=True)
        yield
        return
    from fedfloor.cli.show.terminal import ERR

    with ERR.status(f"deciding; {note}" if note else "deciding"):
        yield
