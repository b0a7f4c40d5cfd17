"""Building blocks of the page as HTML; names that users chose are escaped here."""

__all__ = [
    "Card",
    "Part",
    "answers_html",
    "contents",
    "decision_panel",
    "left_out_html",
    "notice",
    "part_html",
    "picker",
    "run_controls",
    "table_html",
]

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fedfloor.reports.cells import Table
from fedfloor.reports.drawing.figure import Figure, Panel
from fedfloor.reports.drawing.plots import Plot
from fedfloor.reports.palette import Look
from fedfloor.reports.sections import Section

_LISTED = 8  #: lines of a notice
_CELL, _WORDS = 14, 28  #: letters beyond which a cell may wrap, and beyond which it counts as text
_DASHES = {"solid": "", "dash": "7 4", "dot": "2 3", "dashdot": "7 3 2 3", "longdash": "11 4"}


@dataclass(frozen=True, slots=True, eq=False)
class Card:
    """A panel of a figure with its texts, or with the reason why there is nothing to draw."""

    figure: Figure
    panel: Panel
    is_real: bool = False  #: whether all runs are on real machines

    @property
    def id(self) -> str:
        """Of the plot's element, after `fig-`."""
        return self.panel.id or self.figure.name

    @property
    def title(self) -> str:
        """Above the plot."""
        return self.panel.title or self.figure.title

    @property
    def caption(self) -> str:
        """Between title and plot: what it shows, and what it leaves out."""
        omissions = dict.fromkeys(plot.omission for plot in self.plots)
        return " ".join(filter(None, (self.figure.caption, self.panel.note, *omissions)))

    @property
    def missing(self) -> str:
        """In place of a plot: why there is none, and what to do."""
        return self.figure.missing_real if self.is_real and self.figure.missing_real else self.figure.missing

    @property
    def plots(self) -> tuple[Plot, ...]:
        """The only plot, or those that the reader chooses from; empty if there is nothing to draw."""
        return tuple(plot for _, plot in self.panel.choices) if self.panel.plot is None else (self.panel.plot,)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A section of the page with its content."""

    section: Section
    cards: tuple[Card, ...] = ()
    body: str = ""  #: HTML before the cards
    panel: str = ""  #: HTML after the first card


def contents(sections: Sequence[Section]) -> str:
    """Links to the sections of the page."""
    links = "".join(f'<a href="#{section.id}">{html.escape(section.link or section.title)}</a>' for section in sections)
    return f'<nav class="contents" aria-label="Contents">{links}</nav>'


def answers_html(sentences: Sequence[str]) -> str:
    """What the comparison says; empty without sentences."""
    if not sentences:
        return ""
    items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
    return f'<ul class="answers" aria-label="What the comparison says">{items}</ul>'


def notice(title: str, entries: Sequence[str]) -> str:
    """A box with a list before the figures; empty without entries."""
    if not entries:
        return ""
    items = "".join(f"<li>{html.escape(entry)}</li>" for entry in entries[:_LISTED])
    if len(entries) > _LISTED:
        items += f"<li>and {len(entries) - _LISTED} more</li>"
    return f'<div class="notice" role="note"><p>{html.escape(title)}</p><ul>{items}</ul></div>'


def picker(looks: Sequence[Look]) -> str:
    """The bar that hides and shows policies, and the key that replaces it on paper."""
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


def _swatch(look: Look) -> str:
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


def run_controls(labels: Sequence[str], omissions: Iterable[str]) -> str:
    """Choice of a run and of a round, below sentences on what cannot be chosen."""
    options = "".join(f'<option value="{at}">{html.escape(label)}</option>' for at, label in enumerate(labels))
    left_out = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in dict.fromkeys(omissions))
    return (
        f'{left_out}<div class="controls"><label>Run <select id="run-choice">{options}</select></label>'
        '<div class="slide"><label>Round <input type="range" id="round-choice" min="0" max="0" value="0" '
        'autocomplete="off"></label><button type="button" id="round-back" aria-label="Previous round">&#8249;</button>'
        '<output id="round-shown" for="round-choice"></output>'
        '<button type="button" id="round-on" aria-label="Next round">&#8250;</button></div></div>'
        '<p class="note" id="run-raw"></p>'
    )


def decision_panel() -> str:
    """Where the page's script writes what was decided in the round that is chosen, and why."""
    return '<div class="card wide decision" id="decision" role="region" aria-label="Decision of the round"></div>'


