"""What exists: one TOML file becomes a frozen, validated plant in SI units."""

__all__ = [
    "Baseline",
    "Device",
    "Floor",
    "Gateway",
    "LayerSpec",
    "Radio",
    "Scenario",
    "ScenarioFile",
    "build",
    "expand",
    "is_preset",
    "parameter_count",
    "parse_model",
    "preset_names",
    "preset_summary",
    "read",
    "resolved_toml",
    "starter",
    "with_layers",
]

from fedfloor.scenario.expand import build, expand, resolved_toml
from fedfloor.scenario.file import Baseline, ScenarioFile
from fedfloor.scenario.layers import LayerSpec, parameter_count
from fedfloor.scenario.reading import is_preset, parse_model, preset_names, preset_summary, read, starter, with_layers
from fedfloor.scenario.resolved import Device, Floor, Gateway, Radio, Scenario
