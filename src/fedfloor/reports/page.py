"""Runs as one page: `report.html` contains everything it needs and loads nothing from anywhere."""

__all__ = ["Content", "asset", "content_of", "is_page", "plotly", "style", "write_page"]

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from string import Template

import fedfloor
from fedfloor.characters import printable
from fedfloor.errors import counted
from fedfloor.reports.answers import answers
from fedfloor.reports.cells import Table
from fedfloor.reports.decisions import Progress, with_decisions
from fedfloor.reports.drawing.figure import Panel
from fedfloor.reports.drawing.plots import plain
from fedfloor.reports.exploring import SingleRuns, single_runs
from fedfloor.reports.markup import (
    Card,
    Part,
    answers_html,
    contents,
    decision_panel,
    left_out_html,
    notice,
    part_html,
    picker,
    run_controls,
    table_html,
)
from fedfloor.reports.palette import palette_css
from fedfloor.reports.reading import Collection
from fedfloor.reports.registry import all_figures
from fedfloor.reports.results import Results
from fedfloor.reports.saving import save
from fedfloor.reports.sections import SECTIONS, Section
from fedfloor.reports.words import words_script

_LISTED = 8  #: seeds by name
_SAID = ("rounds", "seed numbers")  #: columns of the first table that are also in the sentence above it
_GENERATOR = b'<meta name="generator" content="fedfloor">'
_HEAD = 1000  #: [byte] in which it stands


def write_page(
    results: Results,
    tables: Sequence[Table],
    path: Path,
    on_progress: Progress = lambda *_: None,
) -> None:
    """Write the page; the first table is its headline. Needs the extra 'report'.

    `on_progress` hears how many decisions of single rounds are made, and of how many.
    """
    library = plotly()
    content = content_of(results, tables, with_decisions(results, single_runs(results), on_progress))
    texts = {
        "title": html.escape(f"{results.collection.name}: fedfloor report"),
        "heading": html.escape(results.collection.name),
        "lead": _lead(results.collection),
        "answers": answers_html(answers(results.collection)),
        "contents": contents([part.section for part in content.parts]),
        "notices": _notices(results.collection),
        "picker": picker(results.looks),
        "sections": "\n".join(part_html(part, results.looks) for part in content.parts),
        "footer": left_out_html(content.left_out) + _footer(),
    }
    page = Template(asset("page.html")).substitute(
        {key: printable(text) for key, text in texts.items()},
        css=style(),
        data=_embedded(content.data),
        plotly=library,
        js=words_script() + asset("decision.js") + asset("page.js"),
    )
    save(path, lambda part: part.write_text(page, encoding="utf-8"))


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """What stands between head and foot of the page."""

    parts: tuple[Part, ...]  #: from top to bottom
    left_out: tuple[Card, ...]  #: that have nothing to draw
    data: Mapping[str, object]  #: for the page's script; `plain` makes it ready for JSON


def content_of(results: Results, tables: Sequence[Table], single: SingleRuns) -> Content:
    """All figures and tables of some runs, and the data that the page's script draws them from."""
    is_real = all(run.is_real for run in results.collection.runs)
    every = [
        Card(figure, panel, is_real)
        for figure in all_figures()
        if figure.plot is not None and figure.applies(results)
        for panel in figure.plot(results) or (Panel(None),)  # which says why there is none
    ]
    parts = tuple(_parts(results, [card for card in every if card.plots], tables, single))
    cards = [card for part in parts for card in part.cards]
    data = {
        "series": [look.label for look in results.looks],
        "figures": {f"fig-{card.id}": _input_of(card) for card in cards},
        **single.data,
    }
    return Content(parts, tuple(card for card in every if not card.plots), data)


def is_page(path: Path) -> bool:
    """Whether a file is a page that fedfloor has written, in this version or an earlier one."""
    if not path.is_file():  # a pipe would keep us waiting
        return False
    with path.open("rb") as file:
        return _GENERATOR in file.read(_HEAD)


