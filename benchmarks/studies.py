"""Studies that take hours: one CSV line per finished run, so that a study can be stopped and continued."""

__all__ = ["NOTHING", "PAGE", "PLACE", "Tables", "append", "commit", "filled", "lines_of", "markdown", "missing"]

import csv
import re
import subprocess
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Protocol, TypeVar

PLACE = Path(__file__).parents[1]
PAGE = PLACE / "docs" / "reproduce.md"  #: whose tables studies renew
Tables = Mapping[str, list[str]]  #: lines of Markdown, by the name of the table
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


NOTHING = ["No run of this table is finished yet."]


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as Markdown; without rows, a sentence in its place."""
    if not rows:
        return NOTHING
    return [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *(f"| {' | '.join(row)} |" for row in rows)]


def filled(page: str, tables: Tables) -> str:
    """A page with its tables renewed: what stands between `<!-- table: NAME -->` and `<!-- end -->`."""

    def renewed(match: re.Match[str]) -> str:
        rows = tables.get(match[1])
        return match[0] if rows is None else "\n".join([f"<!-- table: {match[1]} -->", "", *rows, "", "<!-- end -->"])

    return re.sub(r"<!-- table: (.+?) -->.*?<!-- end -->", renewed, page, flags=re.DOTALL)
