"""Training: data, networks, split steps and averaging; the only place that imports torch."""