def part_html(part: Part, looks: Sequence[Look]) -> str:
    """A section of the page with its figures."""
    section = part.section
    sentence = f"<p>{_words(section.sentence)}</p>" if section.sentence else ""
    cards = [_card_html(card, looks) for card in part.cards]
    content = "\n".join(filter(None, [*cards[:1], part.panel, *cards[1:]]))
    grid = f'<div class="grid">\n{content}\n</div>' if content else ""
    title = html.escape(section.title)
    head = f'<section id="{section.id}" aria-labelledby="h-{section.id}">\n<h2 id="h-{section.id}">{title}</h2>'
    return f"{head}\n{sentence}{part.body}{grid}\n</section>"


def _card_html(card: Card, looks: Sequence[Look]) -> str:
    series = card.panel.series
    about = f' data-series="{series}"' if series is not None else ""
    kind = "card wide" if card.figure.wide else "card"
    swatch = f"{_swatch(looks[series])} " if series is not None else ""
    title = f"<h3>{swatch}{html.escape(card.title)}</h3>"
    choice = ""
    if len(card.panel.choices) > 1:
        options = "".join(
            f'<option value="{at}">{html.escape(name)}</option>' for at, (name, _) in enumerate(card.panel.choices)
        )
        select = f'<select id="fig-{card.id}-choice" autocomplete="off">{options}</select>'
        choice = f'<div class="controls"><label>Show {select}</label></div>'
    height = card.plots[0].height
    label = html.escape(f"{card.title}. {card.caption}")
    return (
        f'<figure class="{kind}"{about}><figcaption>{title}<p>{_words(card.caption)}</p></figcaption>{choice}'
        f'<div class="scroll"><div class="plot" id="fig-{card.id}" role="img" aria-label="{label}" '
        f'style="min-height:{height}px"></div></div></figure>'
    )


def left_out_html(cards: Sequence[Card]) -> str:
    """Figures that have nothing to draw, and why, folded up; empty without any."""
    if not cards:
        return ""
    items = "".join(f"<li>{html.escape(card.title)}: {_words(card.missing)}</li>" for card in cards)
    count = "1 figure has" if len(cards) == 1 else f"{len(cards)} figures have"
    return f"<details><summary>{count} no data in these runs</summary><ul>{items}</ul></details>"


def table_html(table: Table, looks: Sequence[Look], *, caption: bool = True) -> str:
    """A table that scrolls by itself if it is too wide; the row of a series starts with a piece of its line.

    Columns without any value are left out.
    """
    swatches = {look.label: _swatch(look) + " " for look in looks}
    filled = [at for at in range(len(table.columns)) if at == 0 or any(row[at] for row in table.rows)]
    columns, rows = [table.columns[at] for at in filled], [[row[at] for at in filled] for row in table.rows]
    longest = [max((len(row[at]) for row in rows), default=0) for at in range(len(columns))]
    kind = [' class="words"' if size > _WORDS else ' class="wraps"' if size > _CELL else "" for size in longest]
    head = "".join(f'<th scope="col"{look}>{html.escape(name)}</th>' for name, look in zip(columns, kind, strict=True))
    body = ""
    for row in rows:
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
    """A name that may break between its settings."""
    return html.escape(text).replace(",", ",<wbr>").replace(" [", "<wbr> [")


def _cell(text: str) -> str:
    """A cell that does not break between a number, its unit and its interval."""
    together = re.sub(r"(?<=\d) (?=(?:s|min|h|J|%|±)(?:\s|$))|(?<=±) |(?<=,) (?=[+-])|(?<=[sh%]) (?=±)", "\u00a0", text)
    return html.escape(together)


def _words(text: str) -> str:
    """Text as HTML, with `code` between backquotes."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))
