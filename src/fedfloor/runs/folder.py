"""What every run leaves behind: a folder with the resolved scenario and one JSON line per round."""

__all__ = [
    "BOUNDS",
    "CHECKPOINT",
    "HOLDING",
    "ROUNDS",
    "SCENARIO",
    "STATE",
    "TIMINGS",
    "TRADEOFF",
    "RunFolder",
    "checkpoint_round",
    "columns_of",
    "finite",
    "flat",
    "read_records",
    "refuse_changes",
    "refuse_collection",
    "refuse_fewer",
    "refuse_filled",
    "refuse_other_runs",
    "round_record",
    "runs_below",
    "scenario_of",
    "training_loss",
    "write_json",
]

import contextlib
import json
import math
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import IO, Any, Literal, Self, get_args

from pydantic import ValidationError

from fedfloor.files import lock, write_whole
from fedfloor.errors import FailedRunError, RunLogError
from fedfloor.rounds.loop import RoundRecord
from fedfloor.scenario import Scenario, build, read
from fedfloor.scheduling.state import IDLE

ROUNDS = "rounds.jsonl"
TIMINGS = "timings.jsonl"
SCENARIO = "scenario.toml"
CHECKPOINT = "checkpoint"
STATE = "state.json"  #: of the checkpoint
HOLDING = "holding.json"  #: who holds what
BOUNDS = "bounds.json"  #: the theorems beside what the run measured, written at its end
TRADEOFF = "tradeoff.json"  #: delay and participation over V, beside the runs of a comparison

Grain = Literal["round", "gateway", "device"]


def round_record(record: RoundRecord, policy: str) -> dict[str, Any]:
    """One round as it is logged, SI units in the keys; free of wall-clock figures, so equal runs leave equal logs."""
    return {
        "round": record.state.index,
        "policy": policy,
        "delay_s": _number(record.delay),
        "clock_s": _number(record.clock),
        "accuracy": record.outcome.accuracy,
        "loss": record.outcome.test_loss,
        "gateways": [_gateway(record, m) for m in range(record.state.plant.gateways.count)],
    }


def _gateway(record: RoundRecord, m: int) -> dict[str, Any]:
    state, outcome, asked = record.state, record.outcome, record.outcome.figures
    selected = bool(record.decision.channel[m] != IDLE)
    entry: dict[str, Any] = {
        "name": state.plant.gateways.names[m],
        "selected": selected,
        "channel": int(record.decision.channel[m]) if selected else None,
        "completed": bool(outcome.completed[m]),
        "failure": outcome.failure[m],
        "delay_s": _number(outcome.delay[m]),
        "download_s": _number(asked.download[m]),
        "train_s": _number(asked.training[m]),
        "upload_s": _number(asked.upload[m]),
        "power_w": _number(outcome.allocation.power[m]) if selected else None,
        "energy_j": _number(outcome.gateway_energy[m]),
        "energy_budget_j": _number(state.weather.gateway_energy[m]),
        "queue": _number(state.queue[m]),
        "target_rate": _number(state.target_rate[m]),
        "loss": _number(outcome.loss[m]),
        **{key: _number(values[m]) for key, values in outcome.per_floor.items()},
    }
    if selected:
        entry["devices"] = [_device(record, int(n)) for n in (state.plant.devices.floor == m).nonzero()[0]]
    return entry


def _device(record: RoundRecord, n: int) -> dict[str, Any]:
    allocation = record.outcome.allocation
    return {
        "name": record.state.plant.devices.names[n],
        "cut": int(allocation.cut[n]),
        "gateway_frequency_hz": _number(allocation.frequency[n]),
        "energy_j": _number(record.outcome.device_energy[n]),
        "energy_budget_j": _number(record.state.weather.device_energy[n]),
        "memory_bytes": _number(record.outcome.figures.device_bytes[n]),
    }


def _number(value: float) -> float | None:
    """JSON knows no infinity and no nan."""
    return float(value) if math.isfinite(value) else None


