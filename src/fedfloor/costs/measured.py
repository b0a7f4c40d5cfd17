"""From a hardware profile to the cycles and bytes of both halves of a network, for every cut."""

__all__ = [
    "HalfCosts",
    "fitted_rates",
    "fitting_profiles",
    "half_bytes",
    "half_cycles",
    "interpolated",
    "is_measured",
    "layer_seconds",
    "refuse_misfit",
    "step_seconds",
]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedfloor.arrays import Bools, Floats
from fedfloor.costs.hardware import HardwareProfile, Rate, fingerprint, profile_from, unnamed
from fedfloor.costs.layers import exact_costs, layer_costs, passes_error, sums_below
from fedfloor.errors import ProfileError, shown
from fedfloor.scenario.layers import LayerSpec
from fedfloor.scenario.resolved import Scenario


@dataclass(frozen=True, slots=True, eq=False)
class HalfCosts:
    """One quantity of both halves, each (N, L+1): one row per batch, one column per cut."""

    bottom: Floats  #: of the first l layers, on the device; 0 at cut 0
    top: Floats  #: of the other layers, on the gateway; 0 at cut L


def half_cycles(profile: HardwareProfile, layers: Sequence[LayerSpec], batch: Floats, iterations: int) -> HalfCosts:
    """Cycles of `iterations` steps with batches (N,): seconds times the frequency at which they were measured.

    A half without layers costs nothing. Any other half pays its layers and the overhead of a step.
    """
    per_layer = layer_seconds(profile, layers, batch)  # (N, L)
    overhead = step_seconds(profile, batch)  # (N,)
    below = sums_below(per_layer)  # (N, L+1)
    bottom, top = below + overhead[:, None], below[:, -1:] - below + overhead[:, None]
    bottom[:, 0] = top[:, -1] = 0.0
    scale = iterations * profile.frequency_hz
    return HalfCosts(scale * bottom, scale * np.maximum(top, 0.0))


def half_bytes(profile: HardwareProfile, layers: Sequence[LayerSpec], batch: Floats, cost_model: str) -> HalfCosts:
    """Peak memory [byte] of both halves with batches (N,): measured for this network, by `cost_model` for another.

    A peak is not a sum over layers, so that measured layers of another network say nothing about it.
    """
    if fingerprint(layers) == profile.fingerprint:
        device = np.array([[timing.device_bytes for timing in entry.timings] for entry in profile.layers])  # (L, B)
        gateway = np.array([[timing.gateway_bytes for timing in entry.timings] for entry in profile.layers])
        none = np.zeros((1, len(profile.batches)))
        return HalfCosts(
            interpolated(batch, profile.batches, np.concatenate([none, device]).T),
            interpolated(batch, profile.batches, np.concatenate([gateway, none]).T),
        )
    costs = layer_costs(layers, cost_model)
    below = sums_below(costs.fixed_bytes + batch[:, None] * costs.sample_bytes)  # (N, L+1)
    return HalfCosts(below, below[:, -1:] - below)


def layer_seconds(profile: HardwareProfile, layers: Sequence[LayerSpec], batch: Floats) -> Floats:
    """Seconds of every layer, forward and backward, (N, L); layers that were not measured follow from their FLOPs.

    Layers of the measured network have their own times. A layer of another network has the mean of its equals.
    """
    measured = np.array(
        [[timing.forward_s + timing.backward_s for timing in entry.timings] for entry in profile.layers]
    ).T  # (B, L) of the measured network
    if fingerprint(layers) == profile.fingerprint:
        return interpolated(batch, profile.batches, measured)
    flop, keys = exact_costs(layers).flop, _keys(profile.specs)
    columns = []
    for index, key in enumerate(_keys(layers)):
        equals = [other for other, measured_key in enumerate(keys) if measured_key == key]
        if equals:
            seconds = measured[:, equals].mean(axis=1, keepdims=True)
            columns.append(interpolated(batch, profile.batches, seconds)[:, 0])
        else:
            columns.append(flop[index] * batch / profile.rates[layers[index].kind].flop_per_s)
    return np.stack(columns, axis=1)


