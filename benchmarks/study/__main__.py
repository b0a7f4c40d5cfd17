"""The study of docs/reproduce.md: `python -m benchmarks.study` trains what is missing and prints every table.

Every finished run adds one line to `docs/studies/learning.csv`; runs that have a line are skipped, so the study can be
stopped at any time and continued. `make leaderboard` repeats all of it. The data sets must be in `FEDFLOOR_DATA`.
"""

import argparse
from pathlib import Path

from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

from benchmarks.studies import lines_of, missing
from benchmarks.study.measures import final_accuracy
from benchmarks.study.parts import PARTS
from benchmarks.study.pictures import draw_sooner
from benchmarks.study.runs import LINES, Line, train
from benchmarks.study.tables import TABLES
from fedfloor.workers.processes import cores


def main() -> None:
    """Train what is missing, or only say what the lines say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", choices=[*PARTS, []], help="parts of the study; all if not given")
    parser.add_argument("--workers", type=int, default=cores(), help="runs at the same time; one per core if not given")
    parser.add_argument("--csv", type=Path, default=LINES, help="file of finished runs")
    parser.add_argument("--summary", action="store_true", help="train nothing; print the tables of finished runs")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="draw accuracy against time there")
    arguments = parser.parse_args()
    parts = arguments.part or list(PARTS)
    runs = [run for part in parts for run in PARTS[part]()]
    left = missing(lines_of(arguments.csv, Line), runs)
    if left and not arguments.summary:
        with Progress(*Progress.get_default_columns(), MofNCompleteColumn(), TimeRemainingColumn()) as progress:
            task = progress.add_task("runs", total=len(left))
            for line in train(left, arguments.workers, arguments.csv):
                progress.advance(task)
                text = f"{line.scenario} {line.policy} {line.settings} seed {line.seed}"
                progress.print(f"{text}: accuracy {final_accuracy(line):.1%}, {line.wall_s:.0f} s")
    lines = lines_of(arguments.csv, Line)
    by_run = {line.run: line for line in lines}
    if arguments.pictures is not None:
        print("\n".join(map(str, draw_sooner(by_run, arguments.pictures))))
    for part in parts:
        print("\n".join([f"## {part}", "", *TABLES[part](by_run)]))
    done = [line for line in lines if line.run in set(runs)]
    hours = sum(line.wall_s for line in done) / 3600
    print(f"{len(done)} of {len(set(runs))} runs; {hours:.1f} hours on one core")


if __name__ == "__main__":
    main()
