"""What tests of a model measure: the accuracy of one that predicts classes, the error of one that predicts numbers."""

__all__ = ["ACCURACY", "ERROR", "SCORES", "Score", "score_of"]

from dataclasses import dataclass

from fedfloor.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Score:
    """What a test gives."""

    name: str  #: in tables, on axes and of figures
    what: str  #: of figures, as the beginning of a sentence
    better: str  #: which values are better: higher or lower
    is_share: bool  #: whether it is shown in percent, and differences in points; otherwise differences are in percent

    @property
    def title(self) -> str:
        """The name at the beginning of a sentence."""
        return self.name.capitalize()

    @property
    def unit(self) -> str:
        """Of a difference."""
        return " points" if self.is_share else " %"


ACCURACY = Score("accuracy", "Accuracy of the model", better="higher", is_share=True)
ERROR = Score("error", "Root mean square error of the model", better="lower", is_share=False)
SCORES = (ACCURACY, ERROR)


def score_of(scenario: Scenario) -> Score:
    """What the tests of a scenario's model measure."""
    return ERROR if scenario.training.predicts_numbers else ACCURACY
