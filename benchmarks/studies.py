"""Studies that take hours: one CSV line per finished run, so that a study can be stopped and continued."""

__all__ = ["PLACE", "append", "commit", "lines_of", "missing"]

import csv
import subprocess
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Protocol, TypeVar

PLACE = Path(__file__).parents[1]
Kind = TypeVar("Kind")
What = TypeVar("What", bound=Hashable)
What_co = TypeVar("What_co", bound=Hashable, covariant=True)


def lines_of(path: Path, kind: Callable[..., Kind]) -> list[Kind]:
    """Finished runs that have a line in the file, as a dataclass of this kind; none if there is no file."""
    if not path.exists():
        return []
    columns: Any = fields(kind)  # type: ignore[arg-type]
    with path.open(encoding="utf-8", newline="") as file:
        return [kind(**{entry.name: entry.type(row[entry.name]) for entry in columns}) for row in csv.DictReader(file)]


class Finished(Protocol[What_co]):
    """A line that knows what ran."""

    @property
    def run(self) -> What_co:
        """What ran."""


def missing(lines: Iterable[Finished[What]], runs: Sequence[What]) -> list[What]:
    """The runs that have no line yet, each once, in their order."""
    done = {line.run for line in lines}
    return [run for run in dict.fromkeys(runs) if run not in done]


def append(path: Path, line: Any) -> None:
    """Add the line of a finished run, a dataclass, to the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [entry.name for entry in fields(line)], lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(asdict(line))


def commit() -> str:
    """The commit that ran; marked if the source or the study was changed since."""
    last = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=PLACE, text=True).strip()
    changed = subprocess.check_output(["git", "status", "--porcelain", "--", "src", "benchmarks"], cwd=PLACE)
    return f"{last}-changed" if changed else last
