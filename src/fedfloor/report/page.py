"""Runs as one page to look at: `report.html` holds everything it needs and asks nobody for anything."""

__all__ = ["PageTable", "write_page"]

import html
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Protocol

import numpy as np

import fedfloor
from fedfloor.errors import MissingExtraError
from fedfloor.report import measures, plots
from fedfloor.report.measures import RunArrays, SeriesArrays
from fedfloor.report.plots import Figure, Style, plain, spread
from fedfloor.report.reading import Collection
from fedfloor.report.saving import save

_NUMBERS = 500_000  #: that the figures of single runs may hold together; a number is about eight bytes
_ROUNDS = 1000  #: of a run that can be chosen
_LEAST_ROUNDS = 20  #: rather than fewer of every run, runs are left out
_ROWS = 300  #: devices whose cuts are shown one by one; beyond that floors take their place
_LISTED = 8  #: lines of a notice
_CELL, _WORDS = 14, 28  #: letters beyond which a cell may wrap, and beyond which it reads like text
_HOLDINGS = 12  #: seeds whose data can be looked at
_DASHES = {"solid": "", "dash": "7 4", "dot": "2 3", "dashdot": "7 3 2 3", "longdash": "11 4"}


class PageTable(Protocol):
    """What a table has to bring along."""

    @property
    def title(self) -> str:
        """Above the table."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """Cells as they are shown."""

    @property
    def note(self) -> str:
        """Below the table; may be empty."""


@dataclass(frozen=True, slots=True, eq=False)
class _Card:
    """A figure with its words, or with the reason why there is none."""

    id: str
    title: str
    says: str  #: what it shows and how to read it
    figure: Figure | None
    missing: str = ""  #: why there is none, and what to do
    wide: bool = False
    series: int | None = None  #: it is about this one only
    choices: tuple[tuple[str, Figure], ...] = ()  #: figures to choose from, in place of one


@dataclass(frozen=True, slots=True, eq=False)
class _Section:
    """A part of the page."""

    id: str
    title: str
    says: str
    cards: tuple[_Card, ...] = ()
    body: str = ""  #: HTML before the cards


def write_page(collection: Collection, tables: Sequence[PageTable], path: Path) -> None:
    """Write the page; the first table is its headline. Needs the extra 'report'."""
    library = _plotly()
    laid_out = measures.lay_out(collection)
    looks = plots.styles([series.label for series in laid_out])
    explored, thinned = _explored(laid_out)
    sections = list(_sections(collection, laid_out, looks, tables))
    cards = [card for section in sections for card in section.cards]
    figures = {f"fig-{card.id}": _given(card) for card in cards if card.figure is not None or card.choices}
    drawn = [figure for card in cards for figure in (card.figure, *(one for _, one in card.choices)) if figure]
    thinned += [figure.thinned for figure in drawn if figure.thinned]
    data = {
        "series": [look.label for look in looks],
        "figures": figures,
        "phases": [[part, plots.PARTS[part]] for part in measures.PHASES],
        **explored,
    }
    page = Template(_asset("page.html")).substitute(
        title=html.escape(f"{collection.name}: fedfloor report"),
        heading=html.escape(collection.name),
        lead=_lead(collection) + _contents(sections),
        notices=_notices(collection),
        css=_asset("page.css"),
        picker=_picker(looks),
        sections="\n".join(_section_html(section, looks) for section in sections),
        footer=_footer(dict.fromkeys(thinned)),
        data=_embedded(data),
        plotly=library,
        js=_asset("page.js"),
    )
    save(path, lambda part: part.write_text(page, encoding="utf-8"))


def _plotly() -> str:
    """Plotly's own JavaScript, harmless inside a script element."""
    try:
        offline = import_module("plotly.offline")  # an extra, and without types
    except ImportError as error:
        raise MissingExtraError("the report page", "report") from error
    return str(offline.get_plotlyjs()).replace("</script", r"<\/script")


def _asset(name: str) -> str:
    return (files("fedfloor.report") / name).read_text(encoding="utf-8")


