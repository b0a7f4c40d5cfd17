"""Sections of the page, from top to bottom; a table stands before them and more tables after them."""

__all__ = [
    "ACCURACY",
    "BOUND",
    "DATA",
    "DELAY",
    "ERROR",
    "FAILURES",
    "PARTICIPATION",
    "RUN",
    "SECTIONS",
    "TRADEOFF",
    "WHERE",
    "Section",
]

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """Heading and introduction of a part of the page."""

    id: str
    title: str
    sentence: str = ""  #: below the title
    link: str = ""  #: in the list of contents; the title if empty
    one_run: bool = False  #: whether its figures show one run and round, which the reader chooses


ACCURACY = Section("accuracy", "Accuracy", "Accuracy of the global model on test data that no device holds.")
ERROR = Section("error", "Error", "Root mean square error of the global model on test data that no device holds.")
DELAY = Section("delay", "Delay", "A round lasts until the slowest of its floors has finished.")
PARTICIPATION = Section(
    "participation",
    "Participation",
    "How often floors took part, beside their target rates. Estimated rates are lower for floors whose data lead "
    "further away from the common model.",
)
WHERE = Section(
    "where",
    "Where a round's time and energy go",
    "A floor downloads the model, its devices train the bottom layers, its gateway trains the top layers, and the "
    "gateway uploads the result. Training times are those of the floor's slowest device.",
)
RUN = Section(
    "run",
    "One run, round by round",
    "Choose a run and a round: with the slider, by clicking a grid, or with the arrow keys. The panel says what was "
    "decided in that round and why; the timeline and the map show it.",
    one_run=True,
)
FAILURES = Section(
    "failures", "Failures", "A floor that is selected can still fail; the round has then waited in vain."
)
TRADEOFF = Section(
    "tradeoff",
    "The trade-off over V",
    "The larger V is, the more ddsra favours short rounds over the target participation.",
)
DATA = Section(
    "data",
    "Who holds which data",
    "Every seed distributes the data differently; all policies of a seed get the same distribution.",
)
BOUND = Section(
    "bound",
    "Bound and measurement",
    "Theorem 1 bounds how far a floor's model can drift from training steps on all data.",
)

SECTIONS = (ACCURACY, ERROR, DELAY, PARTICIPATION, WHERE, RUN, FAILURES, TRADEOFF, DATA, BOUND)
