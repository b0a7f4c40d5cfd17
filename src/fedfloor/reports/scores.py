"""What tests of a model measure: the accuracy of one that predicts classes, the error of one that predicts numbers."""

__all__ = ["ACCURACY", "ERROR", "SCORES", "Score", "score_of"]

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from fedfloor.reports import sections
from fedfloor.reports.sections import Section
from fedfloor.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What a test gives, and how tables, figures and sentences speak of it."""

    name: str  #: in tables, on axes and of figures
    what: str  #: of figures, as the beginning of a sentence
    better: Literal["higher", "lower"]  #: which values are better
    is_share: bool  #: whether it is shown in percent, and differences in points; otherwise differences are in percent
    level: float  #: what all runs of a seed reach, as a share of the worst of their final scores
    section: Section  #: of the page, with its figures
    best: str  #: column of the best test; empty if tables have none
    last: str  #: column of the last test alone
    steadiness: str  #: column
    leading: str  #: what the better of two policies does, in a sentence
    above: str  #: what the one with the greater score does, with a place for the difference
    below: str  #: what the other does

    @property
    def title(self) -> str:
        """The name at the beginning of a sentence."""
        return self.name.capitalize()

    @property
    def unit(self) -> str:
        """Of a difference."""
        return " points" if self.is_share else " %"

    @property
    def sign(self) -> float:
        """Factor with which greater values are better."""
        return 1.0 if self.better == "higher" else -1.0

    @property
    def worst_word(self) -> str:
        """Adjective of the worst of several values."""
        return "least" if self.better == "higher" else "largest"

    def worst_of(self, values: Iterable[float]) -> float:
        """The worst of at least one value."""
        return min(values) if self.better == "higher" else max(values)

    def best_of(self, values: Iterable[float]) -> float:
        """The best of at least one value."""
        return max(values) if self.better == "higher" else min(values)


ACCURACY = Score(
    name="accuracy",
    what="Accuracy of the model",
    better="higher",
    is_share=True,
    level=0.95,
    section=sections.ACCURACY,
    best="",
    last="last evaluation",
    steadiness="steadiness [points]",
    leading="is more accurate",
    above="ends {} more accurate",
    below="ends {} less accurate",
)
ERROR = Score(
    name="error",
    what="Root mean square error of the model",
    better="lower",
    is_share=False,
    level=1.05,
    section=sections.ERROR,
    best="least error",
    last="last error",
    steadiness="steadiness of the error",
    leading="has the smaller error",
    above="ends with a {} larger error",
    below="ends with a {} smaller error",
)
SCORES = (ACCURACY, ERROR)


def score_of(scenario: Scenario) -> Score:
    """What the tests of a scenario's model measure."""
    return ERROR if scenario.training.predicts_numbers else ACCURACY
