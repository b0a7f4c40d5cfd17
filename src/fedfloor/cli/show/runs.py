"""What runs and models look like."""

__all__ = ["as_json", "columns_of_runs", "print_evaluation", "print_simulation", "print_training", "summary_json"]

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

from fedfloor.cli.show.terminal import OUT, amount, print_table, table_of
from fedfloor.errors import counted
from fedfloor.rounds.summary import RunSummary, summary_row
from fedfloor.runs.simulate import Run
from fedfloor.scheduling.registry import shown_name

if TYPE_CHECKING:
    from fedfloor.runs.evaluate import Evaluation
    from fedfloor.runs.train import TrainedRun

    AnyRun: TypeAlias = Run | TrainedRun


def print_simulation(runs: Sequence[Run]) -> None:
    """Policies side by side, then participation per floor, then where the logs are."""
    _print_summaries(runs, [run.summary for run in runs], {})
    _print_folders(runs)


def print_training(runs: "Sequence[TrainedRun]", *, theory: bool) -> None:
    """Policies side by side, the theorems if asked, and at the end one sentence per run and where the logs are."""
    summaries = [done.summary for done in runs]
    _print_summaries(runs, summaries, _learning_rows(runs))
    if theory:
        _print_bounds(summaries, runs)
    for summary, done in zip(summaries, runs, strict=True):
        holding = done.holding
        left = "its device" if summary.raw_device_rounds == 0 else "its floor"
        resumed = "" if done.resumed == 0 else f" (resumed after {done.resumed})"
        tested = f"{done.holding.samples.test_labels.size:,} samples"
        if done.confusion is None:
            result = f"test error {done.error:.4g} (root mean square, {tested})"
        else:
            guessing = f"guessing: {1 / done.confusion.shape[0]:.0%}"
            result = f"test accuracy {done.accuracy:.1%} ({tested}; {guessing})"
        OUT.print(
            f"{_short(summary)}: after {counted(summary.rounds, 'round')}{resumed} and {amount(summary.clock, 's')} "
            f"of simulated time, {result}, trained on "
            f"{holding.samples.labels.size:,} samples of {counted(holding.histogram.shape[0], 'device')} "
            f"({holding.origin}); "
            f"no sample left {left}.",
            style="bold",
        )
    _print_folders(runs)


def _print_folders(runs: "Sequence[AnyRun]") -> None:
    for run in runs:
        OUT.print(f"log: {run.folder}", soft_wrap=True)


def _print_summaries(
    runs: "Sequence[AnyRun]", summaries: Sequence[RunSummary], learning: Mapping[str, Sequence[str]]
) -> None:
    first = summaries[0]
    names = [_short(summary) for summary in summaries]
    if 24 + sum(len(name) + 3 for name in names) > OUT.width:
        for number, name in enumerate(names, start=1):
            OUT.print(f"{number}  {name}", soft_wrap=True)
        names = [str(number) for number in range(1, len(names) + 1)]
    causes = sorted({cause for summary in summaries for cause in summary.failures})
    solve_times = map(_solve_time, runs)
    rows: dict[str, Sequence[str]] = {
        "mean delay [s]": [f"{summary.mean_delay:#.4g}" for summary in summaries],
        "95th percentile [s]": [f"{summary.p95_delay:#.4g}" for summary in summaries],
        "simulated time [s]": [f"{summary.clock:.5g}" for summary in summaries],
        "energy per round [J]": [f"{summary.mean_energy:#.4g}" for summary in summaries],
        "completed": [str(summary.completed) for summary in summaries],
        **{f"failed: {cause}": [str(summary.failures.get(cause, 0)) for summary in summaries] for cause in causes},
        "worst shortfall": [f"{summary.shortfall:.3f}" for summary in summaries],
        **learning,
        "time to decide": ["-" if seconds is None else amount(seconds, "s") for seconds in solve_times],
    }
    rounds = [summary.rounds for summary in summaries]
    if len(set(rounds)) > 1:
        rows = {"rounds": [str(count) for count in rounds], **rows}
    table = table_of(f"{_span(rounds, 'd')} {'round' if max(rounds) == 1 else 'rounds'}", "", *names)
    for label, cells in rows.items():
        table.add_row(label, *cells)
    print_table(table)
    floors = table_of("share of rounds completed", "floor", "target", *names)
    for index, floor in enumerate(first.floors[:30]):
        floors.add_row(
            floor.name,
            _span([summary.floors[index].target_rate for summary in summaries], ".2f"),
            *(f"{summary.floors[index].completed_rate:.2f}" for summary in summaries),
        )
    print_table(floors)
    if len(first.floors) > 30:
        OUT.print(f"and {len(first.floors) - 30} more floors")


def _span(values: Sequence[float], form: str) -> str:
    """One number, or the least and the greatest of several different ones."""
    ends = [f"{min(values):{form}}", f"{max(values):{form}}"]
    return " to ".join(dict.fromkeys(ends))


