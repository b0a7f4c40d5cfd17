"""Make a report: read the runs, make the tables, draw the figures, write the page."""

__all__ = ["STEPS", "Report", "make_report", "refuse_foreign"]

import html
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from statistics import fmean

from fedfloor.errors import MissingExtraError, RunLogError
from fedfloor.files import ELSEWHERE, make_private, only_writer, refused_write
from fedfloor.notebooks.cards import Curve, card, curves, html_table
from fedfloor.reports.answers import answers
from fedfloor.reports.cells import Table
from fedfloor.reports.export import write_csv
from fedfloor.reports.page import is_page, write_page
from fedfloor.reports.palette import Look, looks_of
from fedfloor.reports.pictures import draw_pictures, write_pictures
from fedfloor.reports.reading import Collection, ReadRun, Series, collect, folder_problem
from fedfloor.reports.registry import all_figures
from fedfloor.reports.results import results_of
from fedfloor.reports.scores import SCORES
from fedfloor.reports.statistics import final_score, last_score, steadiness
from fedfloor.reports.tables import tables

PAGE = "report.html"
PICTURES = "figures"
_DECIDING = 20  #: calls of `on_step` while rounds are decided again
STEPS = sum(figure.draw is not None for figure in all_figures()) + 3 + _DECIDING  #: calls of `on_step`


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """The files of a report, and what they show."""

    collection: Collection
    answers: tuple[str, ...]  #: what the comparison says, a sentence or two per policy
    tables: tuple[Table, ...]  #: in the order of the page; the first has a row for every policy
    page: Path
    figures: tuple[Path, ...]
    csv: Path | None

    def __repr__(self) -> str:
        runs = len(self.collection.runs)
        return f"Report({self.collection.name}, {runs} runs, {len(self.figures)} figures, page={self.page})"

    def _repr_html_(self) -> str:
        said = "".join(f"<p>{html.escape(text)}</p>" for text in self.answers)
        every = self.collection.series
        looks = looks_of(series.label for series in every)
        pictures = []
        for score in self.collection.scores:
            drawn = [_mean_score(part, look) for part, look in zip(every, looks, strict=True) if part.score is score]
            pictures.append(curves(drawn, "rounds", f"{score.name}, mean over seeds"))
        headline = self.tables[0]
        return card(headline.title, said, html_table(headline.columns, headline.rows), *pictures)

    def as_json(self) -> dict[str, object]:
        """The report for programs, with SI units in the keys."""
        return {
            "scenario": self.collection.name,
            "report": str(self.page),
            "figures": [str(path) for path in self.figures],
            "csv": None if self.csv is None else str(self.csv),
            "problems": list(self.collection.problems),
            "answers": list(self.answers),
            "runs": [_as_json(run) for run in self.collection.runs],
            "tables": [asdict(table) for table in self.tables],
        }


@dataclass
class _Deciding:
    """Tells of decisions in a fixed number of steps, however many decisions there are."""

    on_step: Callable[[str], None]
    told: int = 0

    def tell(self, done: int, of: int, note: str = "") -> None:
        if note and self.told == 0:
            self.told = 1
            self.on_step(note)
        while self.told < _DECIDING * done // of:
            self.told += 1
            self.on_step(f"decisions: {100 * done // of} %")


def make_report(
    runs: str | Path | Sequence[str | Path],
    *,
    out: str | Path | None = None,
    csv: str | Path | None = None,
    pdf: bool = False,
    on_step: Callable[[str], None] = lambda _: None,
) -> Report:
    """Report on run folders, or folders of them; problems with any of them are in `collection.problems`.

    A path that is not a folder is refused before anything is written.

    The page and the figures are written to `out`. By default this is the folder that is named, or `report` in the
    current folder if several are named. An old report there is replaced, but no `report.html` of another program;
    nothing else is changed.
    """
    paths = [Path(runs)] if isinstance(runs, str | Path) else [Path(run) for run in runs]
    place = Path(out) if out is not None else paths[0] if len(paths) == 1 else Path("report")
    _check_extra()
    for path in paths:
        if problem := folder_problem(path):
            raise RunLogError(problem)
    on_step("reading")
    collection = collect(paths)
    csv_file = None if csv is None else Path(csv)
    with _only_writer(place):
        if csv_file is not None:
            write_csv(collection, csv_file)
        on_step("tables")
        all_tables = tables(collection)
        results = results_of(collection)
        pictures = draw_pictures(results, pdf=pdf, on_figure=on_step)
        on_step("page")
        deciding = _Deciding(on_step)
        write_page(results, all_tables, place / PAGE, deciding.tell)
        deciding.tell(1, 1)
        figures = write_pictures(pictures, place / PICTURES)  # last: a report that is interrupted leaves none behind
    return Report(collection, answers(collection), all_tables, place / PAGE, figures, csv_file)


def refuse_foreign(place: Path) -> None:
    """Refuse a folder whose `report.html` is something else than a report of fedfloor, which is not replaced."""
    page = place / PAGE
    try:
        if not page.exists() or is_page(page):
            return
    except OSError as error:
        raise RunLogError(f"{page}: cannot be replaced: {error.strerror}. {ELSEWHERE}") from None
    raise RunLogError(f"{page}: exists, but is not a report of fedfloor. {ELSEWHERE}, or remove the file first")


def _check_extra() -> None:
    """Refuse to start without the extra, before anything is written."""
    for library in ("matplotlib", "plotly"):
        try:
            import_module(library)
        except ImportError as error:
            raise MissingExtraError("a report", "report") from error


@contextmanager
def _only_writer(place: Path) -> Iterator[None]:
    """Make the folders of a report, or refuse them before anything is written; keep other reports out until the end.

    The lock is on the folder of figures, because a run that is still going on has locked its own folder.
    """
    pictures = place / PICTURES
    for folder in (place, pictures):
        if folder.exists() and not folder.is_dir():
            raise RunLogError(f"{folder}: is a file, not a folder. {ELSEWHERE}")
    refuse_foreign(place)
    if pictures.is_symlink():
        raise RunLogError(f"{pictures}: is a symbolic link, so files elsewhere would be replaced. {ELSEWHERE}")
    try:
        make_private(place)
    except OSError as error:
        raise refused_write(place, error, again="report again", advice=ELSEWHERE) from None
    with only_writer(pictures, again="report again"):
        yield


def _mean_score(series: Series, look: Look) -> Curve:
    """Mean accuracy or error over the seeds of a series, after all rounds in which every one of them was tested."""
    tests = [dict(zip(*run.tests, strict=True)) for run in series.runs]
    rounds = [at for at in tests[0] if all(at in other for other in tests)]
    return Curve(rounds, [fmean(test[at] for test in tests) for at in rounds], look.label, look.colour)


def _as_json(run: ReadRun) -> dict[str, object]:
    summary = run.summary
    return {
        "folder": str(run.folder),
        "label": run.label,
        "policy": run.policy,
        "variant": run.variant,
        "seed": run.scenario.seed,
        "rounds": summary.rounds,
        "of_rounds": run.scenario.rounds,
        **{f"final_{score.name}": final_score(run) if run.score is score else None for score in SCORES},
        **{f"last_{score.name}": last_score(run) if run.score is score else None for score in SCORES},
        "steadiness": steadiness(run),
        "mean_delay_s": summary.mean_delay,
        "clock_s": summary.clock,
        "completed": summary.completed,
        "failures": dict(summary.failures),
        "shortfall": summary.shortfall,
        "mean_energy_j": summary.mean_energy,
        "device_rounds": summary.device_rounds,
        "raw_device_rounds": summary.raw_device_rounds,
    }
