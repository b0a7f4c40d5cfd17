"""A run that a test lets grow: the rounds of a run that has ended, written into another folder bit by bit."""

import json
import shutil
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tomli_w

import fedfloor
from tests.conftest import small_table

ROUNDS = 40


def finished_run(folder: Path, rounds: int = ROUNDS) -> Path:
    """A run of random scheduling on two floors, one of which fails in some rounds."""
    table = small_table() | {"rounds": rounds}
    table["radio"] = {"channels": 1}
    table["floors"][0]["gateway"]["max_energy_j"] = 0.05
    (folder / "plant.toml").write_text(tomli_w.dumps(table), encoding="utf-8")
    fedfloor.simulate(folder / "plant.toml", policy="random", out=folder / "finished")
    return folder / "finished"


class Growing:
    """A copy of a run, to which its rounds are added as a test asks."""

    def __init__(self, finished: Path, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "rounds.jsonl"
        self.lines = (finished / "rounds.jsonl").read_bytes().splitlines(keepends=True)
        folder.mkdir()
        shutil.copy(finished / "scenario.toml", folder)

    def write(self, begin: int, end: int) -> None:
        """Log the rounds `begin` up to `end`, as a run does."""
        self.append(b"".join(self.lines[begin:end]))

    def append(self, content: bytes) -> None:
        with self.log.open("ab") as file:
            file.write(content)

    def cut(self, rounds: int) -> None:
        """Drop all rounds after the first, as resuming does."""
        with self.log.open("r+b") as file:
            file.truncate(sum(map(len, self.lines[:rounds])))

    def predict_numbers(self, losses: Sequence[float]) -> None:
        """Make it a run whose model predicts numbers, tested every five rounds with these losses."""

        def tested(at: int, record: dict[str, Any]) -> None:
            record["loss"] = losses[at // 5] if at % 5 == 4 and at // 5 < len(losses) else None

        self.change(tested)
        scenario = self.folder / "scenario.toml"
        table = tomllib.loads(scenario.read_text(encoding="utf-8"))
        table["model"] |= {"classes": 1}
        table["model"]["layers"][-1]["output"] = [1]
        table["training"]["task"] = "regression"
        table["data"] = {"name": "own.module:data"}
        scenario.write_text(tomli_w.dumps(table), encoding="utf-8")

    def change(self, change: Callable[[int, dict[str, Any]], None]) -> None:
        """Change all rounds that will be written."""
        for at, line in enumerate(self.lines):
            record = json.loads(line)
            change(at, record)
            self.lines[at] = json.dumps(record).encode() + b"\n"


def as_of_a_real_plant(at: int, record: dict[str, Any]) -> None:
    """Add what a plant of real machines logs besides, and an evaluation every five rounds."""
    record["accuracy"] = 0.5 + at / 100 if at % 5 == 4 else None
    for gateway in record["gateways"]:
        if gateway["selected"]:
            gateway["predicted_s"] = 0.9 * gateway["delay_s"]