def _solve_time(run: "AnyRun") -> float | None:
    """Median time to decide [s], because the first round may compile; None without a round."""
    return median(run.solve_times) if run.solve_times else None


def _learning_rows(runs: "Sequence[TrainedRun]") -> dict[str, list[str]]:
    """Rows about the models: the last one, and the best one of all evaluations."""
    errors = [done.best_error for done in runs if done.best_error is not None]
    if errors:
        return {
            "last error": [f"{done.error:.4g}" for done in runs],
            "least error": [f"{error:.4g}" for error, _ in errors],
            "least after rounds": [str(rounds) for _, rounds in errors],
            "last test loss": [f"{done.loss:.4f}" for done in runs],
        }
    best = [done.best for done in runs if done.best is not None]
    return {
        "last accuracy": [f"{done.accuracy:.2%}" for done in runs],
        "best accuracy": [f"{accuracy:.2%}" for accuracy, _ in best],
        "best after rounds": [str(rounds) for _, rounds in best],
        "last test loss": [f"{done.loss:.4f}" for done in runs],
    }


def _short(summary: RunSummary) -> str:
    return shown_name(summary.policy)


def _print_bounds(summaries: Sequence[RunSummary], runs: "Sequence[TrainedRun]") -> None:
    """The theorems beside what runs measured, then a line for each note; statements without a number are left out."""
    several = len(runs) > 1
    who = ("policy",) if several else ()
    table = table_of("theory", *who, "", "what", "measured", "bound", left=len(who) + 2)
    notes = []
    for summary, done in zip(summaries, runs, strict=True):
        name = (_short(summary),) if several else ()
        for entry in done.bounds:
            if entry.measured is None and entry.bound is None:
                continue
            measured = "" if entry.measured is None else f"{entry.measured:.4g}"
            bound = "none" if entry.bound is None else f"{entry.bound:.4g}"
            table.add_row(*name, entry.theorem, entry.what, measured, bound)
            if entry.note:
                notes.append(": ".join([*name, entry.theorem, entry.note]))
    if table.row_count:
        print_table(table)
    for note in notes:
        OUT.print(note)
    if notes:
        OUT.print()


def print_evaluation(evaluation: "Evaluation") -> None:
    """Accuracy and confusion matrix, or the error of a model that predicts numbers."""
    is_number = evaluation["accuracy"] is None
    result = f"error {evaluation['error']:.4g}" if is_number else f"accuracy {evaluation['accuracy']:.2%}"
    OUT.print(
        f"{evaluation['run']}, after {counted(evaluation['rounds'], 'round')}: test {result} "
        f"({evaluation['samples']:,} samples), test loss {evaluation['loss']:.4f}",
        style="bold",
    )
    if not evaluation["same_data"]:
        OUT.print(f"The data ({evaluation['data']}) is not what the run was trained on.", style="yellow")
    confusion = evaluation["confusion"] or []
    classes = len(confusion)
    if 0 < classes <= 20:
        title = "confusion matrix: rows are true classes, columns predicted ones"
        names = evaluation.classes
        table = table_of(title, "", *names, "correct")
        for label, row in enumerate(confusion):
            cells = [str(count) if count else "." for count in row]
            table.add_row(names[label], *cells, f"{row[label] / max(1, sum(row)):.0%}")
        print_table(table)
    if evaluation["exported"]:
        OUT.print(f"model: {evaluation['exported']}")


def columns_of_runs(runs: "Sequence[AnyRun]") -> dict[str, list[object]]:
    """The summaries of runs as columns."""
    rows = [summary_row(run.summary) for run in runs]
    return {name: [row[name] for row in rows] for name in rows[0]}


def summary_json(summary: RunSummary) -> dict[str, object]:
    """A summary with units in its keys."""
    entry: dict[str, object] = asdict(summary)
    for key, unit in (("mean_delay", "s"), ("p95_delay", "s"), ("clock", "s"), ("mean_energy", "j")):
        entry[f"{key}_{unit}"] = entry.pop(key)
    return entry


def as_json(run: "AnyRun") -> dict[str, object]:
    """A run's summary with units in its keys, and more."""
    entry = summary_json(run.summary)
    entry["time_per_round_s"] = _solve_time(run)
    entry["folder"] = str(run.folder)
    if not isinstance(run, Run):
        entry |= {"accuracy": run.accuracy, "loss": run.loss, "resumed_at": run.resumed, "data": run.holding.origin}
        entry["best_accuracy"], entry["best_accuracy_rounds"] = run.best or (None, None)
        if run.best_error is not None:
            entry["error"] = run.error
            entry["least_error"], entry["least_error_rounds"] = run.best_error
        entry["bounds"] = [asdict(bound) for bound in run.bounds]
    return entry
