"""The study of docs/reproduce.md: `python -m benchmarks.study` trains what is missing and prints every table.

Every finished run adds one line to `docs/studies/learning.csv`; runs that have a line are skipped, so the study can be
stopped at any time and continued. `make leaderboard` repeats all of it. The data sets must be in `FEDFLOOR_DATA`.
"""

import argparse
from pathlib import Path

from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

from benchmarks.studies import PAGE, filled, lines_of, missing
from benchmarks.study.measures import final_accuracy
from benchmarks.study.parts import PARTS, SCENARIOS
from benchmarks.study.pictures import draw_sooner
from benchmarks.study.runs import LINES, Line, train
from benchmarks.study.tables import TABLES, effort
from fedfloor.workers.processes import cores


def main() -> None:
    """Train what is missing, or only say what the lines say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all if not given")
    parser.add_argument("--scenario", choices=SCENARIOS, help="train runs of this scenario only")
    parser.add_argument("--workers", type=int, default=cores(), help="runs at the same time; one per core if not given")
    parser.add_argument("--csv", type=Path, default=LINES, help="file of finished runs")
    parser.add_argument("--summary", action="store_true", help="train nothing; print the tables of finished runs")
    parser.add_argument("--write", action="store_true", help="renew the tables and pictures of docs/reproduce.md")
    arguments = parser.parse_args()
    parts = arguments.part or list(PARTS)
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"unknown part {unknown[0]!r}. Name some of {', '.join(PARTS)}")
    runs = [run for part in parts for run in PARTS[part]()]
    left = [run for run in missing(lines_of(arguments.csv, Line), runs) if arguments.scenario in (None, run.scenario)]
    if left and not arguments.summary:
        with Progress(*Progress.get_default_columns(), MofNCompleteColumn(), TimeRemainingColumn()) as progress:
            task = progress.add_task("runs", total=len(left))
            for line in train(left, arguments.workers, arguments.csv):
                progress.advance(task)
                text = f"{line.scenario} {line.policy} {line.settings} seed {line.seed}"
                progress.print(f"{text}: accuracy {final_accuracy(line):.1%}, {line.wall_s:.0f} s")
    lines = lines_of(arguments.csv, Line)
    by_run = {line.run: line for line in lines}
    tables = {name: rows for part in parts for name, rows in TABLES[part](by_run).items()}
    tables["effort"] = effort(lines, runs)
    for name, rows in tables.items():
        print("\n".join([f"## {name}", "", *rows, ""]))
    if arguments.write:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")
        draw_sooner(by_run, PAGE.parent / "pictures")


if __name__ == "__main__":
    main()