def _embedded(data: Mapping[str, Any]) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(plain(data), allow_nan=False, separators=(",", ":"))  # ASCII only
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _sections(
    collection: Collection, laid_out: Sequence[SeriesArrays], looks: Sequence[Style], tables: Sequence[PageTable]
) -> Iterator[_Section]:
    """The page from top to bottom."""
    if tables:
        head = tables[0]
        yield _Section("headline", head.title, "", body=_table_html(head, looks, caption=False))
    band = " Bands span the seeds." if any(len(series.runs) > 1 for series in laid_out) else ""
    yield _accuracy(laid_out, looks, band)
    yield _Section(
        "delay",
        "Delay",
        "Every round takes as long as the slowest floor that it waits for.",
        (
            _Card(
                "delay",
                "Cumulative delay",
                "Simulated time that all rounds so far have taken; flatter is faster." + band,
                plots.delay_figure([measures.delay_over_rounds(series) for series in laid_out], looks),
                wide=True,
            ),
        ),
    )
    yield _participation(laid_out, looks)
    yield _where_it_goes(laid_out, looks)
    yield _one_run(laid_out)
    yield _Section(
        "failures",
        "Failures",
        "A floor that is picked can still fail: then the round waited in vain.",
        (
            _Card(
                "failures",
                "Failures by cause",
                "Share of the picked floor-rounds that failed, all seeds together; lower is better.",
                plots.failures_figure([measures.failures(series) for series in laid_out], looks),
                "No floor failed in any of these runs.",
                wide=True,
            ),
        ),
    )
    yield _tradeoff(collection, looks)
    yield _data(laid_out)
    yield _bound(laid_out, looks)
    if tables[1:]:
        yield _Section("tables", "More tables", "", body="".join(_table_html(table, looks) for table in tables[1:]))


def _accuracy(laid_out: Sequence[SeriesArrays], looks: Sequence[Style], band: str) -> _Section:
    missing = "No tested model is in these logs: use `fedfloor run` instead of `fedfloor simulate`"
    missing += ", or wait until `training.evaluate_every` rounds have passed."
    by_round = [measures.accuracy_over_rounds(series) for series in laid_out]
    by_time = [measures.accuracy_over_time(series) for series in laid_out]
    return _Section(
        "accuracy",
        "Accuracy",
        "How well the averaged model does on test data that no device holds.",
        (
            _Card(
                "accuracy-rounds",
                "Accuracy against rounds",
                "Test accuracy after each round; higher is better." + band,
                plots.accuracy_figure(by_round, looks, over_time=False),
                missing,
            ),
            _Card(
                "accuracy-time",
                "Accuracy against simulated time",
                "The same against the time that the rounds took: further left is faster.",
                plots.accuracy_figure(by_time, looks, over_time=True),
                missing,
            ),
        ),
    )


def _participation(laid_out: Sequence[SeriesArrays], looks: Sequence[Style]) -> _Section:
    found = [measures.participation(series) for series in laid_out]
    many = max(len(entry.floors) for entry in found) > plots.MANY
    achieved = "Bars: share of rounds in which the floor's model was averaged. Dashes: the share that was wanted."
    derived = "Bars: rates derived from the bound of Theorem 1. Diamonds: the rates that the divergence "
    derived += "measured in training would have given (paper, Fig. 2)."
    if many:
        achieved = "Each dot is a floor: share of rounds achieved against the share that was wanted."
        achieved += " Dots below the line fall short."
        derived = "Each dot is a floor: the rate derived from the bound of Theorem 1 against the one that the measured"
        derived += " divergence would have given (paper, Fig. 2)."
    return _Section(
        "participation",
        "Participation",
        "Floors whose data lead further away from the common model should take part less often.",
        (
            _Card(
                "participation",
                "Achieved and wanted, floor by floor",
                achieved,
                plots.participation_figure(found, looks),
            ),
            _Card(
                "rates",
                "Derived and observed rates",
                derived,
                plots.rates_figure([measures.rates(series) for series in laid_out], looks),
                "No run observed its divergence: train with `--set participation.observe_every=10`, for example.",
            ),
        ),
    )


def _where_it_goes(laid_out: Sequence[SeriesArrays], looks: Sequence[Style]) -> _Section:
    cards: list[_Card] = []
    kinds: tuple[tuple[str, str, Callable[[SeriesArrays], measures.Split], str], ...] = (
        ("time", "Time", measures.time_split, "s"),
        ("energy", "Energy", measures.energy_split, "J"),
    )
    splits = {kind: [measure(series) for series in laid_out] for kind, _, measure, _ in kinds}
    for index, look in enumerate(looks):
        for kind, title, _, unit in kinds:
            split, top = splits[kind][index], max(_top(other) for other in splits[kind])
            says = "Mean over the rounds in which a floor was picked; all policies share the axis."
            figure = plots.split_figure(split, index, top, unit) if split.picked.any() else None
            missing = "This policy has picked no floor so far."
            cards.append(_Card(f"{kind}-{index}", f"{title}: {look.label}", says, figure, missing, series=index))
    says = "A floor downloads the model, its devices train the bottom layers and its gateway the top, and it uploads "
    says += "the result. Times of training are those of its slowest device."
    return _Section("where", "Where a round's time and energy go", says, tuple(cards))


