"""The runs of a folder while somebody watches them: their state and their figures, as the page asks for them.

Nothing is read between two questions, so a page that nobody looks at costs nothing.
"""

__all__ = ["Watched"]

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from fedfloor.errors import FedfloorError
from fedfloor.reports.drawing.plots import plain
from fedfloor.reports.drawing.scales import spread
from fedfloor.reports.exploring import single_runs
from fedfloor.reports.live.following import FollowedRun
from fedfloor.reports.live.recent import predicted_delay, recent_round
from fedfloor.reports.markup import part_html, picker
from fedfloor.reports.page import content_of
from fedfloor.reports.reading import put_together, run_folders
from fedfloor.reports.results import Results, results_of
from fedfloor.scheduling.registry import shown_name

_STEP = 0.4  #: [s] of reading for one question, so that a long log is read while the page is already there
_RUNS = 200  #: of a folder
_NUMBERS = 2_400_000  #: kept of all runs together, 20 MB; a round of the preset `quick` has 131
_EXPLORED = 120_000  #: numbers for the timeline, the map and the cuts
_POINTS = 80  #: of the small line of test results
_LEAST, _PAUSE = 1.0, 4.0  #: [s] between two drawings at least, and how many times longer than a drawing takes


class Watched:
    """A run folder, or a folder of them. Every method may be called from several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reading = threading.Lock()
        self._drawing = threading.Lock()
        self._runs: dict[Path, FollowedRun] = {}
        self._problems: list[str] = []
        self._stride = 1
        self._drawn: tuple[str, float, bytes] = ("", 0.0, b"")  #: version, when it may be drawn again, the answer

    def read(self) -> None:
        """Read what is new, for a moment; a long log needs several calls."""
        with self._reading:
            until = time.monotonic() + _STEP
            self._problems = []
            try:
                folders = list(run_folders([self.path], self._problems))
            except OSError as error:
                folders, self._problems = [], [f"{self.path}: cannot be read: {error.strerror}"]
            if len(folders) > _RUNS:
                self._problems.append(f"{self.path}: holds {len(folders)} runs. The first {_RUNS} are shown")
            for folder in folders[:_RUNS]:
                self._runs.setdefault(folder, FollowedRun(folder))
            for run in self._runs.values():
                run.read(until)
            self._thin()

    def _thin(self) -> None:
        """Keep fewer rounds if all of them together have become too many; all runs keep the same ones."""
        logs = [run.log for run in self._runs.values() if run.log is not None]
        while sum(len(log.kept) * log.kept.width for log in logs if len(log.kept) > 1) > _NUMBERS:
            self._stride *= 2
            for log in logs:
                log.kept.thin(self._stride)
        for log in logs:
            if log.kept.stride < self._stride:
                log.kept.thin(self._stride)

    @property
    def _version(self) -> str:
        """Differs whenever the figures would."""
        states = [(run.log.generation, run.log.rounds, run.is_ended) for run in self._runs.values() if run.log]
        return json.dumps(states)

    def state(self, run: str = "", log: int = 0, after: int = 0) -> bytes:
        """All runs in a few numbers, and the last rounds of one of them, as JSON.

        If the one is still the run with this `log`, only rounds after the first `after` are listed.
        """
        self.read()
        with self._reading:
            shown = self._chosen(run)
            answer = {
                "name": self.path.resolve().name,
                "runs": [self._entry(entry) for entry in self._runs.values()],
                "problems": self._problems if not self._runs else [],
                "version": self._version,
                "shown": None if shown is None else self._details(shown, log, after),
            }
        return json.dumps(plain(answer), allow_nan=False, separators=(",", ":")).encode()

    def _id(self, run: FollowedRun) -> str:
        return run.folder.name if run.folder != self.path else "."

    def _chosen(self, name: str) -> FollowedRun | None:
        """The run of this name; without it, the one that last logged a round, rather one that goes."""
        runs = list(self._runs.values())
        named = [run for run in runs if self._id(run) == name]
        ages = {id(run): float("inf") if run.age is None else run.age for run in runs}
        return named[0] if named else min(runs, key=lambda run: (run.is_ended, ages[id(run)]), default=None)

    def _entry(self, run: FollowedRun) -> Mapping[str, object]:
        scenario, log = run.scenario, run.log
        entry: dict[str, object] = {
            "id": self._id(run),
            "folder": str(run.folder),
            "status": run.status,
            "problem": run.problem,
            "age": run.age,
            "gap": run.gap,
            "unread": run.unread,
        }
        if scenario is not None:
            sizes = {"floors": len(scenario.floors), "devices": len(scenario.devices)}
            entry |= {"scenario": scenario.name, "seed": scenario.seed, "of": scenario.rounds, **sizes}
            entry["error"] = scenario.training.predicts_numbers
        if log is not None:
            entry |= {
                "log": log.generation,
                "policy": shown_name(log.policy),
                "rounds": log.rounds,
                "clock": log.tally.clock,
                "measured": log.is_measured and run.about.clock is None,
                "modelled": log.is_measured and run.about.clock is not None,
                "delay": log.recent[-1].delay_s,
                "mean": log.tally.mean_delay,
                "predicted": predicted_delay(log.recent[-1]),
                "tested": log.last,
                "best": log.best,
                "selected": log.tally.selected,
                "completed": log.tally.completed,
                "failures": log.tally.failures,
            }
        return entry

    def _details(self, run: FollowedRun, log: int, after: int) -> Mapping[str, object]:
        """The floors and the last rounds of a run, and its test results as a line of a few points."""
        reading, scenario = run.log, run.scenario
        if reading is None or scenario is None:
            return {"id": self._id(run), "log": 0, "rounds": []}
        known = after if log == reading.generation else 0
        predicts_numbers = scenario.training.predicts_numbers
        recent = [record for record in reading.recent if record.round >= known]
        rounds = [recent_round(record, predicts_numbers=predicts_numbers) for record in recent]
        tested = reading.kept.evaluations()
        points = [tested[at] for at in spread(len(tested), _POINTS).tolist()] if tested else []
        answer = {"id": self._id(run), "log": reading.generation, "rounds": rounds, "tested": points}
        return answer if known else {**answer, "floors": [floor.name for floor in scenario.floors]}

    def figures(self) -> bytes:
        """The figures of the report as JSON: HTML, and the data that the page's script draws.

        Figures that take long are drawn less often: an answer is given again until it has aged four times as long.
        """
        with self._drawing:
            version, due, answer = self._drawn
            with self._reading:
                latest = self._version
            if answer and (version == latest or time.monotonic() < due):
                return answer
            begin = time.monotonic()
            drawn = self._draw(latest)
            pause = max(_LEAST, _PAUSE * (time.monotonic() - begin))
            answer = json.dumps(plain({**drawn, "pause": pause}), allow_nan=False, separators=(",", ":")).encode()
            if drawn["data"] is not None:
                self._drawn = (latest, time.monotonic() + pause, answer)
            return answer

    def _draw(self, version: str) -> Mapping[str, object]:
        problems: list[str] = []
        try:
            results = self._results(problems)
            if results is None:
                return {"version": version, "sections": "", "picker": "", "data": None, "note": "", "problems": []}
            content = content_of(results, (), single_runs(results, _EXPLORED))
        except FedfloorError as error:  # a log that is being cut back; the next drawing sees it whole
            return {"version": "", "sections": "", "picker": "", "data": None, "note": "", "problems": [str(error)]}
        sections = "\n".join(part_html(part, results.looks) for part in content.parts if part.cards)
        note = ""
        if self._stride > 1:
            every = f"one of every {self._stride} rounds, drawn at random"
            note = f"These runs are long: figures use {every}. The numbers above count all rounds."
        bar = picker(results.looks) if len(results.looks) > 1 else ""
        shared = {"sections": sections, "picker": bar, "data": content.data, "note": note}
        return {"version": version, "problems": problems, **shared}

    def _results(self, problems: list[str]) -> Results | None:
        """The runs that have a round, as figures take them."""
        with self._reading:
            read = [(run, run.as_read()) for run in self._runs.values()]
        runs = [(run.table, *entry) for run, entry in read if entry is not None]
        if not runs:
            return None
        problems += [problem for _, _, beside in runs for problem in beside]
        return results_of(put_together([(run, table) for table, run, _ in runs], problems, [self.path]))