def step_seconds(profile: HardwareProfile, batch: Floats) -> Floats:
    """Seconds that a half spends per step beside its layers, (N,)."""
    seconds = np.array([[step.seconds] for step in profile.steps])
    if len(seconds) == 1:  # says nothing about the slope, and the overhead hardly depends on the batch
        return np.full(batch.size, seconds[0, 0])
    return np.asarray(interpolated(batch, profile.batches, seconds)[:, 0], dtype=float)


def is_measured(profile: HardwareProfile, layers: Sequence[LayerSpec]) -> Bools:
    """Whether each layer was measured, in this network or as an equal layer of another one, (L,)."""
    measured = set(_keys(profile.specs))
    return np.array([key in measured for key in _keys(layers)])


def fitting_profiles(scenario: Scenario) -> dict[Path, HardwareProfile]:
    """The profiles that a scenario names, all of which fit its layers."""
    profiles = {path: profile_from(text, str(path)) for path, text in scenario.profiles.items()}
    for path, profile in profiles.items():
        refuse_misfit(profile, scenario.layers, str(path))
    return profiles


def refuse_misfit(profile: HardwareProfile, layers: Sequence[LayerSpec], label: str) -> None:
    """Refuse a profile that knows neither a layer nor its kind; `label` names the profile in the message."""
    for layer, known in zip(layers, is_measured(profile, layers), strict=True):
        if not known and layer.kind not in profile.rates:
            problem = f"has no rate for '{layer.kind}', the kind of layer '{layer.name}', which was not measured"
            advice = f"The profile is of '{profile.model}': measure this model, or leave the profile out"
            raise ProfileError(f"{label}: rates: {problem}, got {shown(list(profile.rates))}. {advice}")


def interpolated(batch: Floats, measured: Sequence[int], values: Floats) -> Floats:
    """Values at batches (N,), given those at the measured batches (B, C) -> (N, C).

    Linear between two measured batches, and on the line through the nearest two outside of them. But a larger batch
    than all measured ones never costs less than the largest of these, and a smaller one never less than in proportion
    to the smallest. With a single measured batch the values are proportional to the batch.
    """
    at = np.asarray(measured, float)
    if at.size == 1:
        return np.asarray(batch[:, None] / at * values, dtype=float)
    left = np.clip(np.searchsorted(at, batch, side="right") - 1, 0, at.size - 2)
    slope = np.diff(values, axis=0) / np.diff(at)[:, None]  # (B-1, C)
    line = values[left] + (batch - at[left])[:, None] * slope[left]
    above, below = (batch > at[-1])[:, None], (batch < at[0])[:, None]
    line = np.where(above, np.maximum(line, values[-1]), line)
    return np.asarray(np.where(below, np.maximum(line, batch[:, None] / at[0] * values[0]), line), dtype=float)


def fitted_rates(layers: Sequence[LayerSpec], batches: Sequence[int], seconds: Floats) -> Mapping[str, Rate]:
    """Effective FLOP/s of every layer kind from the seconds (B, L) of its layers.

    The median over layers and batches: a layer with an odd shape does not spoil the others' rate.
    """
    flop = np.asarray(batches, float)[:, None] * exact_costs(layers).flop  # (B, L)
    kinds = np.array([layer.kind for layer in layers])
    rates = {}
    for kind in dict.fromkeys(kinds.tolist()):
        own = kinds == kind
        speeds = flop[:, own] / seconds[:, own]
        rate = float(np.median(speeds))
        if rate > 0.0:
            error = float(np.median(np.abs(speeds / rate - 1.0)))
            rates[kind] = Rate(flop_per_s=rate, error=error, layers=int(own.sum()))
    return rates


def _keys(layers: Sequence[LayerSpec]) -> list[tuple[LayerSpec, bool]]:
    """What a layer's time depends on: its shapes, and whether it passes an error down."""
    return [(unnamed(layer), bool(passes)) for layer, passes in zip(layers, passes_error(layers), strict=True)]
