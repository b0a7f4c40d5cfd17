"""What exists: one TOML file becomes a frozen, validated plant in SI units."""

__all__ = [
    "Baseline",
    "Device",
    "Floor",
    "Gateway",
    "LayerSpec",
    "Origin",
    "Radio",
    "Scenario",
    "ScenarioFile",
    "build",
    "expand",
    "is_preset",
    "parameter_count",
    "parse",
    "parse_model",
    "preset_names",
    "preset_summary",
    "read",
    "read_table",
    "resolved_toml",
    "section_table",
    "starter",
    "table_from",
    "with_layers",
    "with_overrides",
]

from fedfloor.scenario.building import build
from fedfloor.scenario.expand import expand
from fedfloor.scenario.file import Baseline, ScenarioFile
from fedfloor.scenario.layers import LayerSpec, parameter_count
from fedfloor.scenario.reading import (
    is_preset,
    parse,
    parse_model,
    preset_names,
    preset_summary,
    read,
    read_table,
    starter,
    table_from,
    with_layers,
    with_overrides,
)
from fedfloor.scenario.resolved import Device, Floor, Gateway, Origin, Radio, Scenario
from fedfloor.scenario.writing import resolved_toml, section_table
