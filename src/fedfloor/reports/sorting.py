"""The order of labels: words by letters and numbers by size."""

__all__ = ["natural_key"]

import re


def natural_key(label: str) -> list[tuple[float, str]]:
    """What labels are sorted by, so that v=2 comes before v=10."""
    words = re.split(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)", label)
    return [(float(word), "") if at % 2 else (-1.0, word) for at, word in enumerate(words)]
