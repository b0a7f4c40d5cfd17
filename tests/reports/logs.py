"""Short simulated runs for tests of the report, and the same runs with other values in their logs."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

import fedfloor
from fedfloor.reports.arrays import SeriesArrays, lay_out_run
from fedfloor.reports.reading import Collection, ReadRun, Series, collect
from fedfloor.rounds.lines import json_line, parse_record
from fedfloor.rounds.summary import summarise
from fedfloor.theory.tradeoff import TradeoffPoint
from tests.conftest import small_table

POLICIES = ["round_robin", "ddsra:v=1", "random"]
Record = dict[str, Any]


def simulated(folder: Path, policy: str, rounds: int = 6, seed: int = 1, cut: int = 1) -> ReadRun:
    """A run on a plant of two floors and one channel."""
    table = small_table() | {"rounds": rounds}
    table["radio"] = {"channels": 1}
    table["baseline"] = {"cut": cut, "frequency_share": 0.5}
    file = folder / f"plant-{cut}.toml"
    file.write_text(tomli_w.dumps(table), encoding="utf-8")
    out = folder / f"{policy.replace(':', '-')}-{seed}-{cut}"
    fedfloor.simulate(file, policy=policy, seed=seed, out=out)
    return collect([out]).runs[0]


def changed(run: ReadRun, change: Callable[[int, Record], None], rounds: int | None = None) -> ReadRun:
    """The same run with other records, changed as they are logged."""
    records = []
    for t, record in enumerate(run.records[:rounds]):
        entry = json.loads(json_line(record))
        change(t, entry)
        records.append(parse_record(json.dumps(entry)))
    return dataclasses.replace(run, records=tuple(records), summary=summarise(records))


def with_columns(run: ReadRun, **columns: Sequence[Any]) -> ReadRun:
    """Other values for keys of the rounds, as many rounds as there are values."""

    def change(t: int, record: Record) -> None:
        record.update({key: values[t] for key, values in columns.items()})

    return changed(run, change, min(len(values) for values in columns.values()))


def observed(run: ReadRun, divergence: Mapping[int, list[float | None]], bound: list[float]) -> ReadRun:
    """The same run with divergence measured in some rounds, and with target rates of 0.8 and 0.2."""

    def change(t: int, record: Record) -> None:
        for m, entry in enumerate(record["gateways"]):
            entry |= {"divergence": divergence.get(t, [None, None])[m], "divergence_bound": bound[m]}
            entry["target_rate"] = [0.8, 0.2][m]

    return changed(run, change)


def series_of(*runs: ReadRun) -> SeriesArrays:
    return SeriesArrays("one", tuple(lay_out_run(run) for run in runs))


def collection_of(*runs: ReadRun, tradeoff: tuple[TradeoffPoint, ...] = ()) -> Collection:
    return Collection("small", tuple(Series(run.label, (run,)) for run in runs), (), tradeoff)
