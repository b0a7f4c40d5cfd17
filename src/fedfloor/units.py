"""From the reader's units to SI and back; the suffix of a scenario key names its unit."""

__all__ = ["FROM_SUFFIX", "db_to_ratio", "dbm_to_watt", "rescaled", "split_suffix", "to_si"]

import math
from collections.abc import Callable
from functools import cache
from types import MappingProxyType

#: suffix of a key -> (what it measures, its size in SI units)
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
    """Stem and unit suffix of a key: `max_power_mw` -> (`max_power`, `mw`); no unit gives an empty suffix."""
    for suffix in sorted(FROM_SUFFIX, key=len, reverse=True):
        if key.endswith("_" + suffix):
            return key[: -len(suffix) - 1], suffix
    return key, ""


def to_si(key: str, value: float) -> float:
    """The value of a scenario key in SI units, by the suffix of the key."""
    suffix = split_suffix(key)[1]
    return FROM_SUFFIX[suffix](value) if suffix else value


def rescaled(value: float, suffix: str, wanted: str) -> float | None:
    """The value given in one unit, in another of the same kind; None where the units do not compare."""
    if suffix == "dbm":
        value, suffix = dbm_to_watt(value), "w"
    have, want = _SCALES.get(suffix), _SCALES.get(wanted)
    if have is None or want is None or have[0] != want[0]:
        return None
    return value * have[1] / want[1]