def _top(split: measures.Split) -> float:
    totals = split.values.sum(axis=0)
    totals = totals[np.isfinite(totals)]
    return float(totals.max()) if totals.size else 0.0


def _one_run(laid_out: Sequence[SeriesArrays]) -> _Section:
    options = []
    for at, (index, run) in enumerate(_kept(laid_out)):
        label = html.escape(f"{laid_out[index].label}, seed {run.run.scenario.seed}")
        options.append(f'<option value="{at}">{label}</option>')
    body = (
        '<div class="controls"><label>Run <select id="run-choice">' + "".join(options) + "</select></label>"
        '<label class="slide">Round <input type="range" id="round-choice" min="0" max="0" value="0" '
        'autocomplete="off"><output id="round-shown" for="round-choice"></output></label>'
        '<label>Cuts on the map <select id="map-cuts"><option value="mean">mean over the run</option>'
        '<option value="round">of this round</option></select></label></div>'
    )
    empty = Figure([], {}, height=200)  # drawn by the page's script
    return _Section(
        "run",
        "One run, round by round",
        "Choose a run and move the slider: the timeline and the map follow.",
        (
            _Card(
                "timeline",
                "Timeline of the round",
                "What every picked floor does when; the round ends with the longest bar.",
                empty,
                wide=True,
            ),
            _Card(
                "map",
                "Map of floors and devices",
                "Distances to the base station (star) are true, directions are not. Lines lead to the floors of this "
                "round, dotted ones to those that fail. Colour says how many layers a device trains itself; "
                "hollow ones were not picked.",
                empty,
                wide=True,
            ),
            _Card(
                "cuts",
                "Cuts over rounds",
                "How many layers each device trains itself; gaps are rounds in which its floor was not picked.",
                empty,
                wide=True,
            ),
        ),
        body=body,
    )


def _tradeoff(collection: Collection, looks: Sequence[Style]) -> _Section:
    found = plots.tradeoff_figures(measures.tradeoffs(collection), looks)
    delay, shortfall = found or (None, None)
    missing = "There is no sweep over V here: save what `fedfloor tradeoff SCENARIO --format json` prints as "
    missing += "`tradeoff.json` beside the runs, or compare ddsra with several V."
    return _Section(
        "tradeoff",
        "The trade-off over V",
        "The larger V, the more ddsra cares for short rounds and the less for the wanted participation.",
        (
            _Card("tradeoff-delay", "Delay over V", "Should fall as V grows, below its bound.", delay, missing),
            _Card(
                "tradeoff-shortfall",
                "Shortfall over V",
                "How far the worst-served floor stays below its rate; should grow with V.",
                shortfall,
                missing,
            ),
        ),
    )


def _data(laid_out: Sequence[SeriesArrays]) -> _Section:
    known: dict[str, tuple[str, Figure]] = {}
    for series in laid_out:
        for run in series.runs:
            held = measures.data_held(run)
            if held is None or len(known) >= _HOLDINGS:
                continue
            key = json.dumps([held.devices, held.counts.tolist()])
            if key not in known:
                known[key] = (_data_label(run), plots.data_figure(held))
    return _Section(
        "data",
        "Who holds which data",
        "Seeds share the data out differently; all policies of a seed get the same.",
        (
            _Card(
                "data",
                "Samples of every class",
                "The stronger the colour, the more samples of the class a device holds.",
                None,
                "No run here says who holds what: runs that train with `fedfloor run` leave it in `holding.json`.",
                wide=True,
                choices=tuple(known.values()),
            ),
        ),
    )


def _data_label(run: RunArrays) -> str:
    variant = f" [{run.run.variant}]" if run.run.variant else ""
    return f"seed {run.run.scenario.seed}{variant}"


