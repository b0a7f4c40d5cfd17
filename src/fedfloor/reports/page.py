"""Runs as one page to look at: `report.html` holds everything it needs and asks nobody for anything."""

__all__ = ["PageTable", "write_page"]

import html
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

import fedfloor
from fedfloor.errors import MissingExtraError
from fedfloor.reports import measures, plots
from fedfloor.reports.arrays import RunArrays, SeriesArrays, lay_out
from fedfloor.reports.exploring import explored, kept_runs
from fedfloor.reports.markup import Card, PageTable, Section, contents, notice, picker, section_html, table_html
from fedfloor.reports.plots import Figure, Style, plain
from fedfloor.reports.reading import Collection
from fedfloor.reports.saving import save

_LISTED = 8  #: seeds by name
_HOLDINGS = 12  #: seeds whose data can be looked at


def write_page(collection: Collection, tables: Sequence[PageTable], path: Path) -> None:
    """Write the page; the first table is its headline. Needs the extra 'report'."""
    library = _plotly()
    laid_out = lay_out(collection)
    looks = plots.styles([series.label for series in laid_out])
    single, thinned = explored(laid_out)
    sections = list(_sections(collection, laid_out, looks, tables))
    cards = [card for section in sections for card in section.cards]
    figures = {f"fig-{card.id}": _given(card) for card in cards if card.figure is not None or card.choices}
    drawn = [figure for card in cards for figure in (card.figure, *(one for _, one in card.choices)) if figure]
    thinned += [figure.thinned for figure in drawn if figure.thinned]
    data = {
        "series": [look.label for look in looks],
        "figures": figures,
        "phases": [[part, plots.PARTS[part]] for part in measures.PHASES],
        **single,
    }
    page = Template(_asset("page.html")).substitute(
        title=html.escape(f"{collection.name}: fedfloor report"),
        heading=html.escape(collection.name),
        lead=_lead(collection),
        contents=contents(sections),
        notices=_notices(collection),
        css=_asset("page.css"),
        picker=picker(looks),
        sections="\n".join(section_html(section, looks) for section in sections),
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
    return (files("fedfloor.reports") / name).read_text(encoding="utf-8")


def _embedded(data: Mapping[str, Any]) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(plain(data), allow_nan=False, separators=(",", ":"))  # ASCII only
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _sections(
    collection: Collection, laid_out: Sequence[SeriesArrays], looks: Sequence[Style], tables: Sequence[PageTable]
) -> Iterator[Section]:
    """The page from top to bottom."""
    if tables:
        head = tables[0]
        yield Section("headline", head.title, "", body=table_html(head, looks, caption=False))
    band = " Bands span the seeds." if any(len(series.runs) > 1 for series in laid_out) else ""
    yield _accuracy(laid_out, looks, band)
    yield Section(
        "delay",
        "Delay",
        "Every round takes as long as the slowest floor that it waits for.",
        (
            Card(
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
    yield Section(
        "failures",
        "Failures",
        "A floor that is picked can still fail: then the round waited in vain.",
        (
            Card(
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
        yield Section("tables", "More tables", "", body="".join(table_html(table, looks) for table in tables[1:]))


def _accuracy(laid_out: Sequence[SeriesArrays], looks: Sequence[Style], band: str) -> Section:
    missing = "No tested model is in these logs: use `fedfloor run` instead of `fedfloor simulate`"
    missing += ", or wait until `training.evaluate_every` rounds have passed."
    by_round = [measures.accuracy_over_rounds(series) for series in laid_out]
    by_time = [measures.accuracy_over_time(series) for series in laid_out]
    return Section(
        "accuracy",
        "Accuracy",
        "How well the averaged model does on test data that no device holds.",
        (
            Card(
                "accuracy-rounds",
                "Accuracy against rounds",
                "Test accuracy; higher is better. In long runs a point is the mean of up to five evaluations." + band,
                plots.accuracy_figure(by_round, looks, over_time=False),
                missing,
            ),
            Card(
                "accuracy-time",
                "Accuracy against simulated time",
                "The same against the time that the rounds took: further left is faster.",
                plots.accuracy_figure(by_time, looks, over_time=True),
                missing,
            ),
        ),
    )


def _participation(laid_out: Sequence[SeriesArrays], looks: Sequence[Style]) -> Section:
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
    return Section(
        "participation",
        "Participation",
        "Floors whose data lead further away from the common model should take part less often.",
        (
            Card(
                "participation",
                "Achieved and wanted, floor by floor",
                achieved,
                plots.participation_figure(found, looks),
            ),
            Card(
                "rates",
                "Derived and observed rates",
                derived,
                plots.rates_figure([measures.rates(series) for series in laid_out], looks),
                "No run observed its divergence: train with `--set participation.observe_every=10`, for example.",
            ),
        ),
    )


def _where_it_goes(laid_out: Sequence[SeriesArrays], looks: Sequence[Style]) -> Section:
    cards: list[Card] = []
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
            cards.append(Card(f"{kind}-{index}", f"{title}: {look.label}", says, figure, missing, series=index))
    says = "A floor downloads the model, its devices train the bottom layers and its gateway the top, and it uploads "
    says += "the result. Times of training are those of its slowest device."
    return Section("where", "Where a round's time and energy go", says, tuple(cards))


def _top(split: measures.Split) -> float:
    totals = split.values.sum(axis=0)
    totals = totals[np.isfinite(totals)]
    return float(totals.max()) if totals.size else 0.0


def _one_run(laid_out: Sequence[SeriesArrays]) -> Section:
    options = []
    for at, (index, run) in enumerate(kept_runs(laid_out)):
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
    return Section(
        "run",
        "One run, round by round",
        "Choose a run and move the slider: the timeline and the map follow.",
        (
            Card(
                "timeline",
                "Timeline of the round",
                "What every picked floor does when; the round ends with the longest bar.",
                empty,
                wide=True,
            ),
            Card(
                "map",
                "Map of floors and devices",
                "Distances to the base station (star) are true, directions are not. Lines lead to the floors of this "
                "round, dotted ones to those that fail. Colour says how many layers a device trains itself; "
                "hollow ones were not picked.",
                empty,
                wide=True,
            ),
            Card(
                "cuts",
                "Cuts over rounds",
                "How many layers each device trains itself; gaps are rounds in which its floor was not picked.",
                empty,
                wide=True,
            ),
        ),
        body=body,
    )


def _tradeoff(collection: Collection, looks: Sequence[Style]) -> Section:
    found = plots.tradeoff_figures(measures.tradeoffs(collection), looks)
    delay, shortfall = found or (None, None)
    missing = "There is no sweep over V here: save what `fedfloor tradeoff SCENARIO --format json` prints as "
    missing += "`tradeoff.json` beside the runs, or compare ddsra with several V."
    return Section(
        "tradeoff",
        "The trade-off over V",
        "The larger V, the more ddsra cares for short rounds and the less for the wanted participation.",
        (
            Card("tradeoff-delay", "Delay over V", "Should fall as V grows, below its bound.", delay, missing),
            Card(
                "tradeoff-shortfall",
                "Shortfall over V",
                "How far the worst-served floor stays below its rate; should grow with V.",
                shortfall,
                missing,
            ),
        ),
    )


def _data(laid_out: Sequence[SeriesArrays]) -> Section:
    known: dict[str, tuple[str, Figure]] = {}
    for series in laid_out:
        for run in series.runs:
            held = measures.data_held(run)
            if held is None or len(known) >= _HOLDINGS:
                continue
            key = json.dumps([held.devices, held.counts.tolist()])
            if key not in known:
                known[key] = (_data_label(run), plots.data_figure(held))
    return Section(
        "data",
        "Who holds which data",
        "Seeds share the data out differently; all policies of a seed get the same.",
        (
            Card(
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


def _bound(laid_out: Sequence[SeriesArrays], looks: Sequence[Style]) -> Section:
    found = [measures.divergence(series) for series in laid_out]
    known = [entry for entry in found if entry is not None]
    count, broken = sum(entry.measured.size for entry in known), sum(entry.broken for entry in known)
    says = "Each mark is a floor in an observed round; below the dashed line the bound holds. "
    says += f"It was exceeded in {broken} of {count} measurements."
    return Section(
        "bound",
        "Bound and measurement",
        "Theorem 1 bounds how far a floor's model can drift from steps on all data.",
        (
            Card(
                "bound",
                "Divergence of the floors",
                says,
                plots.bound_figure(found, looks),
                "No divergence was measured: train with `--set participation.observe_every=10`, for example.",
                wide=True,
            ),
        ),
    )


def _given(card: Card) -> Any:
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


def _notices(collection: Collection) -> str:
    going = [
        f"{run.label}, seed {run.scenario.seed}: {len(run.records)} of {run.scenario.rounds} rounds"
        for run in collection.runs
        if not run.ended
    ]
    return notice("Not all rounds are there yet; figures show what is:", going) + notice(
        "Left out, or shown in part:", collection.problems
    )


def _footer(thinned: Mapping[str, None]) -> str:
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in thinned)
    made = (
        f"Made by fedfloor {html.escape(fedfloor.__version__)}. This page holds all it needs: keep it, or send it on."
    )
    return f"<p>{made}</p>{notes}"
