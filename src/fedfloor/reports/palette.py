"""How series are told apart, one home for pictures and page: Matplotlib's and Plotly's names side by side."""

__all__ = ["COLOURS", "Look", "look_of", "shade_of"]

from dataclasses import dataclass
from typing import Any

#: Okabe and Ito's without black and yellow, each of which vanishes on one background; then a grey
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A8F98")
#: (Plotly's, Matplotlib's)
_DASHES: tuple[tuple[str, Any], ...] = (
    ("solid", "-"),
    ("dash", (0, (5, 1.5))),
    ("dot", (0, (1.2, 1.2))),
    ("dashdot", (0, (5, 1.5, 1.2, 1.5))),
    ("longdash", (0, (8, 2))),
)
_SYMBOLS = (
    ("circle", "o"),
    ("square", "s"),
    ("diamond", "D"),
    ("triangle-up", "^"),
    ("cross", "P"),
    ("x", "X"),
    ("star", "*"),
)


@dataclass(frozen=True, slots=True)
class Look:
    """Line and marker of a series."""

    colour: str
    dash: str  #: as Plotly calls it
    symbol: str  #: as Plotly calls it
    linestyle: Any  #: the same dash for Matplotlib
    marker: str  #: the same symbol for Matplotlib


def look_of(index: int) -> Look:
    """How the series of this index looks wherever it is shown."""
    dash, linestyle = _DASHES[index % len(_DASHES)]
    symbol, marker = _SYMBOLS[index % len(_SYMBOLS)]
    return Look(COLOURS[index % len(COLOURS)], dash, symbol, linestyle, marker)


def shade_of(series: int) -> float:
    """How opaque the bands of so many series are: many on top of each other would hide the lines."""
    return 0.17 * min(1.0, 3 / series)