@dataclass
class RunFolder:
    """A run's folder, open for writing: every round is on disk before the next one starts."""

    path: Path
    fresh: bool  #: made by this process
    _rounds: IO[str]
    _timings: IO[str]
    _lock: int | None

    @classmethod
    def create(cls, path: Path, scenario_toml: str, *, checkpoints: bool = False) -> Self:
        """A new folder, with one for checkpoints if the run will write them; one that holds anything is left alone."""
        refuse_filled(path)
        return cls._open(path, scenario_toml, "w", checkpoints=checkpoints)

    @classmethod
    def reopen(cls, path: Path, scenario_toml: str, rounds: int) -> Self:
        """A folder to go on with after so many rounds: what was logged beyond them is cut off."""
        # Every training run has a folder for checkpoints from its first moment, and a scenario before it has a log.
        if not (path / CHECKPOINT).is_dir() or ((path / ROUNDS).exists() and not (path / SCENARIO).exists()):
            refuse_filled(path)
        return cls._open(path, scenario_toml, "a", rounds, checkpoints=True)

    @classmethod
    def _open(cls, path: Path, scenario_toml: str, mode: str, rounds: int = 0, *, checkpoints: bool = False) -> Self:
        try:
            (path / CHECKPOINT if checkpoints else path).mkdir(parents=True, exist_ok=True)
            held = lock(path)
            if mode == "a":
                for name in (ROUNDS, TIMINGS):
                    _cut(path / name, rounds)
                (path / BOUNDS).unlink(missing_ok=True)  # of a run that has ended, and this one goes on
            write_whole(path / SCENARIO, scenario_toml.encode())
            logs = [(path / name).open(mode, encoding="utf-8") for name in (ROUNDS, TIMINGS)]
        except OSError as error:
            raise RunLogError(f"{path}: cannot be written: {error.strerror}. Name another folder with --out") from None
        return cls(path, mode == "w", logs[0], logs[1], held)

    def append(self, record: Mapping[str, Any], timing: Mapping[str, Any]) -> None:
        """Log one round."""
        for file, entry in ((self._rounds, record), (self._timings, timing)):
            try:
                file.write(json.dumps(entry, allow_nan=False) + "\n")
                file.flush()
            except OSError as error:
                raise FailedRunError(
                    f"{file.name}: cannot be written: {error.strerror}. Make room, then go on"
                ) from None

    def close(self) -> None:
        """Finish the files; a run without a round leaves none behind."""
        for file in (self._rounds, self._timings):
            with contextlib.suppress(OSError):  # a full disk was told of when it was met
                file.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        if self.fresh:
            with contextlib.suppress(OSError):  # what others put there stays
                if (self.path / ROUNDS).stat().st_size == 0:
                    for name in (ROUNDS, TIMINGS, SCENARIO, HOLDING):
                        (self.path / name).unlink(missing_ok=True)
                    if (self.path / CHECKPOINT).is_dir():
                        (self.path / CHECKPOINT).rmdir()
                    self.path.rmdir()

    def sync(self) -> None:
        """Have the log on the disk before something relies on it."""
        for file in (self._rounds, self._timings):
            os.fsync(file.fileno())


def write_json(path: Path, value: Any) -> None:
    """Keep something about a whole run as a JSON file, with null for what is not finite."""
    try:
        write_whole(path, (json.dumps(finite(value), indent=1) + "\n").encode())
    except OSError as error:
        raise FailedRunError(f"{path}: cannot be written: {error.strerror}. Make room, then go on") from None


def finite(value: Any) -> Any:
    """The same with null for what JSON has no number for."""
    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cut(path: Path, lines: int) -> None:
    """Keep the first lines of a log."""
    try:
        content = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        if len(content) < lines or any(not line.endswith(b"\n") for line in content[:lines]):
            problem = f"has {len(content)} whole lines, the checkpoint was taken after {lines}"
            raise RunLogError(f"{path}: {problem}. Restore it, or run anew in another folder")
        if len(content) > lines:
            with path.open("r+b") as file:
                file.truncate(sum(len(line) for line in content[:lines]))
    except OSError as error:
        raise RunLogError(f"{path}: cannot be written: {error.strerror}. Name another folder with --out") from None


def refuse_filled(path: Path) -> None:
    """Leave a folder alone that holds anything already."""
    try:
        filled = path.exists() and any(path.iterdir())
    except OSError as error:
        raise RunLogError(f"{path}: cannot be written: {error.strerror}. Name another folder with --out") from None
    if not filled:
        return
    if all((path / name).exists() for name in (ROUNDS, SCENARIO, CHECKPOINT)):
        advice = "Go on with it by --resume, name another folder with --out, or remove it"
        raise RunLogError(f"{path}: is not empty: it holds a training run. {advice}")
    refuse_other_runs(path)
    raise RunLogError(f"{path}: is not empty. Name another folder with --out, or remove it")


def refuse_other_runs(path: Path) -> None:
    """Leave a folder alone that holds folders of runs and is none itself."""
    below = runs_below(path)
    if below:
        problem = f"is not empty: it holds the runs {_listed(below)}"
        advice = (
            f"Go on with one by --out {path / below[0]} --resume, or with several by --resume and all their policies"
        )
        raise RunLogError(f"{path}: {problem}. {advice}; for a new run name another folder")


def runs_below(path: Path) -> list[str]:
    """Names of the run folders in a folder that is none itself."""
    try:
        if (path / ROUNDS).exists() or not path.is_dir():
            return []
        return sorted(entry.name for entry in path.iterdir() if (entry / ROUNDS).exists())
    except OSError:
        return []


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def refuse_collection(run: Path) -> None:
    """Say which runs there are to choose from where a folder of runs is named as if it were one."""
    below = runs_below(run)
    if below:
        problem = f"is no run folder, but holds {_listed(below)}"
        raise RunLogError(f"{run}: {problem}. Name one of them, as {run / below[0]}")


