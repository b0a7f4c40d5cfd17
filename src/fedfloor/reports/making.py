"""A report put together: read the runs, make the tables, draw the figures, write the page."""

__all__ = ["STEPS", "Report", "make_report"]

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedfloor.errors import RunLogError
from fedfloor.reports.cells import Table
from fedfloor.reports.export import write_csv
from fedfloor.reports.figures import FIGURES, draw_figures
from fedfloor.reports.page import write_page
from fedfloor.reports.reading import Collection, ReadRun, collect
from fedfloor.reports.statistics import final_accuracy, last_accuracy
from fedfloor.reports.tables import tables

PAGE = "report.html"
PICTURES = "figures"
STEPS = len(FIGURES) + 3  #: calls of `on_step`


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """What was written, and what it shows."""

    collection: Collection
    tables: tuple[Table, ...]  #: in the order of the page; the first has a row for every policy
    page: Path
    figures: tuple[Path, ...]
    csv: Path | None

    def __repr__(self) -> str:
        runs = len(self.collection.runs)
        return f"Report({self.collection.name}, {runs} runs, {len(self.figures)} figures, page={self.page})"

    def as_json(self) -> dict[str, Any]:
        """The same for programs, SI units in the keys."""
        return {
            "scenario": self.collection.name,
            "report": str(self.page),
            "figures": [str(path) for path in self.figures],
            "csv": None if self.csv is None else str(self.csv),
            "problems": list(self.collection.problems),
            "runs": [_as_json(run) for run in self.collection.runs],
            "tables": [asdict(table) for table in self.tables],
        }


def make_report(
    runs: str | Path | Sequence[str | Path],
    *,
    out: str | Path | None = None,
    csv: str | Path | None = None,
    pdf: bool = False,
    on_step: Callable[[str], None] = lambda _: None,
) -> Report:
    """Report on run folders, or folders of them; what is not right about one is among `collection.problems`.

    The page and its figures go into the one folder that is named, or into `report` of the current folder, or where
    `out` says. An old report there is replaced, nothing else is touched.
    """
    paths = [Path(runs)] if isinstance(runs, str | Path) else [Path(run) for run in runs]
    place = Path(out) if out is not None else paths[0] if len(paths) == 1 else Path("report")
    on_step("reading")
    collection = collect(paths)
    _check_place(place)
    table = None if csv is None else Path(csv)
    if table is not None:
        write_csv(collection, table)
    on_step("tables")
    found = tables(collection)
    figures = draw_figures(collection, place / PICTURES, pdf=pdf, on_figure=on_step)
    _remove_old(place / PICTURES, figures)
    on_step("page")
    write_page(collection, found, place / PAGE)
    return Report(collection, found, place / PAGE, figures, table)


def _check_place(place: Path) -> None:
    """Refuse early what cannot be written to."""
    for folder in (place, place / PICTURES):
        try:
            if folder.exists() and not folder.is_dir():
                raise RunLogError(f"{folder}: is a file, not a folder. Name another one with --out")
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = f"cannot be written: {error.strerror}"
            raise RunLogError(f"{folder}: {problem}. Name another folder with --out") from None


def _remove_old(folder: Path, written: Sequence[Path]) -> None:
    """Remove figures of an earlier report that this one does not have, so that none contradicts it."""
    for path in (folder / f"{name}.{kind}" for name in FIGURES for kind in ("png", "pdf")):
        if path not in written:
            path.unlink(missing_ok=True)


def _as_json(run: ReadRun) -> dict[str, Any]:
    summary = run.summary
    return {
        "folder": str(run.folder),
        "policy": run.policy,
        "variant": run.variant,
        "seed": run.scenario.seed,
        "rounds": summary.rounds,
        "of_rounds": run.scenario.rounds,
        "final_accuracy": final_accuracy(run),
        "last_accuracy": last_accuracy(run),
        "mean_delay_s": summary.mean_delay,
        "clock_s": summary.clock,
        "completed": summary.completed,
        "failures": dict(summary.failures),
        "shortfall": summary.shortfall,
        "mean_energy_j": summary.mean_energy,
    }
