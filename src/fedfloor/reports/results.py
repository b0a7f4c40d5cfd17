"""What figures show: the runs of a collection as arrays, with the look of every series."""

__all__ = ["Results", "results_of"]

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from fedfloor.reports.arrays import SeriesArrays, lay_out
from fedfloor.reports.palette import Look, looks_of
from fedfloor.reports.reading import Collection
from fedfloor.reports.scores import Score

Measure = TypeVar("Measure")


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """The runs of a collection, laid out once for all figures."""

    collection: Collection
    series: tuple[SeriesArrays, ...]
    looks: tuple[Look, ...]  #: of the series

    @property
    def several_seeds(self) -> bool:
        """Whether any series has more than one run."""
        return any(len(series.runs) > 1 for series in self.series)

    @property
    def has_links(self) -> bool:
        """Whether the links of devices to their gateways cost anything in any run."""
        return any(run.plant.link_costs is not None for series in self.series for run in series.runs)

    def measured(
        self, measure: Callable[[SeriesArrays], Measure], score: Score | None = None
    ) -> list[tuple[Look, Measure]]:
        """Look and measure of every series, or of those whose tests measure this score."""
        pairs = zip(self.looks, self.series, strict=True)
        return [(look, measure(series)) for look, series in pairs if score in (None, series.score)]


def results_of(collection: Collection) -> Results:
    """Lay out the runs of a collection."""
    series = lay_out(collection)
    return Results(collection, series, looks_of(entry.label for entry in series))
