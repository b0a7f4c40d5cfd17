"""The learning: data, networks, split steps, averaging and the processes that do it; only place that imports torch."""
