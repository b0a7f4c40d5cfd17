"""Two values of every floor on the page: bars with marks on them, or one against the other if floors are many."""

__all__ = ["Pair", "are_dots", "plot_pairs"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedfloor.arrays import Floats
from fedfloor.reports.drawing.plots import NEUTRAL, Plot, Trace, diagonal, harmless, names_axis, titled
from fedfloor.reports.palette import Look

_BARS = 30  #: floors up to which each has bars; more become dots


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two values of every floor of a series, each array (M,)."""

    floors: tuple[str, ...]
    bars: Floats
    marks: Floats


def are_dots(pairs: Sequence[tuple[Look, Pair | None]]) -> bool:
    """Whether there are so many floors that each becomes a dot."""
    return len(_floors(pairs)) > _BARS


def plot_pairs(
    pairs: Sequence[tuple[Look, Pair | None]], *, bar: str, mark: str, quantity: str, diamonds: bool = False
) -> Plot:
    """Both values of every floor; `bar` and `mark` say which they are, and marks are dashes unless `diamonds`."""
    floors = _floors(pairs)
    place = {name: at for at, name in enumerate(floors)}
    data: list[Trace] = []
    for look, pair in pairs:
        if pair is None:
            continue
        values = zip(pair.floors, pair.bars, pair.marks, strict=True)
        shared: Trace = {
            "name": harmless(look.label),
            "customdata": [[harmless(name), bar_value, mark_value] for name, bar_value, mark_value in values],
            "hovertemplate": f"%{{customdata[0]}}<br>{bar} %{{customdata[1]:.3f}}, {mark} %{{customdata[2]:.3f}}",
            "meta": {"s": look.index},
        }
        if are_dots(pairs):
            data.append(_dots(look, pair, shared))
        else:
            shared = {"x": [place[name] for name in pair.floors], "offsetgroup": str(look.index), **shared}
            data += _bars_and_marks(look, pair, shared, diamonds=diamonds)
    whole = {"range": [0, 1.02]}
    if are_dots(pairs):
        data.append(diagonal([0.0, 1.0], "equal"))
        axes = {"xaxis": titled(f"{mark} {quantity}") | whole, "yaxis": titled(f"{bar} {quantity}") | whole}
        return Plot(data, {**axes, "hovermode": "closest", "showlegend": True})
    layout = {"barmode": "group", "scattermode": "group", "bargap": 0.3, "hovermode": "closest"}
    data.append(_key(mark, diamonds=diamonds))
    return Plot(data, {"xaxis": names_axis(floors), "yaxis": titled(quantity) | whole, "showlegend": True, **layout})


def _floors(pairs: Sequence[tuple[Look, Pair | None]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for _, pair in pairs if pair is not None for name in pair.floors))


def _dots(look: Look, pair: Pair, shared: Trace) -> Trace:
    marker = {"color": look.colour, "symbol": look.symbol, "size": 6, "opacity": 0.7}
    return {"type": "scatter", "mode": "markers", "x": pair.marks, "y": pair.bars, "marker": marker, **shared}


def _mark(colour: str, *, diamonds: bool) -> Mapping[str, object]:
    symbol, size, width = ("diamond", 8, 1.5) if diamonds else ("line-ew", 11, 2.5)
    return {"symbol": symbol, "size": size, "color": colour, "line": {"width": width}}


def _key(name: str, *, diamonds: bool) -> Trace:
    """An entry of the legend for the marks of all series."""
    marker = _mark(NEUTRAL, diamonds=diamonds)
    place: Trace = {"type": "scatter", "mode": "markers", "x": [None], "y": [None]}
    return {**place, "name": name, "marker": marker, "hoverinfo": "skip", "meta": {"ink": True}}


def _bars_and_marks(look: Look, pair: Pair, shared: Trace, *, diamonds: bool) -> tuple[Trace, Trace]:
    marker = _mark(look.colour, diamonds=diamonds)
    bars: Trace = {"type": "bar", "y": pair.bars, "marker": {"color": look.colour, "opacity": 0.85}, **shared}
    marks: Trace = {"type": "scatter", "mode": "markers", "y": pair.marks, "marker": marker, "cliponaxis": False}
    return bars, {**marks, **shared, "meta": {"s": look.index, "ink": True}, "showlegend": False}
