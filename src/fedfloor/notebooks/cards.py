"""Small tables and curves in HTML and SVG, which notebooks show in place of the text of a result.

Colours follow the text colour of the notebook, so that light and dark themes both work; nothing is loaded and no script
runs.
"""

__all__ = ["COLOUR", "Curve", "bars", "card", "curves", "html_table", "number"]

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

COLOUR = "#0072b2"  #: of a curve that is alone

_WIDTH, _HEIGHT = 420, 150  #: of a picture [px]
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 8, 8, 30  #: margins [px]
_MOST_POINTS = 300  #: of a curve; more could not be told apart


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a picture."""

    x: Sequence[float]
    y: Sequence[float]  #: what is not finite is left out
    label: str = ""
    colour: str = COLOUR


def card(title: str, *parts: str) -> str:
    """A result in a notebook: a title, and below it tables and pictures."""
    return f"<div><strong>{html.escape(title)}</strong>{''.join(parts)}</div>"


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; texts are escaped, and numbers are on the right."""
    head = "".join(f"<th style='text-align:left'>{html.escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    side = "right" if isinstance(value, int | float) else "left"
    text = number(value) if isinstance(value, float) else "" if value is None else str(value)
    return f"<td style='text-align:{side}'>{html.escape(text)}</td>"


def number(value: float) -> str:
    """A number with four digits."""
    return f"{value:.4g}" if math.isfinite(value) else "endless" if value > 0 else "unknown"


def curves(lines: Sequence[Curve], x: str, y: str) -> str:
    """A picture of curves with the names of its axes; empty if there is nothing to draw."""
    points = [_finite(line) for line in lines]
    flat = [point for part in points for point in part]
    if not flat:
        return ""
    left, right = min(at for at, _ in flat), max(at for at, _ in flat)
    low, high = min(0.0, *(value for _, value in flat)), max(value for _, value in flat)
    high = high if high > low else low + 1.0
    across, up = (_WIDTH - _LEFT - _RIGHT) / max(right - left, 1e-300), (_HEIGHT - _TOP - _BOTTOM) / (high - low)
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{_HEIGHT}' role='img' "
        f"aria-label='{html.escape(f'{y} over {x}', quote=True)}' font-size='11' fill='currentColor'>",
        f"<path d='M{_LEFT} {_TOP}V{_HEIGHT - _BOTTOM}H{_WIDTH - _RIGHT}' fill='none' stroke='currentColor'/>",
    ]
    for line, part in zip(lines, points, strict=True):
        places = [(_LEFT + (at - left) * across, _HEIGHT - _BOTTOM - (value - low) * up) for at, value in part]
        if len(places) == 1:
            parts.append(f"<circle cx='{places[0][0]:.1f}' cy='{places[0][1]:.1f}' r='3' fill='{line.colour}'/>")
        else:
            path = " ".join(f"{at:.1f},{value:.1f}" for at, value in places)
            parts.append(f"<polyline points='{path}' fill='none' stroke='{line.colour}' stroke-width='1.5'/>")
    parts += [
        _text(_LEFT - 4, _TOP + 8, number(high), "end"),
        _text(_LEFT - 4, _HEIGHT - _BOTTOM, number(low), "end"),
        _text(_LEFT, _HEIGHT - _BOTTOM + 13, number(left), "start"),
        _text(_WIDTH - _RIGHT, _HEIGHT - _BOTTOM + 13, number(right), "end"),
        _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - _BOTTOM + 13, x, "middle"),
        _text(_LEFT + 6, _TOP + 8, y, "start"),
        "</svg>",
    ]
    legend = "".join(
        f"<span style='color:{line.colour}'>&#9632;</span> {html.escape(line.label)} &#8194;"
        for line in lines
        if line.label
    )
    return f"<div>{''.join(parts)}</div>{f'<div>{legend}</div>' if legend else ''}"


def bars(values: Sequence[tuple[str, float]], unit: str) -> str:
    """A picture with a bar for every name, as long as its value; empty if no value can be drawn."""
    drawn = [(name, value) for name, value in values if math.isfinite(value)]
    most = max((value for _, value in drawn), default=0.0)
    if most <= 0.0:
        return ""
    parts = [f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{18 * len(drawn)}' role='img' "]
    parts.append(f"aria-label='{html.escape(unit, quote=True)}' font-size='11' fill='currentColor'>")
    for at, (name, value) in enumerate(drawn):
        long = (_WIDTH - 190) * value / most
        parts.append(f"<rect x='100' y='{18 * at + 3}' width='{long:.1f}' height='12' fill='{COLOUR}'/>")
        parts.append(_text(95, 18 * at + 13, name if len(name) <= 15 else f"{name[:14]}…", "end"))
        parts.append(_text(104 + long, 18 * at + 13, f"{number(value)} {unit}", "start"))
    return f"<div>{''.join(parts)}</svg></div>"


def _finite(line: Curve) -> list[tuple[float, float]]:
    """The points of a curve that can be drawn, evenly thinned out."""
    points = [(at, value) for at, value in zip(line.x, line.y, strict=True) if math.isfinite(value)]
    step = max(1, math.ceil(len(points) / _MOST_POINTS))
    return points[::step] if (len(points) - 1) % step == 0 else [*points[::step], points[-1]]


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f"<text x='{x:.0f}' y='{y:.0f}' text-anchor='{anchor}'>{html.escape(text)}</text>"
