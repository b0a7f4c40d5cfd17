"""The small plant with files of its own as data, and the files."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import tomli_w

import fedfloor
from fedfloor.arrays import Floats
from fedfloor.scenario.resolved import Scenario
from tests.conftest import Table, small_table


def loaded(folder: Path, data: Table, *, shape: Sequence[int], classes: int, task: str | None = None) -> Scenario:
    """The small plant with these data, written to a folder and loaded."""
    table = small_table() | {"data": data}
    table["model"] = {"name": "mlp", "input": list(shape), "classes": classes}
    if task is not None:
        table["training"] = {"task": task}
    path = folder / "plant.toml"
    path.write_text(tomli_w.dumps(table), encoding="utf-8")
    return fedfloor.load(path)


def write_csv(path: Path, columns: Mapping[str, Iterable[object]], delimiter: str = ",") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [delimiter.join(columns), *(delimiter.join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def signal(length: int, start: float) -> Floats:
    """Numbers that say which row and which recording they are from."""
    return np.arange(length, dtype=np.float64) + start


def draw(path: Path, grey: int, size: tuple[int, int] = (6, 4), mode: str = "L") -> None:
    """A picture of one colour."""
    pictures = pytest.importorskip("PIL.Image", reason="pictures need Pillow, of the extra 'files'")
    path.parent.mkdir(parents=True, exist_ok=True)
    pictures.new(mode, size, grey if mode == "L" else (grey, 0, 255)).save(path)
