"""What a report relies on in the files that runs leave behind; whatever is wrong is said once, where they are read."""

__all__ = ["bounds_from", "check_records", "holding_from", "tradeoff_from"]

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from fedfloor.errors import RunLogError
from fedfloor.runs.folder import ROUNDS
from fedfloor.scenario import Scenario

Finite = Annotated[float, Field(allow_inf_nan=False)]
Amount = Annotated[float, Field(allow_inf_nan=False, ge=0.0)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Whole = Annotated[int, Field(ge=0)]
Words = Annotated[str, Field(min_length=1)]


class _Logged(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class _Device(_Logged):
    name: str
    cut: Whole
    gateway_frequency_hz: Amount | None = None
    energy_j: Amount


class _Gateway(_Logged):
    name: str
    selected: bool
    channel: int | None = None
    completed: bool
    failure: Words | None
    delay_s: Amount | None
    download_s: Amount | None = None
    train_s: Amount | None = None
    upload_s: Amount | None = None
    power_w: Amount | None = None
    energy_j: Amount
    queue: Finite
    target_rate: Amount
    loss: Finite | None
    divergence: Amount | None = None
    divergence_bound: Amount | None = None
    devices: list[_Device] = []


class _Round(_Logged):
    round: Whole
    policy: Words
    delay_s: Amount | None
    clock_s: Amount | None
    accuracy: Share | None
    loss: Finite | None
    gateways: list[_Gateway]


class _Held(_Logged):
    floor: str
    name: str
    classes: Annotated[list[Whole], Field(min_length=1)]


class _Holding(_Logged):
    devices: list[_Held]


class _Bound(_Logged):
    theorem: str
    what: str
    measured: Finite | None
    bound: Finite | None
    note: str = ""


class _Point(_Logged):
    v: Amount
    mean_delay_s: Amount | None
    shortfall: Finite
    delay_bound_s: Finite | None
    shortfall_bound: Finite | None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def check_records(records: Sequence[Mapping[str, Any]], scenario: Scenario, folder: Path) -> None:
    """Raise a `RunLogError` if the log of a run is not one round of the scenario after the other."""
    plant = {floor.name: [device.name for device in floor.devices] for floor in scenario.floors}
    before = 0.0
    for index, record in enumerate(records):
        wrong = _wrong_with(record, _Round) or _misplaced(record, index, before, plant, len(scenario.layers))
        if wrong:
            version = "It is damaged, or was written by another version of fedfloor; use that one, or run again"
            raise RunLogError(f"{folder / ROUNDS}: line {index + 1}: {wrong}. {version}")
        before = float("inf") if record["clock_s"] is None else record["clock_s"]


def _misplaced(
    record: Mapping[str, Any], index: int, before: float, plant: Mapping[str, Sequence[str]], layers: int
) -> str:
    """What a well-formed round has to do with the rounds before it and with the plant; nothing of a good one."""
    if record["round"] != index:
        return f"round: must be {index}, as rounds are logged one after the other, got {record['round']}"
    if record["clock_s"] is not None and record["clock_s"] < before:
        return f"clock_s: must be >= {before:g}, the clock of the round before, got {record['clock_s']:g}"
    gateways = record["gateways"]
    if [gateway["name"] for gateway in gateways] != list(plant):
        return f"gateways: must be the {len(plant)} floors of the scenario, got {len(gateways)}"
    for m, gateway in enumerate(gateways):
        devices = gateway.get("devices")
        if devices is None:
            continue
        names = plant[gateway["name"]]
        if [device["name"] for device in devices] != names:
            return f"gateways[{m}].devices: must be the {len(names)} devices of the floor, got {len(devices)}"
        deepest = max(device["cut"] for device in devices)
        if deepest > layers:
            return f"gateways[{m}].devices: cut: must be <= {layers}, the number of layers, got {deepest}"
    return ""


def holding_from(path: Path) -> Mapping[str, Any] | None:
    """Who holds what, as a training run has written it; None if there is no such file."""
    advice = "Run again to see who holds what"
    found = _checked(_content(path, advice), _Holding, path, advice)
    if found is not None and len({len(entry["classes"]) for entry in found["devices"]}) > 1:
        raise RunLogError(f"{path}: devices: classes: must be as many for every device. It is damaged. {advice}")
    return cast("Mapping[str, Any] | None", found)


def bounds_from(path: Path) -> tuple[Mapping[str, Any], ...] | None:
    """The theorems beside what a run measured; None if there is no such file, as while it is going."""
    advice = "Run again to see the theorems"
    found = _content(path, advice)
    return None if found is None else tuple(_checked(found, list[_Bound], path, advice))


def tradeoff_from(path: Path) -> tuple[Mapping[str, Any], ...]:
    """Delay and participation over V as `fedfloor tradeoff --format json` prints it; empty if there is no such file."""
    advice = "Write it again with `fedfloor tradeoff --format json`"
    return tuple(_checked(_content(path, advice), list[_Point], path, advice) or ())


def _content(path: Path, advice: str) -> Any:
    """A file of JSON; None if it is not there."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise RunLogError(f"{path}: cannot be read: {error.strerror}. {advice}") from None
    except (ValueError, RecursionError) as error:
        raise RunLogError(f"{path}: is no JSON: {error}. {advice}") from None
    if value is None:
        raise RunLogError(f"{path}: must not be null. It is damaged. {advice}")
    return value


def _checked(value: Any, kind: Any, path: Path, advice: str) -> Any:
    wrong = "" if value is None else _wrong_with(value, kind)
    if wrong:
        raise RunLogError(f"{path}: {wrong}. It is damaged. {advice}")
    return value


def _wrong_with(value: Any, kind: Any) -> str:
    """The first finding in our words; nothing of what is right."""
    try:
        _adapter(kind).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    else:
        return ""
    path = ""
    for step in first["loc"]:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    if first["type"] == "missing":
        return f"has no '{path}'"
    return f"{path}: {_words(first)}" if path else _words(first)


def _words(finding: Any) -> str:
    """What must be, and what is."""
    context = finding.get("ctx", {})
    must = {
        "bool_type": "be true or false",
        "int_type": "be a whole number",
        "float_type": "be a number",
        "string_type": "be a text",
        "list_type": "be a list",
        "model_type": "be a table",
        "string_too_short": "not be empty",
        "too_short": "not be empty",
        "finite_number": "be finite",
        "greater_than_equal": f"be >= {context.get('ge')}",
        "less_than_equal": f"be <= {context.get('le')}",
    }.get(finding["type"])
    return f"{f'must {must}' if must else finding['msg']}, got {finding['input']!r:.60}"