def _bound(laid_out: Sequence[SeriesArrays], looks: Sequence[Style]) -> _Section:
    found = [measures.divergence(series) for series in laid_out]
    known = [entry for entry in found if entry is not None]
    count, broken = sum(entry.measured.size for entry in known), sum(entry.broken for entry in known)
    says = "Each mark is a floor in an observed round; below the dashed line the bound holds. "
    says += f"It was exceeded in {broken} of {count} measurements."
    return _Section(
        "bound",
        "Bound and measurement",
        "Theorem 1 bounds how far a floor's model can drift from steps on all data.",
        (
            _Card(
                "bound",
                "Divergence of the floors",
                says,
                plots.bound_figure(found, looks),
                "No divergence was measured: train with `--set participation.observe_every=10`, for example.",
                wide=True,
            ),
        ),
    )


def _kept(laid_out: Sequence[SeriesArrays]) -> list[tuple[int, RunArrays]]:
    """Runs that can be looked at one by one, with their series; where not all fit, every series keeps its first."""
    every = [(seed, index, run) for index, series in enumerate(laid_out) for seed, run in enumerate(series.runs)]
    every.sort(key=lambda entry: entry[:2])
    kept: list[tuple[int, int, RunArrays]] = []
    left = float(_NUMBERS)
    for seed, index, run in every:
        left -= _LEAST_ROUNDS * _per_round(run)
        if left >= 0.0 or not kept:
            kept.append((index, seed, run))
    return [(index, run) for index, _, run in sorted(kept, key=lambda entry: entry[:2])]


def _per_round(run: RunArrays) -> float:
    """Numbers that a round of a run adds to the page."""
    rows = len(run.devices) if len(run.devices) <= _ROWS else len(run.floors)
    return float(7.0 * run.selected.sum(axis=1).mean() + 0.4 * rows)


def _explored(laid_out: Sequence[SeriesArrays]) -> tuple[dict[str, Any], list[str]]:
    """Single runs as the page's script takes them, and what was left out."""
    kept = _kept(laid_out)
    plants: dict[str, int] = {}
    runs, thinned = [], []
    for index, run in kept:
        limit = int(_NUMBERS / len(kept) / max(_per_round(run), 1.0))
        at = spread(run.rounds.size, max(2, min(_ROUNDS, limit)))
        if at.size < run.rounds.size:
            thinned.append("Of long runs, the timeline, the map and the cuts show some of the rounds, evenly spread.")
        if len(run.devices) > _ROWS:
            thinned.append("Cuts of very many devices are shown as means of their floors.")
        plant = json.dumps(_plant(run))
        runs.append({"s": index, "plant": plants.setdefault(plant, len(plants)), **_rounds_of(run, at)})
    left_out = sum(len(series.runs) for series in laid_out) - len(kept)
    if left_out:
        thinned.append(f"{left_out} runs cannot be looked at one by one, to keep the page small.")
    return {"runs": runs, "plants": [json.loads(plant) for plant in plants]}, thinned


def _plant(run: RunArrays) -> dict[str, Any]:
    found = measures.plant_map(run.run.scenario)
    reach = np.abs(np.concatenate([found.floor_xy, found.device_xy])).max()
    shown = {
        "floors": found.floors,
        "devices": found.devices,
        "of": found.floor_of,
        "fx": found.floor_xy[:, 0],
        "fy": found.floor_xy[:, 1],
        "dx": found.device_xy[:, 0],
        "dy": found.device_xy[:, 1],
        "distance": found.distance,
        "reach": float(reach),
    }
    return {key: plain(value) for key, value in shown.items()}


def _rounds_of(run: RunArrays, at: measures.Ints) -> dict[str, Any]:
    """A run's chosen rounds: timeline and cuts, -1 where not picked."""
    phases = measures.phase_times(run)
    place = {name: m for m, name in enumerate(run.floors)}
    timeline = []
    for t in at.tolist():
        one = measures.timeline(run, t, phases)
        timeline.append([one.round, [place[name] for name in one.floors], one.channel, one.failure, one.end.T])
    found = measures.cuts(run)
    cut, mean, by_floor = found.cut, found.mean, len(run.devices) > _ROWS
    if by_floor:
        first = np.searchsorted(run.plant.devices.floor, np.arange(len(run.floors)))
        count = run.plant.devices.on_floor(len(run.floors))
        cut = np.add.reduceat(cut, first, axis=0) / count[:, None]  # (M, T)
        mean = np.add.reduceat(mean, first) / count
    delays = run.delay[np.isfinite(run.delay)]
    longest = float(np.percentile(delays, 95)) if delays.size else 0.0  # a rare slow round has an axis of its own
    shown = np.where(np.isnan(cut[:, at]), -1.0, cut[:, at])
    layers = len(run.run.scenario.layers)
    return {
        "timeline": timeline,
        "cuts": shown,
        "mean": mean,
        "byFloor": by_floor,
        "longest": longest,
        "layers": layers,
    }


