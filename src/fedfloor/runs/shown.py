"""Runs in Python: as data frames, and in a notebook."""

__all__ = ["Shown", "run_card"]

from collections.abc import Sequence

from fedfloor.notebooks.cards import Curve, card, curves, html_table, number
from fedfloor.notebooks.frames import DataFrame, frame_of
from fedfloor.rounds.columns import Grain, columns_of
from fedfloor.rounds.record import RoundRecord
from fedfloor.rounds.summary import RunSummary, value_of_test


class Shown:
    """What all runs have in common in Python; their rounds are in `records`, as they are logged."""

    records: Sequence[RoundRecord]

    def to_pandas(self, per: Grain = "round") -> DataFrame:
        """The log as a data frame with a row per `round`, per `gateway` (a floor) in a round, or per `device`.

        Needs the extra 'notebook'.
        """
        return frame_of(columns_of(self.records, per))


def run_card(
    title: str,
    summary: RunSummary,
    records: Sequence[RoundRecord],
    more: Sequence[tuple[str, str]] = (),
    *,
    predicts_numbers: bool = False,
) -> str:
    """A run in a notebook: a few numbers, and the accuracy or error over rounds; without tests, the delay of each."""
    failures = ", ".join(f"{cause} {count}" for cause, count in sorted(summary.failures.items())) or "none"
    rows = [
        *more,
        ("mean delay", f"{number(summary.mean_delay)} s"),
        ("simulated time", f"{number(summary.clock)} s"),
        ("completed", f"{summary.completed} of {summary.selected} floor-rounds"),
        ("failures", failures),
        ("worst shortfall", number(summary.shortfall)),
        ("energy per round", f"{number(summary.mean_energy)} J"),
    ]
    values = [value_of_test(record, predicts_numbers=predicts_numbers) for record in records]
    tests = [(record.round + 1, value) for record, value in zip(records, values, strict=True) if value is not None]
    if tests:
        name = "error" if predicts_numbers else "accuracy"
        picture = curves([Curve([at for at, _ in tests], [value for _, value in tests])], "rounds", name)
    else:
        delays = [record.delay for record in records]
        picture = curves([Curve(range(len(delays)), delays)], "round", "delay [s]")
    return card(title, html_table(("", ""), rows), picture)
