"""The learning: networks, and later split steps, averaging and data; the only place that imports torch."""