def _given(card: _Card) -> Any:
    """A figure, or figures to choose from, for the page's script."""
    if card.choices:
        return [_figure(figure) for _, figure in card.choices]
    assert card.figure is not None
    return _figure(card.figure)


def _figure(figure: Figure) -> dict[str, Any]:
    return {"data": figure.data, "layout": figure.layout, "height": figure.height}


def _lead(collection: Collection) -> str:
    runs = collection.runs
    seeds = sorted({run.scenario.seed for run in runs})
    scenario = runs[0].scenario
    policies = _count(len(collection.series), "policy", "policies")
    of_seeds = f"seed{'s' * (len(seeds) > 1)} " + _listed([str(seed) for seed in seeds])
    size = f"{_count(len(scenario.floors), 'floor')}, {_count(len(scenario.devices), 'device')}"
    channels = _count(scenario.radio.channels, "channel")
    rounds = max(len(run.records) for run in runs)
    counted = _count(len(runs), "run")
    return html.escape(f"{policies}, {counted} of up to {_count(rounds, 'round')}, {of_seeds}; {size}, {channels}.")


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _listed(entries: Sequence[str]) -> str:
    more = f" and {len(entries) - _LISTED} more" if len(entries) > _LISTED else ""
    return ", ".join(entries[:_LISTED]) + more


def _contents(sections: Sequence[_Section]) -> str:
    links = "".join(
        f'<a href="#{section.id}">{html.escape(section.title if section.id != "headline" else "Overview")}</a>'
        for section in sections
    )
    return f'</p>\n<nav class="contents" aria-label="Contents">{links}</nav><p class="lead">'


def _notices(collection: Collection) -> str:
    going = [
        f"{run.label}, seed {run.scenario.seed}: {len(run.records)} of {run.scenario.rounds} rounds"
        for run in collection.runs
        if not run.finished
    ]
    return _notice("Not all rounds are there yet; figures show what is:", going) + _notice(
        "Left out, or shown in part:", collection.problems
    )


def _notice(title: str, entries: Sequence[str]) -> str:
    if not entries:
        return ""
    items = "".join(f"<li>{html.escape(entry)}</li>" for entry in entries[:_LISTED])
    if len(entries) > _LISTED:
        items += f"<li>and {len(entries) - _LISTED} more</li>"
    return f'<div class="notice" role="note"><p>{html.escape(title)}</p><ul>{items}</ul></div>'


def _picker(looks: Sequence[Style]) -> str:
    boxes = "".join(
        f'<label title="{html.escape(look.label)}"><input type="checkbox" value="{index}" checked autocomplete="off">'
        f"{_swatch(look)}<span>{html.escape(look.label)}</span></label>"
        for index, look in enumerate(looks)
    )
    keys = "".join(f"<span>{_swatch(look)} {html.escape(look.label)}</span> " for look in looks)
    return (
        f'<div class="picker" id="picker"><div><fieldset><legend>Policies</legend>{boxes}</fieldset>'
        '<p id="nothing" role="status" hidden>No policy is ticked: tick one to see it.</p></div></div>'
        f'<p class="printed key">{keys}</p>'
    )


def _swatch(look: Style) -> str:
    """A short piece of the series' line with its marker."""
    shapes = {
        "circle": '<circle cx="14" cy="7" r="4"/>',
        "square": '<path d="M10 3h8v8h-8z"/>',
        "diamond": '<path d="M14 2l5 5-5 5-5-5z"/>',
        "triangle-up": '<path d="M14 2l5 9h-10z"/>',
        "cross": '<path d="M12.5 2h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z"/>',
        "x": '<path d="M14 5l3-3 2 2-3 3 3 3-2 2-3-3-3 3-2-2 3-3-3-3 2-2z"/>',
        "star": '<path d="M14 1l1.5 4h4.2l-3.4 2.6 1.3 4.2-3.6-2.5-3.6 2.5 1.3-4.2-3.4-2.6h4.2z"/>',
    }
    line = f'<line x1="0" y1="7" x2="28" y2="7" stroke-width="2.4" stroke-dasharray="{_DASHES[look.dash]}"/>'
    return (
        f'<svg class="swatch" width="28" height="14" viewBox="0 0 28 14" aria-hidden="true" '
        f'fill="{look.colour}" stroke="none"><g stroke="{look.colour}">{line}</g>{shapes[look.symbol]}</svg>'
    )


