"""Conversion between the units of scenario keys and SI; the suffix of a key names its unit."""

__all__ = ["FROM_SUFFIX", "db_to_ratio", "dbm_to_watt", "rescaled", "split_suffix", "to_si"]

import math
from collections.abc import Callable
from functools import cache
from types import MappingProxyType

#: suffix of a key -> (quantity, size of the unit in SI)
_SCALES = {
    "hz": ("frequency", 1.0),
    "khz": ("frequency", 1e3),
    "mhz": ("frequency", 1e6),
    "ghz": ("frequency", 1e9),
    "uw": ("power", 1e-6),
    "mw": ("power", 1e-3),
    "w": ("power", 1.0),
    "kw": ("power", 1e3),
    "mj": ("energy", 1e-3),
    "j": ("energy", 1.0),
    "kj": ("energy", 1e3),
    "wh": ("energy", 3600.0),
    "m": ("length", 1.0),
    "km": ("length", 1e3),
    "bytes": ("memory", 1.0),
    "kb": ("memory", 1e3),
    "mb": ("memory", 1e6),
    "gb": ("memory", 1e9),
    "ms": ("time", 1e-3),
    "s": ("time", 1.0),
    "bps": ("rate", 1.0),
    "kbps": ("rate", 1e3),
    "mbps": ("rate", 1e6),
    "gbps": ("rate", 1e9),
    "pj_per_bit": ("energy per bit", 1e-12),
    "nj_per_bit": ("energy per bit", 1e-9),
    "uj_per_bit": ("energy per bit", 1e-6),
    "j_per_bit": ("energy per bit", 1.0),
}


def db_to_ratio(level_db: float) -> float:
    """Power ratio of a level in dB."""
    return math.pow(10.0, level_db / 10.0)


def dbm_to_watt(level_dbm: float) -> float:
    """Power [W] of a level in dBm; with dBm/Hz a density [W/Hz]."""
    return 1e-3 * db_to_ratio(level_dbm)


def _linear(factor: float) -> Callable[[float], float]:
    return lambda value: value * factor


#: suffix of a key -> conversion to SI
FROM_SUFFIX = MappingProxyType(
    {suffix: _linear(factor) for suffix, (_, factor) in _SCALES.items()}
    | {"dbm_per_hz": dbm_to_watt, "dbm": dbm_to_watt, "db": db_to_ratio}
)


@cache
def split_suffix(key: str) -> tuple[str, str]:
    """Stem and unit suffix of a key: `max_power_mw` -> (`max_power`, `mw`); without a unit the suffix is empty."""
    for suffix in sorted(FROM_SUFFIX, key=len, reverse=True):
        if key.endswith("_" + suffix):
            return key[: -len(suffix) - 1], suffix
    return key, ""


def to_si(key: str, value: float) -> float:
    """Convert the value of a scenario key to SI units, by the suffix of the key."""
    suffix = split_suffix(key)[1]
    return FROM_SUFFIX[suffix](value) if suffix else value


def rescaled(value: float, suffix: str, target: str) -> float | None:
    """Convert a value from the unit of one suffix to that of another; None if they measure different quantities."""
    if suffix == "dbm":
        value, suffix = dbm_to_watt(value), "w"
    old_unit, new_unit = _SCALES.get(suffix), _SCALES.get(target)
    if old_unit is None or new_unit is None or old_unit[0] != new_unit[0]:
        return None
    return value * old_unit[1] / new_unit[1]
