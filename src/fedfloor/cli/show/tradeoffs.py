"""The trade-off over V: its progress, and what it looks like."""

__all__ = ["print_tradeoff", "sweeping"]

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from fedfloor.cli.show.terminal import OUT, print_table, progress, table_of
from fedfloor.errors import counted
from fedfloor.runs.tradeoff import STEPS
from fedfloor.scenario.resolved import Scenario
from fedfloor.scheduling.policies.ddsra import Ddsra
from fedfloor.theory.tradeoff import TradeoffPoint


@contextmanager
def sweeping(scenario: Scenario, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """What to call after every simulated round: a live bar on standard error."""
    total = len(STEPS) * scenario.rounds
    with progress("V", total, quiet=quiet, note=Ddsra().first_delay()) as (bar, task):
        yield lambda: bar.update(task, advance=1, note="")


def print_tradeoff(scenario: Scenario, points: Sequence[TradeoffPoint]) -> None:
    """Delay and participation over V, with the bounds of Theorem 2."""
    title = f"{scenario.name}, {counted(scenario.rounds, 'round')} per V"
    table = table_of(title, "V", "mean delay", "delay bound", "shortfall", "shortfall bound")
    for point in points:
        delay_bound = "none" if point.delay_bound_s is None else f"{point.delay_bound_s:.4g} s"
        shortfall_bound = "none" if point.shortfall_bound is None else f"{point.shortfall_bound:.3f}"
        delay = "endless" if point.mean_delay_s is None else f"{point.mean_delay_s:.4g} s"
        row = (delay, delay_bound, f"{point.shortfall:.3f}", shortfall_bound)
        table.add_row(f"{point.v:g}", *row)
    print_table(table)
    if all(point.delay_bound_s is None for point in points):
        OUT.print(
            "No run met its rates, so the best delay is unknown and there are no bounds. More rounds, or rates that "
            "the plant can reach, give some."
        )
        return
    note = "the best delay is that of the fastest run that met its rates; none: the bound would exceed every rate"
    OUT.print(f"Bounds: Theorem 2 with the corrections of docs/paper_notes.md; {note}.")
