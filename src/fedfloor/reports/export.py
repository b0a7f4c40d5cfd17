"""All rounds of all runs as one CSV file, for a spreadsheet or a data frame."""

__all__ = ["write_csv"]

import csv
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedfloor.characters import in_spreadsheet
from fedfloor.errors import RunLogError
from fedfloor.reports.reading import Collection, ReadRun
from fedfloor.reports.saving import save
from fedfloor.rounds.columns import columns_of

_CAUSES = ("energy", "memory", "lost")  #: columns that are always there


def write_csv(collection: Collection, path: Path) -> None:
    """Write one row per run and round; a cell is empty where the log has no value, as between evaluations."""
    if not path.parent.is_dir():
        raise RunLogError(f"{path}: there is no folder {path.parent}. Make it, or name another file")
    if path.is_dir():
        raise RunLogError(f"{path}: is a folder. Name a file")
    # So that no file of a run or a report is ever overwritten, not even through a link.
    if Path(os.path.realpath(path)).suffix != ".csv":
        raise RunLogError(f"{path}: must end in .csv. Name it {path.stem or 'report'}.csv")
    if path.exists() and not path.is_file():
        raise RunLogError(f"{path}: is a pipe or a device, not a plain file. Name another file")
    others = {cause for run in collection.runs for cause in run.summary.failures} - set(_CAUSES)
    causes = [*_CAUSES, *sorted(others)]

    def write(part: Path) -> None:
        with part.open("w", encoding="utf-8", newline="") as file:
            head = ["folder", "policy", "variant", "seed", "round", "delay_s", "clock_s", "accuracy", "loss"]
            head += [
                "selected",
                "completed",
                *(f"failed_{cause}" for cause in causes),
                "energy_j",
                "raw_devices",
                "label",
            ]
            table = csv.DictWriter(file, head, extrasaction="ignore", lineterminator="\n")
            table.writerow({name: in_spreadsheet(name) for name in head})
            for run in collection.runs:
                table.writerows(_rows(run, causes))

    save(Path(os.path.realpath(path)), write)  # a link stays one


def _rows(run: ReadRun, causes: Sequence[str]) -> Iterator[dict[str, object]]:
    of_run = {"folder": str(run.folder), "policy": run.policy, "variant": run.variant, "seed": run.scenario.seed}
    of_run["label"] = run.label
    for record in run.records:
        failures = [gateway.failure for gateway in record.gateways if gateway.failure]
        failed = Counter(cause if cause in causes else "other" for cause in failures)  # as a summary counts them
        counts = {f"failed_{cause}": failed[cause] for cause in causes}
        cells = {key: values[0] for key, values in columns_of([record]).items()} | of_run | counts
        yield {key: in_spreadsheet(value) if isinstance(value, str) else value for key, value in cells.items()}