def _section_html(section: _Section, looks: Sequence[Style]) -> str:
    says = f"<p>{_words(section.says)}</p>" if section.says else ""
    # One sentence is enough where all figures of a section miss the same.
    reasons = {card.missing for card in section.cards if card.figure is None and not card.choices}
    if section.cards and len(reasons) == 1 and all(card.figure is None and not card.choices for card in section.cards):
        cards = f'<p class="missing card">{_words(reasons.pop())}</p>'
    else:
        cards = "\n".join(_card_html(card, looks) for card in section.cards)
    grid = f'<div class="grid">\n{cards}\n</div>' if cards else ""
    title = html.escape(section.title)
    return f'<section id="{section.id}" aria-labelledby="h-{section.id}">\n<h2 id="h-{section.id}">{title}</h2>\n{says}{section.body}{grid}\n</section>'  # noqa: E501


def _card_html(card: _Card, looks: Sequence[Style]) -> str:
    about = f' data-series="{card.series}"' if card.series is not None else ""
    kind = "card wide" if card.wide else "card"
    swatch = f"{_swatch(looks[card.series])} " if card.series is not None else ""
    title = f"<h3>{swatch}{html.escape(card.title)}</h3>"
    if card.figure is None and not card.choices:
        return f'<figure class="{kind}"{about}><figcaption>{title}<p class="missing">{_words(card.missing)}</p></figcaption></figure>'  # noqa: E501
    choice = ""
    if len(card.choices) > 1:
        options = "".join(
            f'<option value="{at}">{html.escape(name)}</option>' for at, (name, _) in enumerate(card.choices)
        )
        select = f'<select id="fig-{card.id}-choice" autocomplete="off">{options}</select>'
        choice = f'<div class="controls"><label>Show {select}</label></div>'
    height = (card.figure or card.choices[0][1]).height
    label = html.escape(f"{card.title}. {card.says}")
    return (
        f'<figure class="{kind}"{about}><figcaption>{title}<p>{_words(card.says)}</p></figcaption>{choice}'
        f'<div class="plot" id="fig-{card.id}" role="img" aria-label="{label}" style="min-height:{height}px"></div>'
        "</figure>"
    )


def _table_html(table: PageTable, looks: Sequence[Style], *, caption: bool = True) -> str:
    swatches = {look.label: _swatch(look) + " " for look in looks}
    longest = [max((len(row[at]) for row in table.rows), default=0) for at in range(len(table.columns))]
    kind = [' class="words"' if size > _WORDS else ' class="wraps"' if size > _CELL else "" for size in longest]
    head = "".join(
        f'<th scope="col"{look}>{html.escape(name)}</th>' for name, look in zip(table.columns, kind, strict=True)
    )
    body = ""
    for row in table.rows:
        first = f'<th scope="row"{kind[0]}>{swatches.get(row[0], "")}{_name(row[0])}</th>' if row else ""
        rest = "".join(f"<td{look}>{_cell(cell)}</td>" for cell, look in zip(row[1:], kind[1:], strict=True))
        body += f"<tr>{first}{rest}</tr>"
    label = html.escape(table.title[:1].upper() + table.title[1:])
    title = f"<h3>{label}</h3>" if caption else ""
    note = f'<p class="note">{_words(table.note)}</p>' if table.note else ""
    return (
        f'<div class="grid"><div class="card wide">{title}<div class="scroll" role="region" tabindex="0" '
        f'aria-label="{label}"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}</div></div>'
    )


def _name(text: str) -> str:
    """A name that breaks between its settings."""
    return html.escape(text).replace(",", ",<wbr>").replace(" [", "<wbr> [")


def _cell(text: str) -> str:
    """A cell whose numbers stay together, with their units and their intervals."""
    together = re.sub(r"(?<=\d) (?=(?:s|min|h|J|%|±)(?:\s|$))|(?<=±) |(?<=,) (?=[+-])|(?<=[sh%]) (?=±)", "\u00a0", text)
    return html.escape(together)


def _words(text: str) -> str:
    """Text with `code` in it as HTML."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def _footer(thinned: Mapping[str, None]) -> str:
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in thinned)
    made = (
        f"Made by fedfloor {html.escape(fedfloor.__version__)}. This page holds all it needs: keep it, or send it on."
    )
    return f"<p>{made}</p>{notes}"