def plotly() -> str:
    """Plotly's own JavaScript, harmless inside a script element."""
    offline = import_module("plotly.offline")  # an extra, and without types
    return str(offline.get_plotlyjs()).replace("</script", r"<\/script")


def asset(name: str) -> str:
    """A file that lies beside this module."""
    return (files("fedfloor.reports") / name).read_text(encoding="utf-8")


def style() -> str:
    """The style sheet of the page, with the colours that print has too."""
    return palette_css() + asset("page.css")


def _embedded(data: Mapping[str, object]) -> str:
    """JSON that cannot end the element that contains it."""
    text = json.dumps(plain(data), allow_nan=False, separators=(",", ":"))  # ASCII only
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _parts(results: Results, cards: Sequence[Card], tables: Sequence[Table], single: SingleRuns) -> Iterator[Part]:
    """The page from top to bottom: a table, the sections with their figures, more tables."""
    if tables:
        headline = table_html(_without_said(tables[0]), results.looks, caption=False)
        yield Part(Section("headline", tables[0].title, link="Overview"), body=headline)
    for section in SECTIONS:
        content = [card for card in cards if card.figure.section == section]
        content.sort(key=lambda card: -1 if card.panel.series is None else card.panel.series)  # series by series
        if content:
            controls = run_controls(single.labels, single.omissions) if section.one_run else ""
            panel = decision_panel() if section.one_run and "answer" in single.data else ""
            yield Part(section, tuple(content), body=controls, panel=panel)
    if tables[1:]:
        others = "".join(table_html(table, results.looks) for table in tables[1:])
        yield Part(Section("tables", "More tables"), body=others)


def _without_said(table: Table) -> Table:
    """The first table without columns that are the same in all rows and stand in the sentence above it."""
    columns, rows = table.columns, table.rows
    kept = [at for at, name in enumerate(columns) if name not in _SAID or len({row[at] for row in rows}) > 1]
    short = tuple(tuple(row[at] for at in kept) for row in rows)
    return Table(table.title, tuple(columns[at] for at in kept), short, table.note)


def _input_of(card: Card) -> object:
    """A plot, or a list of plots to choose from, for the page's script."""
    inputs = [{"data": plot.data, "layout": plot.layout, "height": plot.height} for plot in card.plots]
    return inputs if card.panel.choices else inputs[0]


def _lead(collection: Collection) -> str:
    """What the report covers, in one sentence."""
    runs = collection.runs
    seeds = sorted({run.scenario.seed for run in runs})
    scenario = runs[0].scenario
    policies = counted(len(collection.series), "policy", "policies")
    rounds = counted(max(len(run.records) for run in runs), "round")
    listed_seeds = f"seed{'s' * (len(seeds) > 1)} " + _first_of([str(seed) for seed in seeds])
    size = f"{counted(len(scenario.floors), 'floor')}, {counted(len(scenario.devices), 'device')}"
    channels = counted(scenario.radio.channels, "channel")
    text = f"{policies}, {counted(len(runs), 'run')} of up to {rounds}, {listed_seeds}; {size}, {channels}."
    return html.escape(text)


def _first_of(entries: Sequence[str]) -> str:
    more = f" and {len(entries) - _LISTED} more" if len(entries) > _LISTED else ""
    return ", ".join(entries[:_LISTED]) + more


def _notices(collection: Collection) -> str:
    unfinished = [
        f"{run.label}, seed {run.scenario.seed}: {len(run.records)} of {counted(run.scenario.rounds, 'round')}"
        for run in collection.runs
        if not run.ended
    ]
    return notice("These runs are not finished; figures show the rounds so far:", unfinished) + notice(
        "These folders or files are left out or shown in part:", collection.problems
    )


def _footer() -> str:
    version = html.escape(fedfloor.__version__)
    return (
        f"<p>Made by fedfloor {version}. This page contains everything it needs, so you can keep it or send it on.</p>"
    )
