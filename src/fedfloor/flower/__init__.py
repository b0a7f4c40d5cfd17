"""The bridge to Flower; the only place that imports flwr."""
