"""How series and parts are told apart, one home for print and page: Matplotlib's and Plotly's names side by side."""

__all__ = [
    "COLOURS",
    "DARK_TURN_COLOURS",
    "PART_COLOURS",
    "RAW_COLOUR",
    "TURN_COLOURS",
    "Look",
    "look_of",
    "looks_of",
    "palette_css",
    "shade_of",
]

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from fedfloor.reports.sorting import natural_key

Linestyle = str | tuple[float, tuple[float, ...]]

#: of series: Okabe and Ito's without black and yellow, each of which vanishes on one background, and a violet
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7055F5")
#: of the stages of a round, on the page and in print; readers who cannot tell red from green tell them apart, too
PART_COLOURS = MappingProxyType(
    {"download": "#99DDFF", "device": "#EEDD88", "link": "#AA7744", "gateway": "#606C90", "upload": "#FFAABB"}
)
#: of cut 0, with which raw samples leave the device; deeper cuts have a scale of their own
RAW_COLOUR = "#F0C800"
#: for what a floor does in a round: Tol's muted scheme, distinct from the colours of series and of phases
TURN_COLOURS = MappingProxyType(
    {
        "waited": "#DDDDDD",
        "done": "#44AA99",
        "failed: energy": "#882255",
        "failed: memory": "#332288",
        "failed: lost": "#999933",
        "failed": "#AA4499",
    }
)
#: the same on a dark ground, on which most of those vanish
DARK_TURN_COLOURS = MappingProxyType(
    {
        "waited": "#3A424A",
        "done": "#44BB99",
        "failed: energy": "#EE6677",
        "failed: memory": "#8899FF",
        "failed: lost": "#DDCC77",
        "failed": "#CC88DD",
    }
)
#: (Plotly's, Matplotlib's)
_DASHES: tuple[tuple[str, Linestyle], ...] = (
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
    """Label, line and marker of a series, the same in every figure."""

    index: int  #: of the series in its report
    label: str
    colour: str
    dash: str  #: Plotly's name
    symbol: str  #: Plotly's name
    linestyle: Linestyle  #: the same dash for Matplotlib
    marker: str  #: the same symbol for Matplotlib


def look_of(index: int, label: str = "") -> Look:
    """Look of the series with this index; the first 35 differ."""
    dash, linestyle = _DASHES[index % len(_DASHES)]
    symbol, marker = _SYMBOLS[index % len(_SYMBOLS)]
    return Look(index, label, COLOURS[index % len(COLOURS)], dash, symbol, linestyle, marker)


def looks_of(labels: Iterable[str]) -> tuple[Look, ...]:
    """Looks of several series, in their order; the same names get the same looks in every order."""
    names = tuple(labels)
    ranked = sorted(names, key=natural_key)
    return tuple(replace(look_of(ranked.index(name), name), index=index) for index, name in enumerate(names))


def shade_of(series: int) -> float:
    """Opacity of the bands of so many series: many opaque bands would hide the lines."""
    return 0.17 * min(1.0, 3 / series)


def palette_css() -> str:
    """Colours of turns and of stages as variables of a style sheet, in light and dark: --turn-1, --upload, ..."""

    def rule(turns: Mapping[str, str]) -> str:
        numbered = {f"turn-{at}": colour for at, colour in enumerate(turns.values())}
        named = {"done": turns["done"], "failed": turns["failed"]}
        stages = {"download": "download", "train": "gateway", "upload": "upload"}  # most of training is the gateway's
        parts = {name: PART_COLOURS[stage] for name, stage in stages.items()}
        return (
            ":root { "
            + "".join(f"--{name}: {value.lower()}; " for name, value in (numbered | named | parts).items())
            + "}"
        )

    dark = f"@media screen and (prefers-color-scheme: dark) {{ {rule(DARK_TURN_COLOURS)} }}"
    return f"{rule(TURN_COLOURS)}\n{dark}\n"
