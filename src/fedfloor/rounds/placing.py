"""Whether a record belongs where it stands in a log, and to the scenario of its run."""

__all__ = ["misplaced"]

from fedfloor.errors import counted, shown
from fedfloor.rounds.record import KEYS, RoundRecord, WeatherRecord
from fedfloor.scenario.resolved import Scenario


def misplaced(record: RoundRecord, index: int, before: float, scenario: Scenario) -> str:
    """What is wrong with a record as round `index` of a scenario, `before` [s] the clock of the round before it.

    Returns an empty string if the record is where it belongs.
    """
    if record.round != index:
        return f"round: must be {index}, because rounds are logged one after the other, got {record.round}"
    if record.clock < before:
        return f"clock_s: must be >= {before:g}, the clock of the round before, got {record.clock:g}"
    if len(record.gateways) != len(scenario.floors):
        return f"gateways: must be the {len(scenario.floors)} floors of the scenario, got {len(record.gateways)}"
    for m, (gateway, floor) in enumerate(zip(record.gateways, scenario.floors, strict=True)):
        if gateway.name != floor.name:
            name = shown(floor.name)
            return f"gateways[{m}].name: must be {name}, the floor of the scenario, got {shown(gateway.name)}"
        if not gateway.devices and not gateway.selected:
            continue
        names = [device.name for device in floor.devices]
        if [device.name for device in gateway.devices] != names:
            return f"gateways[{m}].devices: must be the {len(names)} devices of the floor, got {len(gateway.devices)}"
        deepest = max(device.cut for device in gateway.devices)
        if deepest > len(scenario.layers):
            return f"gateways[{m}].devices: cut: must be <= {len(scenario.layers)}, the number of layers, got {deepest}"
    return "" if record.weather is None else _unfit_weather(record.weather, scenario)


def _unfit_weather(weather: WeatherRecord, scenario: Scenario) -> str:
    """What is wrong with the lengths of the lists of a round's weather; empty if nothing is."""
    floors, channels, devices = len(scenario.floors), scenario.radio.channels, len(scenario.devices)
    for key in KEYS[WeatherRecord]:
        values, expected = getattr(weather, key), devices if key == "device_energy_j" else floors
        if len(values) != expected:
            return f"weather.{key}: must have {expected} entries, got {len(values)}"
        for m, entry in enumerate(values):
            if isinstance(entry, tuple) and len(entry) != channels:
                return f"weather.{key}[{m}]: must have {counted(channels, 'entry', 'entries')}, got {len(entry)}"
    return ""
