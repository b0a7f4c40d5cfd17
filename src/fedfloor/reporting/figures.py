"""Pictures for papers: one column wide, legible in print, told apart by colour, dash and marker alike."""

__all__ = ["FIGURES", "draw_figures"]

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedfloor.errors import MissingExtraError
from fedfloor.reporting import measures
from fedfloor.reporting.measures import Curve, SeriesArrays
from fedfloor.reporting.reading import Collection
from fedfloor.reporting.saving import save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Okabe and Ito's colours, which colour-blind readers tell apart; the yellow is too pale for lines and comes last
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)), (0, (8, 2)))
_MARKERS = "os^DvPX*"
_HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++", "oooo")
_COLUMN, _PAGE = 3.5, 7.16  #: [inch] width of a journal's column and of its page
_DPI = 200
_BARS = 60  #: floors that have a bar each; more become a line or an area, in ascending order
_STYLE: dict[Any, Any] = {
    "font.size": 8, "axes.labelsize": 8, "axes.titlesize": 8, "xtick.labelsize": 7, "ytick.labelsize": 7,
    "legend.fontsize": 7, "legend.frameon": False, "legend.handlelength": 2.8, "lines.linewidth": 1.3,
    "lines.markersize": 3.2, "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.6,
    "xtick.major.width": 0.6, "ytick.major.width": 0.6, "axes.grid": True, "grid.linewidth": 0.3,
    "grid.color": "#cccccc", "axes.axisbelow": True, "hatch.linewidth": 0.5, "pdf.fonttype": 42,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Laid:
    """What figures are drawn from."""

    collection: Collection
    series: tuple[SeriesArrays, ...]
    names: tuple[str, ...]  #: of the series, short

    def each(self) -> Iterator[tuple[int, str, SeriesArrays]]:
        """Index, name and arrays; a series looks the same in every figure."""
        return zip(range(len(self.names)), self.names, self.series, strict=True)


def draw_figures(
    collection: Collection, folder: Path, *, pdf: bool = False, on_figure: Callable[[str], None] = lambda _: None
) -> tuple[Path, ...]:
    """Write every figure there is data for into the folder, as PNG and if asked as PDF; returns the files written."""
    try:
        import matplotlib as mpl  # noqa: PLC0415  # only for figures, and an extra
    except ModuleNotFoundError as error:
        raise MissingExtraError("figures", "report") from error
    names = tuple(_short(series.label) for series in collection.series)
    laid = _Laid(collection, measures.lay_out(collection), names)
    written: list[Path] = []
    for name, draw in FIGURES.items():
        on_figure(name)
        with mpl.rc_context(_STYLE):  # the reader's own settings come back afterwards
            figure = draw(laid)
            if figure is None:
                continue
            written.append(_saved(figure, folder / f"{name}.png", format="png", dpi=_DPI))
            if pdf:  # without a date equal runs give equal files
                path = folder / f"{name}.pdf"
                written.append(_saved(figure, path, format="pdf", metadata={"CreationDate": None}))
    return tuple(written)


def _saved(figure: "Figure", path: Path, **options: Any) -> Path:
    save(path, lambda part: figure.savefig(part, bbox_inches="tight", pad_inches=0.03, **options))
    return path


def _short(label: str) -> str:
    """A label as a legend has room for it."""
    return label.replace(",solver=exact", "").replace(",solver=", ", ").replace(":v=", ", V = ").replace("_", " ")


def _figure(height: float, width: float = _COLUMN) -> "Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)  # not pyplot: no window, and the reader's choice of a backend stays
    return figure


def _axes(height: float = 2.5, width: float = _COLUMN) -> tuple["Figure", "Axes"]:
    figure = _figure(height, width)
    return figure, figure.subplots()


def _legend(figure: "Figure", axes: "Axes") -> None:
    """Above the axes, where it hides no line."""
    handles, labels = axes.get_legend_handles_labels()
    longest = max(map(len, labels))
    fitting = max(1, int(figure.get_figwidth() * 17 / (longest + 8)))  # about 17 letters an inch
    figure.legend(handles, labels, loc="outside upper center", ncols=min(fitting, 4, len(labels)), columnspacing=1.2)


def _look(index: int) -> dict[str, Any]:
    return {
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": _DASHES[index % len(_DASHES)],
        "marker": _MARKERS[index % len(_MARKERS)],
    }


def _fill(index: int) -> dict[str, Any]:
    part = index % len(COLOURS)
    return {"facecolor": COLOURS[part], "hatch": _HATCHES[part], "edgecolor": "white", "linewidth": 0}


def _curves(
    found: Sequence[tuple[int, str, Curve | None]], x: str, y: str, *, step: bool = False
) -> "tuple[Figure, Axes] | None":
    """Lines through the means with a dozen markers each, and a band from the least to the greatest of the seeds."""
    drawn = [entry for entry in found if entry[2] is not None and np.isfinite(entry[2].mean).any()]
    if not drawn:
        return None
    figure, axes = _axes()
    for index, name, curve in drawn:
        assert curve is not None
        known = np.isfinite(curve.mean)
        every = max(1, math.ceil(known.sum() / 12))
        style: dict[str, Any] = {"drawstyle": "steps-post"} if step else {}
        marks = (index * every // len(_MARKERS), every)  # not all at the same place
        axes.plot(curve.x[known], curve.mean[known], label=name, markevery=marks, **_look(index), **style)
        if curve.runs.max() > 1:
            band: dict[str, Any] = {"color": _look(index)["color"], "alpha": 0.18, "linewidth": 0}
            low, high = curve.low[known], curve.high[known]
            axes.fill_between(curve.x[known], low, high, step="post" if step else None, **band)
    axes.set(xlabel=x, ylabel=y, xlim=(0, None))
    _legend(figure, axes)
    return figure, axes


def _time_unit(longest: float) -> tuple[float, str]:
    """Seconds per unit, and the unit, in which a time is best read."""
    return (1.0, "s") if longest < 300 else (60.0, "min") if longest < 18000 else (3600.0, "h")


def _longest(values: Sequence[measures.Floats]) -> float:
    return max((float(part[np.isfinite(part)].max(initial=0.0)) for part in values), default=0.0)


def _percent(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator  # noqa: PLC0415

    axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100.0 * share:.4g} %"))


def _accuracy_rounds(laid: _Laid) -> "Figure | None":
    """Fig. 3 and 4 of the paper."""
    found = [(index, name, measures.accuracy_over_rounds(series)) for index, name, series in laid.each()]
    drawn = _curves(found, "round", "test accuracy")
    if drawn is None:
        return None
    _percent(drawn[1].yaxis)
    return drawn[0]


def _accuracy_time(laid: _Laid) -> "Figure | None":
    found = [(index, name, measures.accuracy_over_time(series)) for index, name, series in laid.each()]
    scale, unit = _time_unit(_longest([curve.x for _, _, curve in found if curve is not None]))
    scaled = [(i, name, None if curve is None else replace(curve, x=curve.x / scale)) for i, name, curve in found]
    drawn = _curves(scaled, f"simulated time [{unit}]", "test accuracy", step=True)
    if drawn is None:
        return None
    _percent(drawn[1].yaxis)
    return drawn[0]


def _delay(laid: _Laid) -> "Figure | None":
    """Fig. 5 of the paper."""
    found = [(index, name, measures.delay_over_rounds(series)) for index, name, series in laid.each()]
    scale, unit = _time_unit(_longest([curve.mean for _, _, curve in found]))
    scaled = [
        (i, name, replace(curve, mean=curve.mean / scale, low=curve.low / scale, high=curve.high / scale))
        for i, name, curve in found
    ]
    drawn = _curves(scaled, "round", f"cumulative delay [{unit}]")
    if drawn is None:
        return None
    drawn[1].set_ylim(0, None)
    return drawn[0]


def _name_floors(axes: "Axes", floors: Sequence[str], inches: float) -> None:
    """Names below their bars; upright where they would run into each other, of many only some."""
    step = math.ceil(len(floors) / (inches * 7))
    shown = list(floors)[::step]
    turned = sum(len(name) + 1 for name in shown) > inches * 15
    axes.set_xticks(np.arange(len(floors))[::step], shown, rotation=90 if turned else 0)
    axes.grid(visible=False, axis="x")
    axes.tick_params(axis="x", length=0)


def _participation(laid: _Laid) -> "Figure | None":
    """Fig. 6 of the paper: bars for what was achieved, a line across each for the wanted rate."""
    found = [(index, name, measures.participation(series)) for index, name, series in laid.each()]
    floors = found[0][2].floors
    shown = [entry for entry in found if entry[2].floors == floors]  # others have other floors
    if len(floors) > _BARS:
        return _sorted_participation(shown)
    wide = _COLUMN if len(floors) * len(shown) <= 48 else _PAGE
    figure, axes = _axes(2.5, wide)
    width = 0.84 / len(shown)
    for number, (index, name, entry) in enumerate(shown):
        at = np.arange(len(floors)) + (number - (len(shown) - 1) / 2) * width
        axes.bar(at, entry.achieved, width * 0.94, label=name, **_fill(index))
        label = "target rate" if number == len(shown) - 1 else "_nolegend_"
        axes.hlines(entry.target, at - width / 2, at + width / 2, color="black", linewidth=1.0, label=label)
    _name_floors(axes, floors, wide - 0.5)
    axes.set(ylabel="share of rounds completed", ylim=(0, None))
    _legend(figure, axes)
    return figure


def _sorted_participation(shown: Sequence[tuple[int, str, measures.Participation]]) -> "Figure":
    """Of many floors, how many take part how often."""
    figure, axes = _axes()
    for index, name, entry in shown:
        at = np.arange(1, len(entry.floors) + 1)
        every = max(1, len(entry.floors) // 12)
        axes.plot(at, np.sort(entry.achieved), label=name, markevery=(index * every // 8, every), **_look(index))
    axes.plot(at, np.sort(shown[0][2].target), color="black", linewidth=0.8, label="target rate")
    axes.set(xlabel="floors, the least served first", ylabel="share of rounds completed", ylim=(0, None))
    _legend(figure, axes)
    return figure


def _rates(laid: _Laid) -> "Figure | None":
    """Fig. 2 of the paper: every floor's derived rate against the observed one."""
    found = [(i, name, rates) for i, name, series in laid.each() if (rates := measures.rates(series)) is not None]
    if not found:
        return None
    figure, axes = _axes(3.0)
    top = 1.08 * max(float(np.nanmax([entry.derived, entry.observed])) for _, _, entry in found)
    axes.plot([0, top], [0, top], color="#888888", linewidth=0.8, linestyle=":", label="equal")
    for index, name, entry in found:
        axes.plot(entry.derived, entry.observed, label=name, **(_look(index) | {"linestyle": "none"}))
    first = found[0][2]
    for floor, x, y in list(zip(first.floors, first.derived, first.observed, strict=True))[:12]:
        axes.annotate(floor, (x, y), xytext=(3, 3), textcoords="offset points", fontsize=6, color="#444444")
    limits: dict[str, Any] = {"xlim": (0, top), "ylim": (0, top)}
    axes.set(xlabel="derived participation rate", ylabel="observed participation rate", aspect="equal", **limits)
    _legend(figure, axes)
    return figure


def _stacked(laid: _Laid, of: Callable[[SeriesArrays], measures.Split], unit: str, most: int = 6) -> "Figure | None":
    """A panel for each of the first series, stacked bars per floor."""
    shown = [(name, split) for _, name, series in laid.each() if np.isfinite((split := of(series)).values).any()][:most]
    if not shown:
        return None
    columns = 1 if len(shown) == 1 else 2
    rows = math.ceil(len(shown) / columns)
    width = (_COLUMN, _PAGE)[columns - 1]
    figure = _figure(0.4 + 1.8 * rows, width)
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel().tolist()
    for panel, entry in zip_longest(panels, shown):
        if entry is None:
            panel.set_visible(False)
            continue
        name, split = entry
        panel.set_title(name)
        if len(split.floors) > _BARS:
            total = np.nansum(split.values, axis=0)
            areas = np.nan_to_num(split.values[:, np.argsort(total)], posinf=0.0)
            panel.stackplot(np.arange(1, len(total) + 1), areas, labels=split.parts, colors=COLOURS, linewidth=0)
            panel.set_xlabel("floors, the least first")
            continue
        below, at = np.zeros(len(split.floors)), np.arange(len(split.floors))
        for index, (part, values) in enumerate(zip(split.parts, split.values, strict=True)):
            height = np.where(np.isfinite(values), values, 0.0)
            panel.bar(at, height, 0.72, bottom=below, label=part, **_fill(index))
            below += height
        _name_floors(panel, split.floors, width / columns - 0.5)
    for panel in panels[::columns]:
        panel.set_ylabel(f"mean of a round [{unit}]")
    _legend(figure, panels[0])
    return figure


def _times(laid: _Laid) -> "Figure | None":
    return _stacked(laid, measures.time_split, "s")


def _energies(laid: _Laid) -> "Figure | None":
    return _stacked(laid, measures.energy_split, "J")


def _device_rows(axes: "Axes", devices: Sequence[str]) -> None:
    step = math.ceil(len(devices) / 40)
    axes.set_yticks(range(0, len(devices), step), list(devices)[::step], fontsize=6)
    axes.grid(visible=False)


def _scale_beside(figure: "Figure", axes: "Axes", image: Any, label: str) -> Any:
    bar = figure.colorbar(image, ax=axes, pad=0.02, aspect=30)
    bar.set_label(label)
    return bar


def _cuts(laid: _Laid) -> "Figure | None":
    """Cut of every device over rounds, of the first ddsra series or else the first; white where not picked."""
    of_ddsra = [index for index, _, series in laid.each() if series.label.startswith("ddsra")]
    index = of_ddsra[0] if of_ddsra else 0
    run = laid.series[index].runs[0]
    found = measures.cuts(run)
    if not np.isfinite(found.cut).any():
        return None
    figure, axes = _axes(min(6.0, 1.0 + 0.15 * len(found.devices)))
    place = (0.5, found.rounds[-1] + 0.5, len(found.devices) - 0.5, -0.5)
    shades: dict[str, Any] = {"cmap": "viridis", "vmin": 0, "vmax": len(run.run.scenario.layers)}
    image = axes.imshow(found.cut, aspect="auto", interpolation="nearest", extent=place, **shades)
    _device_rows(axes, found.devices)
    axes.set(xlabel="round", title=f"{laid.names[index]}, seed {run.run.scenario.seed}")
    _scale_beside(figure, axes, image, "layers on the device")
    return figure


def _failures(laid: _Laid) -> "Figure | None":
    shown = [(name, measures.failures(series)) for _, name, series in laid.each()]
    causes = sorted({cause for _, entry in shown for cause in entry.counts})
    if not causes:
        return None
    figure, axes = _axes(0.8 + 0.24 * len(shown))
    left = np.zeros(len(shown))
    for index, cause in enumerate(causes):
        share = np.array([entry.counts.get(cause, 0) / max(1, entry.selected) for _, entry in shown])
        axes.barh(np.arange(len(shown)), share, 0.65, left=left, label=cause, **_fill(index))
        left += share
    axes.set_yticks(range(len(shown)), [name for name, _ in shown])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    _percent(axes.xaxis)
    axes.set(xlabel="failed, of the floors picked", xlim=(0, None))
    _legend(figure, axes)
    return figure


def _tradeoff(laid: _Laid) -> "Figure | None":
    """Theorem 2: delay and shortfall over V, with the bounds where there are any."""
    found = measures.tradeoffs(laid.collection)
    if not found:
        return None
    figure = _figure(3.6)
    upper, lower = figure.subplots(2, 1, sharex=True)
    least = min((float(v) for entry in found for v in entry.v if v > 0), default=1.0)
    for index, entry in enumerate(found):
        v = np.where(entry.v > 0, entry.v, least / 10)
        panels = ((upper, entry.delay, entry.delay_bound), (lower, entry.shortfall, entry.shortfall_bound))
        for axes, values, bound in panels:
            axes.plot(v, np.where(np.isfinite(values), values, np.nan), label=entry.name, **_look(index))
            if np.isfinite(bound).any():
                dots: dict[str, Any] = {"color": COLOURS[index % len(COLOURS)], "linestyle": ":", "linewidth": 1.0}
                axes.plot(v, np.where(np.isfinite(bound), bound, np.nan), label="bound of Theorem 2", **dots)
    upper.set(ylabel="mean delay [s]", ylim=(0, 1.6 * _longest([entry.delay for entry in found]) or None))
    zero = any((entry.v == 0).any() for entry in found)
    lower.set(ylabel="worst shortfall", xscale="log", ylim=(0, None))
    lower.set_xlabel(f"V (V = 0 is drawn at {least / 10:g})" if zero else "V")
    _legend(figure, upper)
    return figure


def _held(laid: _Laid) -> "Figure | None":
    """Who holds what: samples per device and class, of the first run that trained; white is none."""
    runs = [run for series in laid.series for run in series.runs]
    found = next((held for run in runs if (held := measures.data_held(run)) is not None), None)
    if found is None:
        return None
    figure, axes = _axes(min(6.0, 1.0 + 0.15 * len(found.devices)))
    most = max(1, int(found.counts.max()))
    shades: dict[str, Any] = {"cmap": "Blues", "vmin": -0.25 * most, "vmax": most}  # a few samples are not white
    image = axes.imshow(np.ma.masked_equal(found.counts, 0), aspect="auto", interpolation="nearest", **shades)
    _device_rows(axes, found.devices)
    axes.set_xticks(range(0, found.counts.shape[1], math.ceil(found.counts.shape[1] / 20)))
    axes.set_xlabel("class")
    _scale_beside(figure, axes, image, "samples held").ax.set_ylim(0, most)
    return figure


def _divergence(laid: _Laid) -> "Figure | None":
    """Theorem 1: nothing should lie above the diagonal."""
    found = [(i, name, seen) for i, name, s in laid.each() if (seen := measures.divergence(s)) is not None]
    measured = np.concatenate([entry.measured for _, _, entry in found] or [np.zeros(0)])
    bound = np.concatenate([entry.bound for _, _, entry in found] or [np.zeros(0)])
    if not ((measured > 0) & (bound > 0)).any():
        return None
    figure, axes = _axes(2.7)
    low, high = float(measured[measured > 0].min()) / 1.5, float(max(measured.max(), bound.max())) * 1.5
    axes.plot([low, high], [low, high], color="#888888", linewidth=0.8, linestyle=":", label="measured = bound")
    for index, name, entry in found:
        look = _look(index) | {"linestyle": "none", "alpha": 0.6}
        axes.plot(entry.bound, entry.measured, label=f"{name}: {entry.broken} of {entry.bound.size} above", **look)
    limits: dict[str, Any] = {"xlim": (float(bound[bound > 0].min()) / 1.5, high), "ylim": (low, high)}
    axes.set(xlabel="bound of Theorem 1", ylabel="measured divergence", xscale="log", yscale="log", **limits)
    _legend(figure, axes)
    return figure


#: name of the file -> what draws it, or finds that there is nothing to draw
FIGURES: Mapping[str, Callable[[_Laid], "Figure | None"]] = {
    "accuracy-rounds": _accuracy_rounds,
    "accuracy-time": _accuracy_time,
    "delay": _delay,
    "participation": _participation,
    "rates": _rates,
    "time-per-floor": _times,
    "energy-per-floor": _energies,
    "cuts": _cuts,
    "failures": _failures,
    "tradeoff": _tradeoff,
    "data": _held,
    "divergence": _divergence,
}
