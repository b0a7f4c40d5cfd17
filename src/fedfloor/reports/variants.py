"""How runs of one scenario differ beside their policy and seed, as names that tell them apart."""

__all__ = ["variants"]

import json
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cache

from pydantic import BaseModel

from fedfloor.reports.sorting import natural_key
from fedfloor.runs.folder import flat
from fedfloor.scenario import Scenario, ScenarioFile

#: free to differ between runs that belong together
_FREE = ("name", "seed", "rounds", "policy", "training.checkpoint_every")
#: drawn from the seed, unless a plain number is given
_DRAWN = ("floors", "battery")
_PER_CHANNEL = ("uplink_interference_w", "downlink_interference_w")  #: as many values as channels
_SHOWN = 3  #: keys of a name

Settings = Mapping[str, object]


def variants(runs: Sequence[tuple[Scenario, Settings]]) -> list[str]:
    """A name for every scenario, given with the table it was read from: how it differs from the usual one, or empty.

    The usual settings are those of most runs; of several, those with the fewest departures from the defaults of a
    scenario, then the smaller values. So names do not depend on the order of the runs. Equal names mean equal settings.
    A value that is drawn from the plant's seed counts only if it differs between runs of one such seed: then it was set
    on purpose, and it is compared like every other value.
    """
    settings = [_settings(table) for _, table in runs]
    plants = [_plant(table) for _, table in runs]
    links = [{key: plant.pop(key) for key in list(plant) if key.endswith(_PER_CHANNEL)} for plant in plants]
    seeds = [scenario.seed_of_plant for scenario, _ in runs]
    channels = [scenario.radio.channels for scenario, _ in runs]
    set_in_plants = _changed(seeds, plants)
    set_in_links = _changed(list(zip(seeds, channels, strict=True)), links)
    on_purpose = [
        {**own, **{key: plant.get(key) for key in set_in_plants}, **{key: link.get(key) for key in set_in_links}}
        for own, plant, link in zip(settings, plants, links, strict=True)
    ]
    ranked = _ranked(on_purpose)
    differences: dict[int, Settings] = {}
    for at in ranked:
        of_same_channels = next(other for other in ranked if channels[other] == channels[at])
        apart = _differences(settings[at], settings[ranked[0]])
        apart |= _differences(plants[at], plants[ranked[0]], set_in_plants)
        apart |= _differences(links[at], links[of_same_channels], set_in_links)
        differences[at] = apart
    names = dict(zip(differences, _distinct(list(differences.values())), strict=True))
    return [names[at] for at in range(len(runs))]


def _ranked(settings: Sequence[Settings]) -> list[int]:
    """Places of the scenarios, the most usual one first; equal settings have equal ranks."""
    texts = [json.dumps(own, sort_keys=True, default=str) for own in settings]
    counts, defaults = Counter(texts), _defaults()

    def rank(at: int) -> tuple[object, ...]:
        departures = sum(key in defaults and defaults[key] != value for key, value in settings[at].items())
        return -counts[texts[at]], departures, len(settings[at]), natural_key(texts[at])

    return sorted(range(len(settings)), key=rank)


@cache
def _defaults() -> Settings:
    """What a scenario has that says nothing else."""
    fields = {name: field for name, field in ScenarioFile.model_fields.items() if not field.is_required()}
    values = {name: field.get_default(call_default_factory=True) for name, field in fields.items()}
    return flat({key: value.model_dump() if isinstance(value, BaseModel) else value for key, value in values.items()})


def _settings(table: Settings) -> Settings:
    """Settings that do not depend on the seed."""
    rest = {key: value for key, value in table.items() if key not in _DRAWN}
    return {key: value for key, value in flat(rest).items() if not _below(key, _FREE)}


def _plant(table: Settings) -> dict[str, object]:
    """Floors and batteries as the scenario asks for them, without what training left for a device."""
    drawn = flat({key: table[key] for key in _DRAWN if key in table})
    return {key: value for key, value in drawn.items() if not key.endswith(".held")}


def _below(key: str, parents: Iterable[str]) -> bool:
    return any(key == parent or key.startswith(f"{parent}.") for parent in parents)


def _differences(own: Settings, base: Settings, keys: Iterable[str] | None = None) -> dict[str, object]:
    every = sorted(own.keys() | base.keys()) if keys is None else keys
    return {key: own.get(key) for key in every if own.get(key) != base.get(key)}


def _changed(groups: Sequence[Hashable], plants: Sequence[Settings]) -> list[str]:
    """Keys that differ between runs of one group."""
    first: dict[Hashable, Settings] = {}
    keys: set[str] = set()
    for group, plant in zip(groups, plants, strict=True):
        base = first.setdefault(group, plant)
        if plant != base:
            keys |= _differences(plant, base).keys()
    return sorted(keys)


def _distinct(differences: Sequence[Settings]) -> list[str]:
    """A name for each; where names are too short to differ, a number tells them apart."""
    names, alike = [], dict[str, list[Settings]]()
    for differing in differences:
        name = _name(differing)
        numbered = alike.setdefault(name, [])
        if differing not in numbered:
            numbered.append(differing)
        number = numbered.index(differing) + 1
        names.append(f"{name} ({number})" if number > 1 else name)
    return names


def _name(differing: Settings) -> str:
    """The first settings that differ; floors or layers that differ in the same key count as one."""
    values: dict[str, list[object]] = {}
    for key, value in differing.items():
        values.setdefault(re.sub(r"\[\d+\]", "", key), []).append(value)
    if any(key.startswith("model.") and not key.startswith("model.layers") for key in values):
        values = {key: value for key, value in values.items() if not key.startswith("model.layers")}
    parts = [f"{key}={_shown(entries)}" for key, entries in values.items()]
    more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return ", ".join(parts[:_SHOWN]) + more


def _shown(entries: Sequence[object]) -> str:
    distinct = list(dict.fromkeys("none" if entry is None else str(entry) for entry in entries))
    text = "/".join(distinct[:2]) + ("/.." if len(distinct) > 2 else "")
    return text if len(text) <= 40 else f"{text[:38]}.."
