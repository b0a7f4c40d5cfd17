"""TOML file, preset name or table -> validated `ScenarioFile`; every error names file, field, value and remedy."""

__all__ = [
    "TomlTable",
    "is_preset",
    "parse",
    "parse_model",
    "preset_names",
    "preset_summary",
    "read",
    "read_table",
    "starter",
    "table_from",
    "value_of",
    "with_layers",
    "with_overrides",
]

import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypeAlias

import numpy as np
from pydantic import ValidationError

from fedfloor.errors import ScenarioError, advice_for, named, shown
from fedfloor.scenario.commenting import commented
from fedfloor.scenario.file import ScenarioFile
from fedfloor.scenario.findings import one_line
from fedfloor.scenario.layers import LayerSpec
from fedfloor.scenario.model import Model

TomlTable: TypeAlias = dict[str, object]


def _presets() -> dict[str, Traversable]:
    folder = resources.files("fedfloor.scenario") / "presets"
    return {entry.name.removesuffix(".toml"): entry for entry in folder.iterdir() if entry.name.endswith(".toml")}


def preset_names() -> list[str]:
    """Names of the shipped scenarios."""
    return sorted(_presets())


def is_preset(name: str) -> bool:
    """Whether a scenario of this name is shipped."""
    return name in _presets()


def preset_summary(name: str) -> str:
    """First comment line of a shipped scenario, which says what it is for."""
    return _presets()[name].read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")


def read(source: str | Path, overrides: Sequence[str] = ()) -> ScenarioFile:
    """Read a scenario from a TOML file or by a preset's name, with `section.key=value` overrides applied."""
    return parse(with_overrides(read_table(source), overrides), str(source))


def with_overrides(table: TomlTable, overrides: Sequence[str]) -> TomlTable:
    """The table with `section.key=value` overrides applied, which changes it."""
    for override in overrides:
        _apply(override, table)
    return table


def table_from(values: Mapping[str, object], label: str) -> TomlTable:
    """A copy of a scenario that Python code made, in the types that a file has: lists, and plain numbers."""
    try:
        return {key: _plain(value) for key, value in values.items()}
    except RecursionError:
        raise ScenarioError(
            f"{label}: is nested too deeply. Give the tables that `fedfloor schema` describes"
        ) from None


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return str(value) if isinstance(value, Path) else value


def parse(table: Mapping[str, object], label: str) -> ScenarioFile:
    """Validate a scenario that is given as a table; `label` names it in messages."""
    try:
        return ScenarioFile.model_validate(table)
    except ValidationError as error:
        raise ScenarioError(one_line(error, label)) from None


def parse_model(table: TomlTable, overrides: Sequence[str]) -> Model:
    """Validate a model that is given without a scenario, with `model.key=value` overrides applied."""
    scenario: TomlTable = {"model": table}
    for override in overrides:
        if not override.startswith("model."):
            raise ScenarioError(
                f"setting {named(override)}: only model.* keys have an effect here, such as model.width=0.5"
            )
        _apply(override, scenario)
    try:
        return Model.model_validate(scenario["model"])
    except ValidationError as error:
        raise ScenarioError(one_line(error, f"model {named(table['name'])}")) from None


def with_layers(model: Model, layers: Sequence[LayerSpec], label: str) -> Model:
    """The model with its inferred layer list, validated like one that a file contains."""
    try:
        return Model.model_validate({**dict(model), "layers": tuple(layers)})
    except ValidationError as error:
        raise ScenarioError(one_line(error, f"{label}: model {model.name}")) from None


def starter(preset: str | None = None) -> str:
    """Text of the commented scenario that `fedfloor init` writes: our own, or that of a preset."""
    if preset is None:
        return (resources.files("fedfloor.scenario") / "starter.toml").read_text(encoding="utf-8")
    if not is_preset(preset):
        raise ScenarioError(f"preset {shown(preset)}: unknown. {advice_for(preset, preset_names())}")
    return commented(preset, _presets()[preset].read_text(encoding="utf-8"))


def read_table(source: str | Path) -> TomlTable:
    """The table of a TOML file or of a preset, not validated yet."""
    label, path = str(source), Path(source)
    if is_preset(label) and not path.is_file():
        raw = _presets()[label].read_bytes()
    else:
        try:
            if not label or path.is_dir():
                raise ScenarioError(
                    f"{named(label) or 'scenario'}: is a directory, not a file. Name the TOML file inside it"
                )
            if path.exists() and not path.is_file():
                raise ScenarioError(f"{named(label)}: is not a regular file. Name a TOML file")
            raw = path.read_bytes()
        except FileNotFoundError:
            beside = [other.name for other in path.parent.glob("*.toml")]
            hint = f"Give a TOML file or a preset. {advice_for(path.name, [*preset_names(), *beside])}"
            raise ScenarioError(f"{named(label)}: no such file. {hint}") from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ScenarioError(f"{named(label)}: cannot be read: {reason}. Check its name and permissions") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        problem = f"not UTF-8: byte 0x{raw[error.start]:02x} on line {line}"
        raise ScenarioError(f"{label}: {problem}. Save the file as UTF-8") from None
    if not text.strip():
        raise ScenarioError(f"{label}: the file is empty. `fedfloor init FILE` writes one to start from")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # bad syntax, too long a number or too deep a list
        raise ScenarioError(f"{label}: not valid TOML: {error!s:.300}. Fix that line") from None


def _apply(override: str, table: TomlTable) -> None:
    """Set one value in the table: `training.local_iterations=3`, `floors.0.gateway.memory_gb=2`."""
    label = f"setting {named(override)}"
    path, equals, text = override.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys):
        raise ScenarioError(f"{label}: must be section.key=value, such as training.local_iterations=3")
    value = value_of(text, label)
    place: object = table
    for depth, key in enumerate(keys):
        at = named(".".join(keys[: depth + 1]))
        last = depth == len(keys) - 1
        if isinstance(place, list):
            if not (key.isascii() and key.isdigit() and len(key) < 9) or int(key) >= len(place):
                raise ScenarioError(f"{label}: {at}: no such entry. Use a number from 0 to {len(place) - 1}")
            if last:
                place[int(key)] = value
            else:
                place = place[int(key)]
        elif isinstance(place, dict):
            if last:
                place[key] = value
            else:
                place = place.setdefault(key, {})
        else:
            raise ScenarioError(f"{label}: {at}: the value above it is not a table. Leave out '.{named(key)}'")
    _forget_layers(path.strip(), table)


def value_of(text: str, label: str) -> object:
    """The value that a text such as `3`, `paper` or `[1, 2]` stands for; `label` names it in messages."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text.strip()  # a bare word is a string: costs.model=paper
    if len(parsed) > 1:
        raise ScenarioError(f"{label}: sets more than one value. Write each of them as a setting of its own")
    return parsed["value"]


def _forget_layers(path: str, table: TomlTable) -> None:
    """Drop the file's layer list if setting `path` changes the network that costs describe."""
    model, costs = table.get("model"), table.get("costs")
    trained_only = path == "model.width" and isinstance(costs, dict) and "width" in costs
    describes = path == "costs.width" or (path.startswith("model.") and not path.startswith("model.layers"))
    if isinstance(model, dict) and describes and not trained_only:
        model.pop("layers", None)