def checkpoint_round(run: Path) -> int | None:
    """How many rounds the checkpoint of a run folder has seen, if there is one to go on from."""
    try:
        return int(json.loads((run / CHECKPOINT / STATE).read_text(encoding="utf-8"))["round"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def refuse_changes(folder: Path, scenario_toml: str, *, held: bool = True) -> None:
    """A run goes on as it began; only its number of rounds may change, and without `held` what devices hold."""
    path = folder / SCENARIO
    try:
        before = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunLogError(f"{path}: cannot be read: {error}. Run anew in another folder") from None
    old, new = flat(before), flat(tomllib.loads(scenario_toml))
    changed = [
        key
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) and key != "rounds" and (held or not key.endswith(".held"))
    ]
    if changed:
        shown = ", ".join(f"{key} ({old.get(key, 'absent')} -> {new.get(key, 'absent')})" for key in changed[:5])
        more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        raise RunLogError(f"{folder}: cannot go on with a changed scenario: {shown}{more}. Run anew in another folder")


def refuse_fewer(folder: Path, done: int | None, rounds: int) -> None:
    """What has been run stays: a run cannot go on to a round that lies behind it."""
    if done is not None and rounds < done:
        advice = f"Ask for at least {done} with --rounds, or run anew in another folder"
        raise RunLogError(f"{folder}: has run {done} rounds already, rounds is {rounds}. {advice}")


def read_records(run: Path) -> list[dict[str, Any]]:
    """The logged rounds of a run folder."""
    path = run / ROUNDS
    refuse_collection(run)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise RunLogError(f"{run}: has no {ROUNDS}, so it is no run folder. Name one that a run has written") from None
    except NotADirectoryError:
        raise RunLogError(f"{run}: is a file, not a run folder") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RunLogError(f"{path}: cannot be read: {error}") from None
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict):
            records.append(record)
        elif number < len(lines):
            raise RunLogError(f"{path}: line {number}: not a JSON object. The log is damaged; run again")
        # A torn last line is a round that was cut short: the run never finished it.
    return records


def scenario_of(run: Path) -> Scenario:
    """The resolved scenario of a run folder."""
    file = run / SCENARIO
    try:
        return build(read(file), str(file))
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise RunLogError(f"{file}: {where}: {problem['msg']}. It is not the file that the run wrote") from None


def columns_of(records: Iterable[Mapping[str, Any]], per: Grain = "round") -> dict[str, list[Any]]:
    """Log records as columns of equal length, one row per round, per round and gateway, or per device as well."""
    if per not in get_args(Grain):
        raise RunLogError(f"read: per must be one of {', '.join(get_args(Grain))}, got '{per}'")
    rows: list[dict[str, Any]] = []
    for record in records:
        of_round = {key: value for key, value in record.items() if key != "gateways"}
        if per == "round":
            gateways = record["gateways"]
            of_round["selected"] = sum(gateway["selected"] for gateway in gateways)
            of_round["completed"] = sum(gateway["completed"] for gateway in gateways)
            of_round["energy_j"] = sum(_energy(gateway) for gateway in gateways)
            of_round["training_loss"] = training_loss(record)
            rows.append(of_round)
            continue
        head = {"round": record["round"], "policy": record["policy"]}
        for gateway in record["gateways"]:
            of_gateway = {key: value for key, value in gateway.items() if key not in ("name", "devices")}
            if per == "gateway":
                rows.append({**head, "gateway": gateway["name"], **of_gateway})
                continue
            rows += [
                {**head, "gateway": gateway["name"], "device": device["name"], **_without_name(device)}
                for device in gateway.get("devices", ())
            ]
    keys = list(rows[0]) if rows else []
    return {key: [row[key] for row in rows] for key in keys}


def training_loss(record: Mapping[str, Any]) -> float | None:
    """Mean training loss of the floors that completed a round, each counted alike: their batch sizes are not logged."""
    losses = [floor["loss"] for floor in record["gateways"] if floor["completed"] and floor["loss"] is not None]
    return fmean(losses) if losses else None


def _energy(gateway: Mapping[str, Any]) -> float:
    """Energy [J] of a floor in a round, gateway and devices."""
    devices: Sequence[Mapping[str, Any]] = gateway.get("devices", ())
    return float(gateway["energy_j"]) + sum(float(device["energy_j"]) for device in devices)


def _without_name(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "name"}


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Nested tables as dotted keys."""
    if isinstance(value, dict):
        return {
            key: entry
            for name, part in value.items()
            for key, entry in flat(part, f"{path}.{name}" if path else name).items()
        }
    if isinstance(value, list) and any(isinstance(part, dict) for part in value):
        return {key: entry for at, part in enumerate(value) for key, entry in flat(part, f"{path}[{at}]").items()}
    return {path: value}
